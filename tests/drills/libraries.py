"""A drill of libraries: the server is killed while a clustering waits or runs."""

from __future__ import annotations

import argparse
import collections
import random
import subprocess
import sys
import time

from .groupings import Decisions, Grouping, largest
from .installation import Installation, check
from .library import SETTINGS, Library
from .synthetic import center, face

# The lease of a clustering, and the time between two looks for one, in crates/recognition/src/libraries/worker.rs.
LEASE, POLL = 60, 1
# The faces of each person. One face in STRANGERS is of a person who has no other.
FACES, STRANGERS = 10, 20
# The people about whom the user decides something.
DECIDED = 6
# A kill comes at any time, at any time of the work, or as soon as a part of the result is stored.
MOMENTS = ("any", "work", "result")


class Archive:
    """A library of people, the decisions of its user, and its server."""

    def __init__(self, installation: Installation, items: int) -> None:
        self.installation = installation
        self.clock, self.ahead = installation.folder / "clock", 0
        self.jump(0)
        self.server = self.serve()
        self.library = Library(installation)
        # Face → the number of the person that it shows.
        self.shown: dict[str, int] = {}
        strangers = items // STRANGERS
        people = (items - strangers) // FACES
        self.centers = [center() for _ in range(people + strangers)]
        self.enroll([*range(people)] * FACES + [*range(people, people + strangers)])
        self.decisions = Decisions(self.library)

    def serve(self) -> subprocess.Popen:
        return self.installation.serve("--clock-offset", str(self.clock))

    def jump(self, seconds: int) -> None:
        """Moves the clock of the server forward."""
        self.ahead += seconds
        # The server reads the file all the time, and must not see it empty.
        new = self.clock.with_suffix(".new")
        new.write_text(str(self.ahead))
        new.replace(self.clock)

    def enroll(self, people: list[int]) -> None:
        """Enrolls a new face of each of these people, in random order."""
        random.shuffle(people)
        ids = self.library.enroll([face(self.centers[person]) for person in people])
        self.shown |= zip(ids, people)

    def request(self) -> str:
        """Requests a clustering that has every result to store, because faces without a pin have no people."""
        # No request of the API forgets all of them at once.
        self.installation.query("DELETE FROM memberships WHERE NOT is_pinned")
        return self.library.send("POST", "/clusterings", {"full": True})["id"]

    def read(self, clustering: str) -> dict:
        return self.library.send("GET", f"/clusterings/{clustering}")

    def until(self, clustering: str, states: tuple[str, ...], seconds: float = 120) -> dict:
        """Waits until a clustering has one of these states."""
        deadline = time.monotonic() + seconds
        while (now := self.read(clustering))["state"] not in states:
            if now["state"] == "failed" or time.monotonic() > deadline:
                sys.exit(f"drill: the clustering is not {' or '.join(states)} within {seconds} s: {now}")
            time.sleep(0.01)
        return now

    def decide(self) -> None:
        """Decides as a user does who looks at the people that the first clustering has found."""
        first = self.request()
        self.until(first, ("done",))
        grouping = Grouping.read(self.library)
        by_number = collections.defaultdict(list)
        for one, number in self.shown.items():
            by_number[number].append(one)
        people = [largest(grouping, by_number[number]) for number in range(DECIDED)]
        faces = [[one for one in grouping.faces if grouping.persons[one] == person] for person in people]
        decisions = self.decisions
        decisions.merge(people[0], people[1], faces[0] + faces[1])
        decisions.name(people[0], "Ada")
        decisions.split(people[2], faces[2][: FACES // 2], faces[2][FACES // 2 :])
        decisions.assign(faces[3][0], people[4])
        decisions.assign(faces[5][0], None)
        # New faces of the people that the decisions are about. They are free to join a person with pinned faces.
        self.enroll([*range(DECIDED)] * 2)

    def confirm(self) -> None:
        """Decides during a clustering: a face stays with the person to whom a part of the result has assigned it."""
        one = random.choice([one for one in self.library.listed("enrollments") if "person_id" in one and not one["pinned"]])
        self.decisions.assign(one["id"], one["person_id"])

    def stored(self) -> tuple[str, bool]:
        """Returns the state of the last clustering in the database, and whether it has assigned faces."""
        state = self.installation.query("SELECT state FROM clusterings ORDER BY id DESC LIMIT 1")[0][0]
        assigned = int(self.installation.query("SELECT count(*) FROM memberships WHERE NOT is_pinned")[0][0])
        return state, assigned > 0


def wait_for(moment: str, archive: Archive, clustering: str, duration: float) -> None:
    """Waits until the moment of the kill."""
    if moment == "any":
        time.sleep(random.uniform(0, POLL + duration))
        return
    archive.until(clustering, ("running", "done"))
    if moment == "work":
        time.sleep(random.uniform(0, duration))
        return
    # A result is stored in several transactions: first the new people, then their faces. People are listed by their ids, so the
    # new ones come last.
    newest, faces = max(archive.decisions.people()), random.choice((0, 1, 1))
    while archive.read(clustering)["state"] == "running":
        people = archive.library.send("GET", f"/people?limit=1&after={newest}")["results"]
        if people and people[0]["faces"] >= faces:
            return


class Rounds:
    """The kills, and what was wrong after them."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        # The state at the kill → kills.
        self.kills: collections.Counter = collections.Counter()
        self.after_a_part = 0
        self.lease: float | None = None
        self.broken: list[str] = []
        self.faults: list[str] = []
        self.differing: list[str] = []

    def undisturbed(self) -> None:
        """Makes the clustering that the others must equal."""
        clustering = self.archive.request()
        self.archive.until(clustering, ("running",))
        began = time.monotonic()
        self.archive.until(clustering, ("done",))
        self.duration = time.monotonic() - began
        self.expected = self.verify(clustering).partition()

    def verify(self, clustering: str) -> Grouping:
        """Checks what holds after each clustering."""
        archive = self.archive
        end, grouping = archive.read(clustering), Grouping.read(archive.library)
        self.broken += archive.decisions.broken(grouping)
        self.faults += grouping.faults(set(archive.shown))
        counts = (end["faces"], end["people"], end["unassigned"])
        listed = (len(archive.shown), len(grouping.people), len(grouping.unassigned))
        if counts != listed:
            self.faults.append(f"the clustering counts {counts} faces, people and unassigned, and the lists have {listed}")
        return grouping

    def run(self, moment: str) -> None:
        """Kills the server at a moment of a clustering. The first such clustering waits for the end of its lease; for the others, the
        clock moves forward."""
        archive = self.archive
        clustering = archive.request()
        wait_for(moment, archive, clustering, self.duration)
        archive.installation.kill(archive.server)
        state, is_partly_stored = archive.stored()
        self.kills[state] += 1
        self.after_a_part += state == "running" and is_partly_stored
        archive.server = archive.serve()
        began = time.monotonic()
        is_first = state == "running" and self.lease is None
        if state == "running" and is_partly_stored:
            archive.confirm()
        if state == "running" and not is_first:
            archive.jump(LEASE)
        archive.until(clustering, ("done",), LEASE + POLL + 10 * self.duration + 30)
        if is_first:
            self.lease = time.monotonic() - began
        partition = self.verify(clustering).partition()
        if partition != self.expected:
            self.differing.append(f"{len(partition ^ self.expected)} people differ after a kill in the state {state}")

    def are_enough(self, wanted: int) -> bool:
        """Returns whether enough kills came before the end of a clustering, and one of them after a part of the result."""
        return self.kills["queued"] + self.kills["running"] >= wanted and self.after_a_part > 0


def found_exactly(archive: Archive, partition: set[frozenset[str]]) -> float:
    """Returns the share of the people with several faces of whom a clustering has every face and no other."""
    faces = collections.defaultdict(set)
    for one, number in archive.shown.items():
        faces[number].add(one)
    # Not those about whom the user has decided otherwise.
    several = [frozenset(of_one) for number, of_one in faces.items() if number >= DECIDED and len(of_one) > 1]
    return sum(of_one in partition for of_one in several) / len(several)


def report(name: str, rounds: Rounds, wanted: int) -> None:
    archive = rounds.archive
    figure = f"{len(archive.shown)} faces, {len(rounds.expected)} people in {rounds.duration:.2f} s, "
    share = found_exactly(archive, rounds.expected)
    check(f"{name}: an undisturbed clustering finds the people", share >= 0.9, f"{figure}{share:.1%} of them exactly")
    kills = f"{rounds.kills['queued']} while queued, {rounds.kills['running']} while running"
    kills += f" ({rounds.after_a_part} after a part of the result), {rounds.kills['done']} too late"
    check(f"{name}: kills", rounds.are_enough(wanted), kills)
    lease = "no kill while running" if rounds.lease is None else f"done {rounds.lease:.1f} s after the restart"
    most = LEASE + POLL + 3 * rounds.duration + 5
    check(f"{name}: a clustering goes on after its lease", rounds.lease is not None and rounds.lease <= most, lease)
    figure = f"{len(archive.decisions.persons)} pinned faces"
    check(f"{name}: every decision holds", not rounds.broken, "; ".join([figure, *rounds.broken[:5]]))
    figure = f"{len(archive.shown)} faces"
    check(f"{name}: each face has one person or none", not rounds.faults, "; ".join([figure, *rounds.faults[:5]]))
    figure = f"{len(rounds.differing)} of {rounds.kills.total()} differ"
    check(f"{name}: the people are those of an undisturbed clustering", not rounds.differing, "; ".join([figure, *rounds.differing[:5]]))


def libraries(args: argparse.Namespace) -> None:
    wanted = args.rounds or 30
    for database in ("sqlite", "postgres"):
        with Installation(database, **SETTINGS) as installation:
            archive = Archive(installation, args.items or 4000)
            archive.decide()
            rounds, tries = Rounds(archive), 0
            rounds.undisturbed()
            # A kill can come too late. Then it does not count.
            while not rounds.are_enough(wanted) and tries < 3 * wanted + 10:
                rounds.run(MOMENTS[tries % len(MOMENTS)])
                tries += 1
            report(f"libraries on {database}", rounds, wanted)
