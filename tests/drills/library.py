"""A library of synthetic faces, and requests to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .installation import Installation
from .synthetic import encoded

PURPOSE = "drill"
# The settings of an installation with libraries that are searched all the time.
SETTINGS = {"recognition__purposes": f"[{PURPOSE}]", "recognition__max_searches_per_day": 0}
# The most faces of a request by default (`server.max_images_per_request`).
TOGETHER = 64


class Library:
    """A library. Each request is sent once, and an answer that is not 2xx ends the drill."""

    def __init__(self, installation: Installation) -> None:
        self.installation, self.path = installation, "/collections"
        body = {"name": "drill", "kind": "library", "purpose": PURPOSE, "legal_basis": "none", "retention_days": 30}
        collection = self.send("POST", "", body)
        self.path, self.vector_space = f"/collections/{collection['id']}", collection["vector_space"]

    def send(self, method: str, path: str, body: dict | None = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        status, answer = self.installation.send(method, self.path + path, sent)
        assert 200 <= status < 300, (method, path, status, answer)
        return json.loads(answer) if answer else None

    def named(self, vector: list[float]) -> dict:
        """Returns a face as requests name it."""
        return {"embedding": encoded(vector), "vector_space": self.vector_space}

    def enroll(self, vectors: list[list[float]]) -> list[str]:
        """Enrolls faces, and returns their ids in order."""
        ids = []
        for first in range(0, len(vectors), TOGETHER):
            faces = [self.named(vector) for vector in vectors[first : first + TOGETHER]]
            for entry in self.send("POST", "/enrollments", {"faces": faces})["results"]:
                ids.append(entry["faces"][0]["enrollment_id"])
        return ids

    def erase(self, face: str) -> None:
        self.send("DELETE", f"/enrollments/{face}")

    def search_body(self, vector: list[float], **options: object) -> bytes:
        """Returns the body of a search for faces."""
        options = {"purpose": PURPOSE, "by": "face"} | options
        return json.dumps({"faces": [self.named(vector)], "options": options}).encode()

    def search(self, body: bytes) -> dict:
        status, answer = self.installation.send("POST", f"{self.path}/search", body)
        assert status == 200, (status, answer)
        return json.loads(answer)

    def listed(self, name: str, query: str = "") -> Iterator[dict]:
        """Yields the entries of all pages of a list: `enrollments` or `people`."""
        after = ""
        while True:
            page = self.send("GET", f"/{name}?limit=500{query}{after}")
            yield from page["results"]
            if "next" not in page:
                return
            after = f"&after={page['next']}"

    def count(self) -> int:
        """Returns the number of enrolled faces that the database has."""
        return int(self.installation.query("SELECT count(*) FROM enrollments")[0][0])
