"""Promises that one request or one start shows: headers, early refusals, newer tables, damaged files, metrics, closed addresses."""

from __future__ import annotations

import json
import socket
import time

from ..installation import wait
from .attack import Attack, Report
from .target import JSON, PHOTO, Target

FUTURE = 99_999_999_999_999


def headers(target: Target, report: Report) -> None:
    """No answer may be sniffed, and no page may be framed."""
    target.run()
    for caller, path in (
        (target.alice, "/images"),
        (target.stranger, "/livez"),
        (target.stranger, "/docs/"),
        (target.stranger, "/openapi.json"),
        (target.stranger, "/images"),
        (target.stranger, "/nothing"),
    ):
        response = report.saw(caller.get(path))
        report.expect(response.headers.get("x-content-type-options") == "nosniff", f"{path} has no x-content-type-options")
        if path == "/docs/":
            framed = response.headers.get("content-security-policy", "")
            report.expect("frame-ancestors" in framed or "x-frame-options" in response.headers, f"{path} can be framed")
            report.expect("'unsafe-eval'" not in framed, f"{path} evaluates text")


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


def newer(target: Target, report: Report) -> None:
    """A program that finds newer tables writes nothing and runs no worker."""
    assert target.alice and target.bob
    checksum = "decode('00', 'hex')" if target.database else "X'00'"
    target.query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) "
        f"VALUES ({FUTURE}, 'future', true, {checksum}, 0)"
    )
    target.start("serve")
    wait("the server", lambda: target.stranger.get("/livez").status == 200)
    time.sleep(1)
    report.expect(target.stranger.get("/readyz").status == 503, "/readyz is 200")
    for what, response in [
        ("/detect", target.alice.detect(query="store=true")),
        ("/embed", target.alice.post("/embed", PHOTO, "image/jpeg")),
        ("/batches", target.alice.post("/batches?operation=detect", PHOTO, "image/jpeg")),
        ("/collections", target.alice.post("/collections", {"name": "a", "purpose": "drill", "legal_basis": "none", "retention_days": 1})),
        ("/webhooks", target.alice.post("/webhooks", {"url": "https://example.com/"})),
        ("/keys", target.alice.post("/keys", {"name": "a", "scopes": ["read"]})),
        ("/erasures", target.alice.post("/erasures", {"source": "a"})),
    ]:
        report.saw(response)
        report.expect(response.status == 503, f"{what}: {response.status} and not 503")
    unstored = target.alice.detect()
    report.outcomes[f"store=false {unstored.status}"] += 1
    for table in ("images", "scans", "batches", "collections", "webhooks", "erasures"):
        rows = int(target.query(f"SELECT count(*) FROM {table}")[0][0])
        report.expect(rows == 0, f"{rows} rows in {table}")
    done = target.command("keys", "create", "--name", "a", "--tenant", "carol", "--scopes", "read")
    report.expect(done.returncode != 0, "`keys create` writes newer tables")


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


def metrics(target: Target, report: Report) -> None:
    """A key of one tenant, whatever its scopes for its tenant, sees no figures of all tenants."""
    target.run()
    target.bob.detect(query="store=true")
    for scopes in ("admin", "infer,read,erase,batch,enroll,search,admin"):
        response = report.saw(target.tenant("alice", scopes).get("/metrics"))
        report.expect(response.status == 403, f"/metrics is {response.status} for {scopes}")
    report.expect("bob" not in target.alice.get("/metrics").body.decode(), "the metrics name a tenant")


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


def switched_off(target: Target, report: Report) -> None:
    """Webhooks that are switched off are neither taken nor sent."""
    target.run()
    for response in (
        target.alice.post("/webhooks", {"url": "https://example.com/"}),
        target.alice.post("/batches", {"operation": "detect", "open": True, "items": [], "webhook": {"url": "https://example.com/"}}),
    ):
        report.saw(response)
        report.expect(response.status in (403, 422), f"a webhook was taken: {response.status}")


ATTACKS = [
    Attack("promises: headers of answers", headers, watched=False, databases=("sqlite",)),
    Attack("promises: bodies that are refused early", early, watched=False, databases=("sqlite",)),
    Attack("promises: newer tables", newer, watched=False, due=("503",)),
    Attack("promises: a damaged database", damaged, watched=False, databases=("sqlite",), due=("503",)),
    Attack("promises: metrics of other tenants", metrics, watched=False, databases=("sqlite",)),
    Attack("promises: names of hosts inside", closed_addresses, watched=False, databases=("sqlite",), settings={"urls__enabled": True}),
    Attack(
        "promises: webhooks that are switched off",
        switched_off,
        watched=False,
        databases=("sqlite",),
        settings={"webhooks__enabled": False},
    ),
]
