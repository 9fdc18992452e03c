"""A drill of change: 30 % of the faces are replaced again and again, and searches must stay as complete as in a new index."""

from __future__ import annotations

import argparse
import concurrent.futures
import copy
import dataclasses
import random
import subprocess

from own_server import free_port

from .installation import Installation, check, resident, wait
from .library import SETTINGS, Library
from .synthetic import center, cosine, face

ROUNDS, SHARE = 5, 0.3
# The faces of each person on average. The cosines within a person are about 0.7, so some are below the threshold.
FACES, THRESHOLD = 10, 0.65
# Cosines of the server and of the drill differ by the rounding of 32 bits. Faces that are closer to the threshold do not count.
ROUNDING = 1e-5
# The cosine from which the drill knows a face. A person without a face above the threshold is not searched for.
KEPT = THRESHOLD - 0.01
# The searches of a measurement, and the most candidates of each: more than a person has faces.
QUERIES, MOST = 500, 50
# A figure may be this much lower than that of a new index.
LOSS = 0.002


@dataclasses.dataclass
class Query:
    """A new face of a person, and the enrolled faces that are similar to it, compared one by one."""

    vector: list[float]
    body: bytes
    similar: dict[str, float] = dataclasses.field(default_factory=dict)

    def matches(self) -> set[str]:
        return {one for one, similarity in self.similar.items() if similarity >= THRESHOLD + ROUNDING}


@dataclasses.dataclass
class Recall:
    """How complete the answers of all searches were."""

    top: float
    matches: float
    # The matches that there are, and the answers that say that no face was left out.
    expected: int
    exact: int
    wrong: list[str]

    def __str__(self) -> str:
        return f"{self.top:.2%} of the top faces, {self.matches:.3%} of {self.expected} matches"

    def loss(self, other: Recall) -> float:
        """Returns how much less complete this is than another one."""
        return max(other.top - self.top, other.matches - self.matches)


