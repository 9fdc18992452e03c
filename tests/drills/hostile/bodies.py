"""The property of bodies: for every route and content type of the OpenAPI document, a structured body takes at most twice its size,
a stated time, and never ends with 5xx."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .attack import ALLOWANCE, Attack, Report
from .forms import part
from .memory import MIB
from .shapes import JSON_SHAPES, MSGPACK_SHAPES, Shape, in_object, json_list, repeated
from .target import FORM, JSON, MSGPACK, NDJSON, Target

# The time that a body of the limit may take, and the sizes in turn. The largest one is just below `server.max_body_bytes`.
SECONDS = 10
SIZES = (63 * MIB, 1 * MIB, 12 * MIB)
# Any text does for these; others need a value that lets the rest of the body be read.
PLAUSIBLE = {
    "operation": "detect",
    "name": "drill",
    "purpose": "drill",
    "legal_basis": "none",
    "retention_days": 30,
    "url": "https://example.com/",
}


@dataclass(frozen=True)
class Case:
    """A body of a route."""

    method: str
    path: str
    kind: str
    # What in the body has the shape.
    place: str
    shape: Shape
    size: int
    others: dict[str, object]

    def __str__(self) -> str:
        return f"{self.method} {self.path}, {self.kind.partition(';')[0]}, {self.shape[0]} at {self.place or 'the top'}"

    def body(self) -> bytes:
        value = self.shape[1](self.size)
        if self.kind == FORM:
            return part(self.place or "x", value) + b"--b--\r\n"
        if self.kind == NDJSON:
            head = b'{"operation":"detect"}\n' if self.path == "/batches" else b""
            return head + (in_object(self.place, value, {}) if self.place else value.replace(b",", b"\n")) + b"\n"
        return in_object(self.place, value, self.others, self.kind == MSGPACK) if self.place else value


def parts_of(name: str, count: int, size: int) -> bytes:
    """Returns parts that are dear to parse. Their values are skipped, because they are too deep."""
    return (b"\r\n" + part(name, b'{"x":[[[[[' + json_list(b"0", size - 32) + b"]]]]]}")) * count


FORM_SHAPES: list[Shape] = [
    *JSON_SHAPES[:5],
    ("many empty parts", lambda size: repeated(b"\r\n" + part("image"), size)),
    ("many parts of an option", lambda size: repeated(b"\r\n" + part("det_size", b"640"), size)),
    ("190 parts of options", lambda size: parts_of("options", 190, min(size // 190, 256 << 10))),
    ("190 nested parts of an unknown option", lambda size: parts_of("x", 190, min(size // 190, 64 << 10))),
    ("many headers", lambda size: b"\r\n--b\r\n" + repeated(b"a: b\r\n", size) + b"\r\n"),
    ("almost boundaries", lambda size: repeated(b"\r\n--", size)),
    ("bytes", bytes),
]
SHAPES = {JSON: JSON_SHAPES, MSGPACK: MSGPACK_SHAPES, NDJSON: JSON_SHAPES, FORM: FORM_SHAPES}


def resolved(document: dict, schema: dict) -> dict:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def fields(document: dict, schema: dict) -> tuple[list[str], list[str]]:
    """Returns the names of all fields of a body and those that it needs."""
    schema = resolved(document, schema)
    parts = [schema, *(resolved(document, each) for key in ("allOf", "oneOf", "anyOf") for each in schema.get(key, []))]
    names = dict.fromkeys(name for each in parts for name in each.get("properties", {}))
    return list(names), [name for each in parts for name in each.get("required", [])]


def routes(document: dict) -> Iterator[tuple[str, str, str, list[str], list[str]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for sent, content in operation.get("requestBody", {}).get("content", {}).items():
                kind = FORM if sent == "multipart/form-data" else sent
                if kind in SHAPES:
                    yield method.upper(), path, kind, *fields(document, content.get("schema", {}))


def found(kind: str, name: str) -> Shape:
    return next(shape for shape in SHAPES[kind] if shape[0] == name)


def fixed_cases() -> Iterator[Case]:
    """The bodies that once took too much memory, or the thread that serves all requests."""
    for path in ("/detect", "/embed", "/process"):
        for name in ("a long text behind the name of an image's bytes", "a long text that looks like an image's bytes"):
            yield Case("POST", path, MSGPACK, "images", found(MSGPACK, name), 60 * MIB, {})
        yield Case("POST", path, JSON, "images", found(JSON, "an image of escapes"), 60 * MIB, {})
    for path in ("/detect", "/verify", "/batches", "/collections/{id}/searches"):
        for name in ("190 parts of options", "190 nested parts of an unknown option"):
            yield Case("POST", path, FORM, "image", found(FORM, name), 47 * MIB, {})


def cases(document: dict) -> Iterator[Case]:
    """The fixed cases. Then each field of each body, one that is unknown, and the body itself, with the shapes and sizes in turn."""
    yield from fixed_cases()
    shapes, sizes = {kind: itertools.cycle(each) for kind, each in SHAPES.items()}, itertools.cycle(SIZES)
    for method, path, kind, names, needed in routes(document):
        for place in ("", "unknown", *names):
            others = {name: PLAUSIBLE.get(name, []) for name in needed if name != place}
            yield Case(method, path, kind, place, next(shapes[kind]), next(sizes), others)


def existing(target: Target) -> dict[str, str]:
    """Returns ids of resources that exist, by the start of the paths that need them."""
    gallery, library = target.collection()["id"], target.collection(kind="library")["id"]
    subject = target.alice.made(f"/collections/{gallery}/subjects", {})["id"]
    batch = target.alice.made("/batches", {"operation": "detect", "open": True, "items": []})["id"]
    return {
        "/collections/{id}/people": library,
        "/collections/{id}/clusterings": library,
        "/collections/{id}/enrollments": library,
        "/collections": gallery,
        "{subject}": subject,
        "/batches": batch,
    }


def filled(path: str, ids: dict[str, str]) -> str:
    first = next((value for start, value in ids.items() if path.startswith(start)), str(uuid.uuid4()))
    path = path.replace("{id}", first).replace("{subject}", ids["{subject}"])
    return "/".join(str(uuid.uuid4()) if piece.startswith("{") else piece for piece in path.split("/"))


def bodies(target: Target, report: Report) -> None:
    """Posts each body alone. A server that dies is started again for the next one."""
    target.run()
    ids = existing(target)
    slowest, most, count = 0.0, 0.0, 0
    for case in cases(target.alice.get("/openapi.json").json()):
        if target.server.poll() is not None:
            target.run()
        target.bob.detect()
        body, before = case.body(), target.status_field("VmRSS")
        Path(f"/proc/{target.server.pid}/clear_refs").write_text("5")
        response = report.saw(target.alice.request(case.method, filled(case.path, ids), body, case.kind))
        grown = target.status_field("VmHWM") - before
        figures = f"{response.status} {response.code}, {response.seconds:.1f} s, {grown / MIB:,.0f} MiB"
        holds = (
            target.server.poll() is None and response.status < 500 and response.seconds <= SECONDS and grown <= 2 * len(body) + ALLOWANCE
        )
        if not holds:
            print(f"     {case}, {len(body) / MIB:.0f} MiB: {figures}", flush=True)
        report.expect(holds, f"{case}: {figures}")
        slowest, most, count = max(slowest, response.seconds), max(most, grown - 2 * len(body)), count + 1
    report.notes.append(f"{count} bodies, at most {slowest:.1f} s, and twice their size and {max(most, 0) / MIB:.0f} MiB")


ATTACKS = [Attack("bodies: each field of each route", bodies, watched=False)]
