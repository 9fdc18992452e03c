"""Promises that one request or one start shows: early refusals, damaged files, closed addresses, a warning."""

from __future__ import annotations

import json
import socket

from .attack import Attack, Report
from .target import JSON, PHOTO, Target


def early(target: Target, report: Report) -> None:
    """A body that is refused before its end says so with `connection: close`."""
    target.run()
    for what, caller, path, kind in (
        ("no key", target.stranger, "/detect", "image/jpeg"),
        ("an unknown type", target.alice, "/detect", "text/html"),
        ("too long", target.alice, "/detect", "image/jpeg"),
        ("an unknown route", target.alice, "/nothing", JSON),
        ("a wrong scope", target.tenant("alice", "read"), "/collections", JSON),
    ):
        length = 900_000_000 if what == "too long" else 5_000_000
        with target.connect() as connection:
            connection.settimeout(10)
            connection.sendall(caller.head(path, kind, f"content-length: {length}") + b"\xff")
            try:
                received = connection.recv(4096).decode(errors="replace").lower()
            except OSError:
                received = ""
        report.outcomes[received[9:12] or "none"] += 1
        report.expect(received[9:10] == "4", f"{what}: no early response")
        report.expect("connection: close" in received, f"{what}: no `connection: close`")


def damaged(target: Target, report: Report) -> None:
    """A database file that is damaged while the server runs is 503 and not 500."""
    target.run()
    target.alice.detect(query="store=true")
    target.query("PRAGMA wal_checkpoint(TRUNCATE)")
    path = target.folder / "facescan.sqlite"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    for response in (
        target.alice.get("/images"),
        target.alice.get("/batches"),
        target.alice.detect(PHOTO + b"1", "store=true"),
        target.alice.post("/batches?operation=detect", PHOTO, "image/jpeg"),
    ):
        report.saw(response)
        report.expect(response.status in (200, 503), f"{response.status} {response.code}")


def closed_addresses(target: Target, report: Report) -> None:
    """Names inside tell nothing: those that exist and those that do not are refused alike. Who sends an address knows what it is."""
    target.run()
    seen = set()
    for host in (socket.gethostname(), "nothing.invalid", "metadata.google.internal"):
        response = report.saw(target.alice.post("/detect", {"images": [{"url": f"https://{host}/"}], "options": {"store": False}}))
        results = (response.json() or {}).get("results") or [response.json()]
        error = results[0].get("error", results[0])
        seen.add((error.get("code"), str(error.get("detail")).replace(host, "HOST")))
    report.notes.append(f"{len(seen)} different answers")
    report.expect(len(seen) == 1, f"the answers tell names apart: {json.dumps(sorted(seen))[:300]}")


def warned(target: Target, report: Report) -> None:
    """The start of a keyless server says what a proxy in front of it would do."""
    target.environment["LOG_LEVEL"] = "info"
    target.run()
    report.expect("proxy" in target.log(), "the log of the start has no word of a proxy")


ATTACKS = [
    Attack("promises: bodies that are refused early", early, watched=False, databases=("sqlite",)),
    Attack("promises: a damaged database", damaged, watched=False, databases=("sqlite",), due=("503",)),
    Attack("promises: names of hosts inside", closed_addresses, watched=False, databases=("sqlite",), settings={"urls__enabled": True}),
    Attack("promises: a warning of proxies", warned, watched=False, databases=("sqlite",), settings={"access__mode": "auto"}),
]