class Population:
    """The enrolled faces, and searches for them."""

    def __init__(self, library: Library, items: int) -> None:
        self.library = library
        self.centers = [center() for _ in range(items // FACES)]
        self.enrolled: list[str] = []
        vectors = [face(random.choice(self.centers)) for _ in range(QUERIES)]
        self.queries = [Query(vector, library.search_body(vector, threshold=THRESHOLD, limit=MOST)) for vector in vectors]

    def enroll(self, count: int) -> None:
        vectors = [face(random.choice(self.centers)) for _ in range(count)]
        ids = self.library.enroll(vectors)
        self.enrolled += ids
        for query in self.queries:
            for enrollment, vector in zip(ids, vectors):
                similarity = cosine(query.vector, vector)
                if similarity >= KEPT:
                    query.similar[enrollment] = similarity

    def erase(self, count: int) -> None:
        random.shuffle(self.enrolled)
        erased, self.enrolled = self.enrolled[:count], self.enrolled[count:]
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            list(threads.map(self.library.erase, erased))
        for query in self.queries:
            for enrollment in erased:
                query.similar.pop(enrollment, None)

    def recall(self, library: Library) -> Recall:
        """Searches for every query, and compares the answers with all enrolled faces."""
        tops = found = expected = exact = asked = 0
        wrong = []
        for query in self.queries:
            if not (matches := query.matches()):
                continue
            answer = library.search(query.body)
            candidates = {one["enrollment_id"]: one["similarity"] for one in answer["candidates"]}
            for enrollment, similarity in candidates.items():
                # An erased face, or one whose vector is not that of the enrollment.
                if abs(query.similar.get(enrollment, 2) - similarity) > ROUNDING:
                    wrong.append(f"a face was found with {similarity} in place of {query.similar.get(enrollment)}")
            first = next(iter(candidates), "")
            asked, exact = asked + 1, exact + answer["index"]["exact"]
            tops += query.similar.get(first, 0) >= max(query.similar.values()) - ROUNDING
            found, expected = found + len(matches & candidates.keys()), expected + len(matches)
            if answer["n_searched"] != len(self.enrolled):
                wrong.append(f"{answer['n_searched']} of {len(self.enrolled)} faces were searched")
        return Recall(tops / asked, found / expected, expected, exact, wrong)

    def recall_of_new_server(self) -> Recall:
        """Returns the recall of a server that has just read all faces. The first one goes on, so that its memory can be compared."""
        installation = copy.copy(self.library.installation)
        installation.port = free_port()
        process = installation.start("serve")
        wait("a second server", lambda: installation.status("/readyz") == 200)
        library = copy.copy(self.library)
        library.installation = installation
        recall = self.recall(library)
        installation.kill(process)
        return recall

    def recall_of_new_hnsw(self) -> Recall:
        """Builds the HNSW index again, and returns its recall."""
        name = self.library.installation.query("SELECT relname FROM pg_class WHERE relname LIKE 'enrollments_hnsw_%'")[0][0]
        self.library.installation.query(f"REINDEX INDEX {name}")
        return self.recall(self.library)


class Figures:
    """The figures of all rounds."""

    def __init__(self, name: str, population: Population, server: subprocess.Popen) -> None:
        self.name, self.population, self.server = name, population, server
        self.recalls: list[Recall] = []
        self.new: list[Recall] = []
        self.memory: list[float] = []

    def measure(self, number: int) -> None:
        recall = self.population.recall(self.population.library)
        self.recalls.append(recall)
        self.memory.append(resident(self.server) / (1 << 20))
        print(f"     {self.name}, round {number}: {recall}; {self.memory[-1]:.0f} MiB", flush=True)

    def measure_new(self, recall: Recall) -> None:
        self.new.append(recall)
        print(f"     {self.name}, a new index: {recall}", flush=True)

    def report(self, least: float) -> None:
        """Reports the worst figures. The new indexes belong to the last rounds."""
        worst = min(min(recall.top, recall.matches) for recall in self.recalls)
        check(f"churn, {self.name}: recall beside a comparison of all faces", worst >= least, f"{worst:.3%} at least")
        losses = [recall.loss(new) for recall, new in zip(self.recalls[-len(self.new) :], self.new)]
        check(f"churn, {self.name}: recall beside a new index", max(losses) <= LOSS, f"{max(losses):+.3%} lost at most")
        wrong = [text for recall in [*self.recalls, *self.new] for text in recall.wrong]
        check(f"churn, {self.name}: every candidate is enrolled", not wrong, "; ".join([f"{len(wrong)} are not", *wrong[:5]]))
        first, most = self.memory[0], max(self.memory)
        check(f"churn, {self.name}: memory of the server", most <= 1.3 * first, f"{first:.0f} MiB after the first load, at most {most:.0f}")


def change(figures: Figures, items: int, is_hnsw: bool) -> None:
    """Replaces a share of the faces several times."""
    population = figures.population
    for number in range(1, ROUNDS + 1):
        changed = int(items * SHARE)
        population.erase(changed)
        population.enroll(changed)
        figures.measure(number)
        if not is_hnsw:
            figures.measure_new(population.recall_of_new_server())
    if is_hnsw:
        figures.measure_new(population.recall_of_new_hnsw())


def churn(args: argparse.Namespace) -> None:
    items = args.items or 20_000
    hnsw = {"recognition__index": "pgvector", "recognition__hnsw_min_faces": items // 4}
    for database, own, least in (("sqlite", {}, 1 - LOSS), ("postgres", hnsw, 0.99)):
        with Installation(database, **SETTINGS, **own) as installation:
            if own:
                installation.query("CREATE EXTENSION vector")
            server = installation.serve()
            population = Population(Library(installation), items)
            population.enroll(items)
            if own:
                body = population.queries[0].body
                wait("the HNSW index", lambda: not population.library.search(body)["index"]["exact"], 600)
            figures = Figures(f"{'pgvector' if own else 'exact'} on {database}", population, server)
            figures.measure(0)
            change(figures, items, bool(own))
            figures.report(least)
            if own:
                exact = sum(recall.exact for recall in [*figures.recalls, *figures.new])
                check(f"churn, {figures.name}: searches use the HNSW index", exact == 0, f"{exact} compared all faces")
