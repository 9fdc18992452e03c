"""A drill of searches beside changes: one client enrolls and erases faces, and eight search for them."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import http.client
import json
import random
import threading
import time
from collections.abc import Callable

from .installation import Installation, check
from .library import SETTINGS, Library
from .synthetic import center
from .throughput import percentile

READERS = 8
# The faces before the first search. Later the number changes little.
FACES = 2000
# A face is found by its own vector with this cosine, and strangers are far below LOWEST: a torn row would be between.
SAME, LOWEST = 0.9999, 0.6
# The newest faces, and those that were erased last, are searched for more often than others.
RECENT = 64


@dataclasses.dataclass
class Face:
    """A face of the library."""

    enrollment: str
    # The body of a search for it.
    body: bytes
    # Whether its enrollment was acknowledged and its erasure has not begun.
    is_enrolled: bool = True


class Client:
    """A connection to the server."""

    def __init__(self, library: Library) -> None:
        self.path = f"{library.path}/search"
        self.connection = http.client.HTTPConnection("127.0.0.1", library.installation.port, timeout=60)

    def search(self, face: Face) -> tuple[int, bytes]:
        self.connection.request("POST", self.path, face.body, {"content-type": "application/json"})
        response = self.connection.getresponse()
        return response.status, response.read()


class Crowd:
    """The faces that the clients know, and what they have seen."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.lock = threading.Lock()
        self.enrolled: list[Face] = []
        self.newest: collections.deque[Face] = collections.deque(maxlen=RECENT)
        self.erased: collections.deque[Face] = collections.deque(maxlen=20 * RECENT)
        self.enrollments = self.erasures = 0
        # The times of the searches of each reader.
        self.times: list[list[float]] = [[] for _ in range(READERS)]
        self.statuses: collections.Counter = collections.Counter()
        self.wrong: list[str] = []

    def enroll(self, count: int) -> list[Face]:
        vectors = [center() for _ in range(count)]
        ids = self.library.enroll(vectors)
        bodies = [self.library.search_body(vector, threshold=LOWEST) for vector in vectors]
        faces = [Face(enrollment, body) for enrollment, body in zip(ids, bodies)]
        with self.lock:
            self.enrolled += faces
            self.newest.extend(faces)
        return faces

    def erase(self) -> Face:
        with self.lock:
            at = random.randrange(len(self.enrolled))
            face = self.enrolled[at]
            self.enrolled[at] = self.enrolled[-1]
            self.enrolled.pop()
            face.is_enrolled = False
        self.library.erase(face.enrollment)
        with self.lock:
            self.erased.append(face)
        return face

    def choose(self) -> tuple[Face, bool]:
        """Returns a face to search for, and whether it must not be found."""
        with self.lock:
            share = random.random()
            if share < 0.25 and self.erased:
                return random.choice(self.erased), True
            return random.choice(self.newest if share < 0.5 else self.enrolled), False

    def note(self, text: str) -> None:
        with self.lock:
            self.wrong.append(text)

    def look(self, client: Client, face: Face, must_not: bool) -> float:
        """Searches for a face, and returns the time."""
        began = time.monotonic()
        status, body = client.search(face)
        seconds = time.monotonic() - began
        with self.lock:
            self.statuses[status] += 1
        if status != 200:
            self.note(f"{status} {body[:200]!r}")
            return seconds
        found = {candidate["enrollment_id"]: candidate["similarity"] for candidate in json.loads(body)["candidates"]}
        similarity = found.pop(face.enrollment, None)
        if found:
            self.note(f"strangers were found with cosines of {list(found.values())}")
        if similarity is not None and similarity < SAME:
            self.note(f"a face has a cosine of {similarity} with itself")
        if must_not and similarity is not None:
            self.note("a face was found after its erasure")
        # Its erasure may have begun meanwhile. Then both answers are right.
        if not must_not and similarity is None and face.is_enrolled:
            self.note("an enrolled face was not found")
        return seconds

    def read(self, number: int, end: float) -> None:
        client = Client(self.library)
        while time.monotonic() < end:
            self.times[number].append(self.look(client, *self.choose()))

    def write(self, end: float) -> None:
        client = Client(self.library)
        while time.monotonic() < end:
            # The number of faces stays near FACES.
            if random.random() * 2 * FACES > len(self.enrolled):
                face = self.enroll(1)[0]
                self.enrollments += 1
                self.look(client, face, False)
            else:
                face = self.erase()
                self.erasures += 1
                self.look(client, face, True)

    def verify(self) -> None:
        """Checks all faces when nothing changes any more."""
        client = Client(self.library)
        for face in self.enrolled:
            self.look(client, face, False)
        for face in self.erased:
            self.look(client, face, True)
        searched = self.library.search(self.enrolled[0].body)["n_searched"]
        rows = self.library.count()
        if not searched == rows == len(self.enrolled):
            self.note(f"{searched} faces were searched, there are {rows} in the database, and {len(self.enrolled)} were acknowledged")


def guarded(crowd: Crowd, act: Callable[..., object], *arguments: object) -> None:
    """Runs the loop of a client. A connection that breaks is wrong too."""
    try:
        act(*arguments)
    except Exception as error:
        crowd.note(repr(error))


def report(name: str, crowd: Crowd, seconds: float) -> None:
    times = [one for of_reader in crowd.times for one in of_reader]
    rates = (
        f"{len(times) / seconds:.0f} searches/s, {crowd.enrollments / seconds:.0f} enrollments/s, {crowd.erasures / seconds:.0f} erasures/s"
    )
    if times:
        rates += f", a search takes {percentile(times, 0.5) * 1e3:.1f} ms (p50) and {percentile(times, 0.99) * 1e3:.1f} ms (p99)"
    least = min(len(of_reader) for of_reader in crowd.times)
    worked = min(least, crowd.enrollments, crowd.erasures) >= seconds
    check(f"{name}: every client works", worked, f"{rates} for {seconds:.0f} s")
    check(f"{name}: every search is answered", set(crowd.statuses) == {200}, str(dict(crowd.statuses)))
    figure = f"{crowd.enrollments + FACES} enrolled, {crowd.erasures} erased, {len(crowd.wrong)} answers are wrong"
    check(f"{name}: enrolled faces are found, erased ones are not", not crowd.wrong, "; ".join([figure, *crowd.wrong[:5]]))


def readers(args: argparse.Namespace) -> None:
    seconds = (args.seconds or 600) / 2
    for database in ("sqlite", "postgres"):
        # A search is a request with one image. Two cores alone admit fewer at a time than there are clients.
        with Installation(database, admission__interactive_images=8 * READERS, **SETTINGS) as installation:
            installation.serve()
            crowd = Crowd(Library(installation))
            crowd.enroll(FACES)
            end = time.monotonic() + seconds
            threads = [threading.Thread(target=guarded, args=(crowd, crowd.read, number, end)) for number in range(READERS)]
            threads.append(threading.Thread(target=guarded, args=(crowd, crowd.write, end)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            guarded(crowd, crowd.verify)
            report(f"readers on {database}", crowd, seconds)
