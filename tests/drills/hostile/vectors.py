"""What a search, an enrollment and a comparison tell of vectors that nobody may read."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from .attack import Attack, Report
from .target import Response, Target, Tenant

DIM = 128
# From this cosine of the vector that was read to the true one, somebody has the face.
READ = 0.3


def unit(index: int) -> list[float]:
    return [float(index == n) for n in range(DIM)]


def enrolled(target: Target, tenant: Tenant) -> tuple[str, str, list[float]]:
    """Returns a gallery with one face, the vector space, and the vector of the face."""
    gallery = target.collection(tenant)
    subject = tenant.made(f"/collections/{gallery['id']}/subjects", {})["id"]
    drawn = [random.gauss(0, 1) for _ in range(DIM)]
    length = math.hypot(*drawn)
    vector = [value / length for value in drawn]
    face = {"embedding": vector, "vector_space": gallery["vector_space"]}
    tenant.made(f"/collections/{gallery['id']}/subjects/{subject}/enrollments", {"faces": [face], "options": {}})
    return f"/collections/{gallery['id']}", gallery["vector_space"], vector


def cosine(left: list[float], right: list[float]) -> float:
    length = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right)) / length if length else 0.0


def similarities(response: Response) -> float | None:
    """Returns the similarity of the first candidate of a search."""
    found = response.json() or {}
    found = (found.get("results") or [{"found": found}])[0].get("found") or {}
    candidates = found.get("candidates") or []
    return candidates[0]["similarity"] if candidates else None


def probes(probe: Callable[[int], list[float]], route: str, scopes: str | None, **options: object) -> Callable[[Target, Report], None]:
    """Returns an attack that adds up vectors of the caller, each by its similarity."""

    def run(target: Target, report: Report) -> None:
        target.run()
        path, vector_space, vector = enrolled(target, target.alice)
        caller, read = target.tenant("alice", scopes), [0.0] * DIM
        for index in range(DIM):
            tried = probe(index)
            body = {"faces": [{"embedding": tried, "vector_space": vector_space}], "options": {"purpose": "drill"} | options}
            similarity = similarities(report.saw(caller.post(f"{path}/{route}", body)))
            read = [a + (similarity or 0.0) * b for a, b in zip(read, tried)]
        report.notes.append(f"cosine of what was read {cosine(read, vector):.2f}")
        report.expect(cosine(read, vector) < READ, f"a vector was read: its cosine to the true one is {cosine(read, vector):.3f}")

    return run


def tried(target: Target, caller: Tenant, path: str, vector_space: str, vector: list[float], report: Report) -> dict:
    """Returns what an enrollment of a vector for a new subject tells."""
    subject = target.alice.made(f"{path}/subjects", {})["id"]
    response = report.saw(
        caller.post(
            f"{path}/subjects/{subject}/enrollments", {"faces": [{"embedding": vector, "vector_space": vector_space}], "options": {}}
        )
    )
    found = response.json() or {}
    # A face that is rejected alone is the error of the request.
    return (found.get("results") or [found | {"reason": response.code}])[0]


def rejected(target: Target, report: Report) -> None:
    """Enrollments that conflict are searches: they count for the limit, and a key without the scope `search` does not learn who it is."""
    target.run()
    path, vector_space, vector = enrolled(target, target.alice)
    for name, scopes in (("enroll and search", target.with_vectors("enroll,search")), ("enroll", target.with_vectors("enroll"))):
        caller = target.tenant("alice", scopes)
        faces = [tried(target, caller, path, vector_space, vector, report) for _ in range(12)]
        told = sum(face.get("reason") == "conflict" for face in faces)
        report.notes.append(f"{name}: told {told} times")
        report.expect(told <= 5, f"{name}: {told} of 12 conflicts were told with a limit of 5 searches")
        if name == "enroll":
            report.expect("similarity" not in str(faces) and "subject_id" not in str(faces), f"{name}: a conflict tells who it is")


def oracle(target: Target, report: Report) -> None:
    """A key with `enroll` cannot tell people who are enrolled from people who objected."""
    target.run()
    path, vector_space, vector = enrolled(target, target.alice)
    _, _, objector = enrolled_as(target, "suppression")
    caller = target.tenant("alice", target.with_vectors("enroll"))
    seen = [tried(target, caller, path, vector_space, each, report) for each in (vector, objector)]
    report.notes.append(str([(face.get("status"), face.get("reason")) for face in seen]))
    report.expect(seen[0].get("reason") == seen[1].get("reason"), f"`enroll` tells who is suppressed: {seen}")


def enrolled_as(target: Target, kind: str) -> tuple[str, str, list[float]]:
    made = target.collection(kind=kind)
    subject = target.alice.made(f"/collections/{made['id']}/subjects", {})["id"]
    vector = unit(9)
    target.alice.made(
        f"/collections/{made['id']}/subjects/{subject}/enrollments",
        {"faces": [{"embedding": vector, "vector_space": made["vector_space"]}], "options": {}},
    )
    return made["id"], made["vector_space"], vector


def signs(index: int) -> list[float]:
    """A row of a Hadamard matrix, which has a part of every component."""
    return [(-1) ** bin(index & n).count("1") / math.sqrt(DIM) for n in range(DIM)]


ATTACKS = [
    Attack(
        "vectors: unit vectors at a threshold of -1", probes(unit, "search", "search", threshold=-1, limit=100, by="face"), watched=False
    ),
    Attack("vectors: rows of a Hadamard matrix", probes(signs, "searches", "search", threshold=-1, limit=100), watched=False),
    Attack("vectors: a false accept rate of one", probes(unit, "search", "search", far=1, by="face"), watched=False),
    Attack("vectors: the lowest threshold that is taken", probes(signs, "search", "search", threshold=0, limit=100), watched=False),
    Attack(
        "vectors: rows of a Hadamard matrix at a usual threshold", probes(signs, "search", None, threshold=0.35, limit=50), watched=False
    ),
    Attack("vectors: unit vectors of a key with every scope", probes(unit, "search", None, threshold=-1), watched=False),
    Attack("vectors: conflicts of enrollments", rejected, watched=False, settings={"recognition__max_searches_per_day": 5}),
    Attack("vectors: who is suppressed, for enroll alone", oracle, watched=False),
]
