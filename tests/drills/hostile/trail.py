"""What somebody who can write to the database does to the audit trail, and what the trail must have."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable

from .attack import Attack, Report
from .target import Target, Tenant

NOTED = 10
MINE = "WHERE tenant = 'alice'"


def blob(target: Target, value: bytes) -> str:
    return f"decode('{value.hex()}', 'hex')" if target.database else f"X'{value.hex()}'"


def hash_of(target: Target, number: int) -> bytes:
    column = "encode(hash, 'hex')" if target.database else "hex(hash)"
    return bytes.fromhex(target.query(f"SELECT {column} FROM audit_entries {MINE} AND number = {number}")[0][0])


def entry_hash(previous: bytes, number: int) -> bytes:
    """Returns the hash of a forged entry, as docs/security.md describes it."""
    fields = [previous.hex(), "alice", number, 1_795_590_000_000_000 + number, "forged", None, "read_image", "x", "{}"]
    return hashlib.sha256(json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()).digest()


def replaced(target: Target) -> None:
    """The whole chain is replaced by three entries that begin behind the noted head."""
    first, previous = 5000, b"\x11" * 32
    start = blob(target, previous)
    target.query(f"DELETE FROM audit_entries {MINE}")
    for number in range(first + 1, first + 4):
        hashed = entry_hash(previous, number)
        target.query(
            "INSERT INTO audit_entries (tenant, number, at, request_id, key_id, action, target, details, previous_hash, hash) "
            f"VALUES ('alice', {number}, {1_795_590_000_000_000 + number}, 'forged', NULL, 'read_image', 'x', '{{}}', "
            f"{blob(target, previous)}, {blob(target, hashed)})"
        )
        previous = hashed
    target.query(
        f"UPDATE audit_chains SET deleted = {first}, deleted_hash = {start}, last = {first + 3}, "
        f"last_hash = {blob(target, previous)} {MINE}"
    )


def without_start(target: Target) -> None:
    """The start with the noted entry is cut, as retention would, although nothing has a retention."""
    after = hash_of(target, NOTED + 1)
    target.query(f"DELETE FROM audit_entries {MINE} AND number <= {NOTED + 1}")
    target.query(f"UPDATE audit_chains SET deleted = {NOTED + 1}, deleted_hash = {blob(target, after)} {MINE}")


def without_end(target: Target) -> None:
    last = hash_of(target, NOTED - 1)
    target.query(f"DELETE FROM audit_entries {MINE} AND number >= {NOTED}")
    target.query(f"UPDATE audit_chains SET last = {NOTED - 1}, last_hash = {blob(target, last)} {MINE}")


def changed(target: Target) -> None:
    target.query(f"UPDATE audit_entries SET action = 'read_image' {MINE} AND number = {NOTED + 1}")


def dropped(target: Target) -> None:
    target.query(f"DELETE FROM audit_entries {MINE}")
    target.query(f"DELETE FROM audit_chains {MINE}")


def emptied(target: Target) -> None:
    """The entries are gone and the chain says that they were deleted by age."""
    target.query(f"DELETE FROM audit_entries {MINE}")
    target.query(f"UPDATE audit_chains SET deleted = last, deleted_hash = last_hash {MINE}")


def forged(change: Callable[[Target], None]) -> Callable[[Target, Report], None]:
    """Returns an attack on a chain of which a head was noted."""

    def run(target: Target, report: Report) -> None:
        server = target.run().server
        for number in range(NOTED + 5):
            target.alice.made("/batches", {"operation": "detect", "open": True, "items": [], "name": str(number)})
        head = f"{NOTED}:{hash_of(target, NOTED).hex()}"
        target.kill(server)
        arguments = ["audit", "verify", "--tenant", "alice", "--head", head]
        whole = target.command(*arguments)
        report.expect(whole.returncode == 0, f"a whole chain is called broken: {whole.stdout[:100]}")
        change(target)
        done = target.command(*arguments)
        report.outcomes[f"exit {done.returncode}"] += 1
        report.expect(done.returncode == 1, f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[:150]}")

    return run


def without_tenant(target: Target, report: Report) -> None:
    """A dropped chain is missed although no tenant is named, because its head is in the file of heads."""
    heads = target.folder / "heads.jsonl"
    target.environment["FACESCAN__AUDIT__HEADS"] = f"file://{heads}"
    target.run()
    target.alice.made("/batches", {"operation": "detect", "open": True, "items": []})
    stopped(target)
    arguments = ["audit", "verify", "--heads", str(heads)]
    report.expect(target.command(*arguments).returncode == 0, "a whole chain is called broken")
    dropped(target)
    done = target.command(*arguments)
    report.outcomes[f"exit {done.returncode}"] += 1
    report.expect(
        done.returncode == 1 and "alice" in done.stdout + done.stderr,
        f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[:150]}",
    )


def stopped(target: Target) -> None:
    """Ends the server in order, so that it writes what it holds back."""
    target.server.terminate()
    target.server.wait(60)


def entries(target: Target) -> int:
    return int(target.query("SELECT count(*) FROM audit_entries")[0][0])


def recorded(report: Report, target: Target, what: str, act: Callable[[], object]) -> None:
    """Notes an act that the trail does not have."""
    before = entries(target)
    act()
    end = time.monotonic() + 3
    while entries(target) == before and time.monotonic() < end:
        time.sleep(0.1)
    report.outcomes["recorded" if entries(target) > before else "not recorded"] += 1
    report.expect(entries(target) > before, f"{what} is not in the trail")


def gaps(target: Target, report: Report) -> None:
    """Refusals, commands, webhooks and reads of people."""
    target.run()
    gallery, library = target.collection()["id"], target.collection(kind="library")["id"]
    subject = target.alice.made(f"/collections/{gallery}/subjects", {})["id"]
    made = {}
    for what, act in [
        ("keys create", lambda: made.update(key=target.tenant("alice", "read"))),
        ("keys revoke", lambda: target.command("keys", "revoke", "--tenant", "alice", made["key"].key.split("_")[1])),
        ("a new webhook", lambda: made.update(hook=target.alice.made("/webhooks", {"url": "https://127.0.0.1/"})["id"])),
        ("a deleted webhook", lambda: target.alice.request("DELETE", f"/webhooks/{made['hook']}")),
        ("a key that was refused", lambda: target.alice.post("/keys", {"name": "", "scopes": ["x"]})),
        ("a read of a subject", lambda: target.alice.get(f"/collections/{gallery}/subjects/{subject}")),
        ("a list of subjects", lambda: target.alice.get(f"/collections/{gallery}/subjects")),
        ("a read of people", lambda: target.alice.get(f"/collections/{library}/people")),
    ]:
        recorded(report, target, what, act)


def refusals(target: Target, report: Report) -> None:
    """Requests that were refused, which may be counted and written later."""
    target.run()
    weak = target.tenant("alice", "read")
    before = entries(target)
    weak.post("/erasures", {"tenant": "alice"})
    stopped(target)
    report.expect(entries(target) > before, "a request without the scope is not in the trail")
    target.run()
    before = entries(target)
    target.stranger.get("/images")
    Tenant(target.port, "fsk_0123456789abcdef_x").get("/images")
    stopped(target)
    report.expect(entries(target) > before, "requests without a valid key are not in the trail")


def trail(name: str, change: Callable[[Target], None]) -> Attack:
    return Attack(f"trail: {name}", forged(change), watched=False)


ATTACKS = [
    trail("a chain replaced behind a noted head", replaced),
    trail("a start cut with the noted entry", without_start),
    trail("an end cut with the noted entry", without_end),
    trail("a changed entry behind the noted one", changed),
    trail("a dropped chain", dropped),
    trail("an emptied chain", emptied),
    Attack("trail: a dropped chain, no tenant named", without_tenant, watched=False),
    Attack("trail: refused requests", refusals, watched=False),
    Attack("trail: acts that must be in it", gaps, watched=False, settings={"audit__level": "all", "urls__allow_private": True}),
]
