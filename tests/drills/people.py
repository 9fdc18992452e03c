"""Drills of collections: faces are enrolled, erased and searched for while the server is killed."""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from collections.abc import Callable

from .installation import Installation, check

DIM = 128
# Cosines of random vectors stay far below it. A few reach the threshold of a conflict.
SAME = 0.99


class Gallery:
    """A collection, and what its callers were told about it."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        body = {"name": "drill", "purpose": "drill", "legal_basis": "none", "retention_days": 30}
        collection = self.post("/collections", body)
        self.path, self.vector_space = f"/collections/{collection['id']}", collection["vector_space"]
        self.lock = threading.Lock()
        # Subject → vector. A subject whose request was not answered is in neither of the first two.
        self.enrolled: dict[str, list[float]] = {}
        self.erased: dict[str, list[float]] = {}
        self.unknown = 0
        self.wrong: list[str] = []

    def post(self, path: str, body: dict) -> dict:
        status, answer = self.installation.send("POST", path, json.dumps(body).encode())
        if status >= 500 or status == 429:
            raise OSError(status)
        assert status < 300, (path, status, answer)
        return json.loads(answer)

    def enroll(self) -> None:
        vector = [random.gauss(0, 1) for _ in range(DIM)]
        subject = self.post(f"{self.path}/subjects", {})["id"]
        face = {"embedding": vector, "vector_space": self.vector_space}
        try:
            answer = self.post(f"{self.path}/subjects/{subject}/enrollments", {"faces": [face], "options": {"allow_conflicts": True}})
        except OSError:
            self.unknown += 1
            raise
        assert answer["results"][0]["status"] == "enrolled", answer
        with self.lock:
            self.enrolled[subject] = vector
        # At once, also before the index has applied the enrollment.
        self.search_for(subject, vector)

    def erase(self) -> None:
        with self.lock:
            if not self.enrolled:
                return
            subject = random.choice(list(self.enrolled))
            vector = self.enrolled.pop(subject)
        try:
            status, answer = self.installation.send("DELETE", f"{self.path}/subjects/{subject}")
        except OSError:
            self.unknown += 1
            raise
        if status >= 500:
            self.unknown += 1
            raise OSError(status)
        assert status in (202, 204), (status, answer)
        with self.lock:
            self.erased[subject] = vector
        # At once, also before the index has applied the erasure.
        if subject in self.found(vector):
            self.wrong.append(f"{subject} was found after its erasure")

    def found(self, vector: list[float]) -> list[str]:
        face = {"embedding": vector, "vector_space": self.vector_space}
        options = {"purpose": "drill", "threshold": SAME}
        answer = self.post(f"{self.path}/search", {"faces": [face], "options": options})
        self.searched = answer["n_searched"]
        return [candidate["subject_id"] for candidate in answer["candidates"]]

    def search(self) -> None:
        with self.lock:
            if not self.enrolled:
                return
            subject, vector = random.choice(list(self.enrolled.items()))
        self.search_for(subject, vector)

    def search_for(self, subject: str, vector: list[float]) -> None:
        found = self.found(vector)
        with self.lock:
            if subject in self.enrolled and found != [subject]:
                self.wrong.append(f"{subject} was not found, but {found}")

    def work(self, act: Callable[[], object], stop: threading.Event) -> None:
        """Repeats an action until the server is gone."""
        while not stop.is_set():
            try:
                act()
            except (OSError, EOFError, ValueError):
                # The server was killed. The answer, if there was one, is not known.
                time.sleep(0.01)
            except Exception as error:
                if type(error).__module__ != "http.client":
                    self.wrong.append(repr(error))
                    return
                time.sleep(0.01)

    def verify(self, most: int) -> None:
        """Checks that the index has exactly the rows of the database."""
        for subjects, expects in ((self.enrolled, True), (self.erased, False)):
            for subject, vector in random.sample(list(subjects.items()), min(most, len(subjects))):
                if (subject in self.found(vector)) != expects:
                    self.wrong.append(f"{subject} is {'not ' * expects}found after a restart")
        self.found([1.0] * DIM)
        rows = int(self.installation.query("SELECT count(*) FROM enrollments")[0][0])
        if self.searched != rows:
            self.wrong.append(f"{self.searched} faces were searched, and there are {rows}")


def people(args: argparse.Namespace) -> None:
    rounds = args.rounds or 100
    for database in ("sqlite", "postgres"):
        with Installation(database, recognition__purposes="[drill]", recognition__max_searches_per_day=0) as installation:
            server = installation.serve()
            gallery = Gallery(installation)
            began = time.monotonic()
            for _ in range(rounds):
                stop = threading.Event()
                actions = [gallery.enroll] * 4 + [gallery.erase] * 2 + [gallery.search] * 2
                threads = [threading.Thread(target=gallery.work, args=(act, stop)) for act in actions]
                for thread in threads:
                    thread.start()
                time.sleep(random.uniform(0.2, 0.8))
                installation.kill(server)
                stop.set()
                for thread in threads:
                    thread.join()
                server = installation.serve()
                gallery.verify(20)
            gallery.verify(len(gallery.enrolled) + len(gallery.erased))
            figure = f"{len(gallery.enrolled)} enrolled, {len(gallery.erased)} erased, {gallery.unknown} not answered, "
            figure += f"{rounds} kills in {time.monotonic() - began:.0f} s"
            worked = len(gallery.enrolled) > rounds and len(gallery.erased) > rounds
            check(
                f"people on {database}: every answer holds after a kill",
                worked and not gallery.wrong,
                "; ".join([figure, *gallery.wrong[:5]]),
            )
