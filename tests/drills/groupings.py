"""What a library says about its people, and what its user has decided."""

from __future__ import annotations

import collections
import dataclasses

from .library import Library


@dataclasses.dataclass
class Grouping:
    """Who the faces of a library show, by each list of the server."""

    # The faces in the order of their list, and the person and the pin of each.
    faces: list[str]
    persons: dict[str, str | None]
    pinned: set[str]
    # Person → the entry of the list of people, and the faces that the list of this person has.
    people: dict[str, dict]
    members: dict[str, list[str]]
    unassigned: list[str]

    @classmethod
    def read(cls, library: Library) -> Grouping:
        faces = list(library.listed("enrollments"))
        people = {person["id"]: person for person in library.listed("people")}
        return cls(
            faces=[face["id"] for face in faces],
            persons={face["id"]: face.get("person_id") for face in faces},
            pinned={face["id"] for face in faces if face["pinned"]},
            people=people,
            members={person: [face["id"] for face in library.listed("enrollments", f"&person={person}")] for person in people},
            unassigned=[face["id"] for face in library.listed("enrollments", "&unassigned=true")],
        )

    def partition(self) -> set[frozenset[str]]:
        """Returns the faces of each person. The ids of people do not matter."""
        return {frozenset(members) for members in self.members.values()}

    def faults(self, enrolled: set[str]) -> list[str]:
        """Returns how the lists contradict each other, or the faces that were enrolled."""
        found = []
        if len(self.faces) != len(enrolled) or set(self.faces) != enrolled:
            found.append(f"{len(self.faces)} faces are listed, {len(enrolled - set(self.faces))} are lost")
        listed = [*self.unassigned, *(face for members in self.members.values() for face in members)]
        if len(listed) != len(enrolled) or set(listed) != enrolled:
            twice = len(listed) - len(set(listed))
            found.append(f"people and nobody have {len(listed)} of {len(enrolled)} faces, {twice} of them twice")
        by_person = {face: person for person, members in self.members.items() for face in members}
        if differing := sum(by_person.get(face) != person for face, person in self.persons.items()):
            found.append(f"{differing} faces are of another person by the list of their person")
        wrong = [person for person, entry in self.people.items() if not 0 < entry["faces"] == len(self.members[person])]
        if wrong:
            found.append(f"{len(wrong)} people have another number of faces, or none")
        return found


class Decisions:
    """What the user has decided about faces and names. No clustering may change it."""

    def __init__(self, library: Library) -> None:
        self.library = library
        # Face → the person that it must have. None: nobody.
        self.persons: dict[str, str | None] = {}
        self.names: dict[str, str] = {}

    def merge(self, into: str, other: str, faces: list[str]) -> None:
        self.library.send("POST", "/people/merge", {"into": into, "people": [other]})
        self.persons |= dict.fromkeys(faces, into)

    def split(self, person: str, stays: list[str], goes: list[str]) -> None:
        new = self.library.send("POST", f"/people/{person}/split", {"faces": goes})["id"]
        self.persons |= dict.fromkeys(stays, person) | dict.fromkeys(goes, new)

    def assign(self, face: str, person: str | None) -> None:
        self.library.send("PUT", f"/enrollments/{face}/person", {"person_id": person})
        self.persons[face] = person

    def name(self, person: str, name: str) -> None:
        self.library.send("PATCH", f"/people/{person}", {"name": name})
        self.names[person] = name

    def people(self) -> set[str]:
        """Returns the people who have pinned faces."""
        return {person for person in self.persons.values() if person}

    def broken(self, grouping: Grouping) -> list[str]:
        found = []
        moved = [face for face, person in self.persons.items() if grouping.persons.get(face, "no such face") != person]
        if moved:
            found.append(f"{len(moved)} faces left the person that the user chose")
        if grouping.pinned != set(self.persons):
            found.append(f"{len(grouping.pinned)} faces are pinned in place of {len(self.persons)}")
        for person, name in self.names.items():
            if grouping.people.get(person, {}).get("name") != name:
                found.append(f"the name {name} is lost")
        return found


def largest(grouping: Grouping, faces: list[str]) -> str:
    """Returns the person who has the most of these faces."""
    counts = collections.Counter(person for face in faces if (person := grouping.persons[face]) is not None)
    return counts.most_common(1)[0][0]
