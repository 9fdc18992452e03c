"""Connections that hold something without sending anything: bodies, heads, streams and event streams."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from urllib.parse import urlencode

from .. import frames as h2, pictures
from .attack import Attack, Report
from .memory import place
from .shapes import pack
from .target import FORM, JSON, MSGPACK, NDJSON, PHOTO, Target, Tenant

# How long an attack holds what it has.
HOLD_S = 8
# Bob comes when the attack holds what it can.
DELAY_S = 3
# Connections take memory beside what they send.
CONNECTIONS = 128 << 20
# Images in work count in the budget of imaging, and answers in that of bytes.
ANSWERS = 3 << 30


def opened(target: Target, count: int, data: bytes, report: Report) -> list[socket.socket]:
    """Opens connections and sends the same on each, also if the server takes no more of them."""
    held = []
    for _ in range(count):
        try:
            connection = target.connect()
            connection.settimeout(0.5)
            held.append(connection)
            connection.sendall(data)
        except OSError:
            report.outcomes["closed"] += 1
    return held


def lives(connection: socket.socket, drop: bytes) -> bool:
    """Sends a little more. Returns whether the connection is open and has no response yet."""
    try:
        connection.sendall(drop)
        connection.setblocking(False)
        connection.recv(1, socket.MSG_PEEK)
        return False
    except BlockingIOError:
        connection.settimeout(0.5)
        return True
    except OSError:
        return False


def bodies(path: str, kind: str, sent: bytes, *fields: str, count: int = 520, drop: bytes = b"") -> Callable[[Target, Report], None]:
    """Returns an attack with bodies that have begun. Each sends `drop` once in a second, and what was refused is tried again."""

    def run(target: Target, report: Report) -> None:
        data = target.alice.head(place(target, path), kind, *fields) + sent
        target.states(len(data) * count)
        held = opened(target, count, data, report)
        for _ in range(HOLD_S):
            time.sleep(1)
            lost = [connection for connection in held if not lives(connection, drop)]
            held = [connection for connection in held if connection not in lost] + opened(target, len(lost), data, report)
            report.outcomes["opened again"] += len(lost)
        report.notes.append(f"{count} bodies")

    return run


def streams(
    path: bytes, kind: bytes, body: bytes = b"", stated: int | None = None, connections: int = 3
) -> Callable[[Target, Report], None]:
    """Returns an attack with 200 silent streams on each of a few more HTTP/2 connections in each second."""

    def run(target: Target, report: Report) -> None:
        fields = [h2.literal(b"content-type", kind), h2.literal(b"authorization", f"Bearer {target.alice.key}".encode())]
        fields += [h2.literal(b"content-length", str(stated).encode())] if stated else []
        block = h2.head(b"POST", path, *fields)
        data = (
            h2.PREFACE
            + h2.settings()
            + b"".join(
                h2.headers(2 * n + 1, block, h2.END_HEADERS) + (h2.frame(h2.DATA, 0, 2 * n + 1, body) if body else b"") for n in range(200)
            )
        )
        target.states(len(data) * connections * HOLD_S)
        held = []
        for _ in range(HOLD_S):
            held += opened(target, connections, data, report)
            time.sleep(1)
        report.notes.append(f"{200 * len(held)} streams")

    return run


def heads(sent: Callable[[Tenant], bytes], count: int) -> Callable[[Target, Report], None]:
    """Returns an attack with connections that need no key."""

    def run(target: Target, report: Report) -> None:
        held = opened(target, count, sent(target.stranger), report)
        time.sleep(HOLD_S)
        report.notes.append(f"{len(held)} connections")

    return run


def event_streams(target: Target, report: Report) -> None:
    """Event streams of an open batch, which nothing ends."""
    batch = place(target, "/batches/{batch}/events")
    held = opened(target, 2000, target.alice.head(batch, JSON, method="GET"), report)
    time.sleep(HOLD_S)
    report.notes.append(f"{len(held)} event streams")


def revoked_stream(target: Target, report: Report) -> None:
    """An event stream has to end with the key that opened it."""
    target.run()
    key = target.tenant("alice", "batch")
    assert key.key
    connection = target.connect()
    connection.sendall(key.head(place(target, "/batches/{batch}/events"), JSON, method="GET"))
    connection.recv(1000)
    report.saw(target.alice.request("DELETE", f"/keys/{key.key.split('_')[1]}"))
    end = time.monotonic() + 30
    connection.settimeout(30)
    try:
        while connection.recv(1000) and time.monotonic() < end:
            pass
    except TimeoutError:
        pass
    report.expect(time.monotonic() < end, "the stream went on 30 s after its key was revoked")


def unread(target: Target, report: Report) -> None:
    """Requests for large answers that are never read."""
    for connection in opened(target, 200, target.alice.head("/openapi.json", JSON, method="GET") * 50, report):
        connection.settimeout(0.01)
    time.sleep(HOLD_S)


def slow_readers(
    path: str, kind: str, body: Callable[[Target], bytes], *fields: str, count: int = 40, drip: int = 0
) -> Callable[[Target, Report], None]:
    """Returns an attack with small requests for large answers, of which each client reads `drip` bytes in a second."""

    def run(target: Target, report: Report) -> None:
        sent = body(target)
        data = target.alice.head(path, kind, f"content-length: {len(sent)}", *fields) + sent
        target.states(len(data) * count)
        held = opened(target, count, data, report)
        for _ in range(2 * HOLD_S):
            time.sleep(1)
            for connection in held if drip else ():
                try:
                    report.outcomes["parts read"] += bool(connection.recv(drip))
                except OSError:
                    report.outcomes["closed"] += 1
        report.notes.append(f"{count} answers")

    return run


def unread_streams(path: bytes, kind: bytes, body: bytes, connections: int = 3) -> Callable[[Target, Report], None]:
    """Returns an attack with 200 requests on each of a few HTTP/2 connections, whose clients have no room for an answer."""

    def run(target: Target, report: Report) -> None:
        fields = [h2.literal(b"content-type", kind), h2.literal(b"authorization", f"Bearer {target.alice.key}".encode())]
        block = h2.head(b"POST", path, *fields)
        data = (
            h2.PREFACE
            + h2.settings(initial_window_size=0)
            + b"".join(h2.headers(2 * n + 1, block, h2.END_HEADERS) + h2.frame(h2.DATA, h2.END_STREAM, 2 * n + 1, body) for n in range(200))
        )
        target.states(len(data) * connections)
        held = opened(target, connections, data, report)
        time.sleep(2 * HOLD_S)
        report.notes.append(f"{200 * len(held)} answers")

    return run


ENLARGED = "/process?" + urlencode({"format": "npy", "operations": json.dumps([{"op": "resize", "width": 6600, "height": 6600}])})
ROW = "/preprocess?width=3000&height=3000"
TINY = pictures.webp(pictures.riff_chunk(b"VP8L", pictures.vp8l(16, 16)))


def tiny(_: Target) -> bytes:
    return TINY


def photographs(_: Target) -> bytes:
    return pack({"images": [{"data": b"\xc6" + len(PHOTO).to_bytes(4, "big") + PHOTO}] * 16, "options": {"store": False}})


CHUNKED = "transfer-encoding: chunked"
UNFINISHED = h2.PREFACE + h2.settings() + h2.headers(1, h2.head(b"GET", b"/livez", h2.literal(b"a", b"b" * 12_000)), 0)


def idle(name: str, run: Callable[[Target, Report], None]) -> Attack:
    return Attack(f"idle: {name}", run, memory=CONNECTIONS, seconds=40, delay=DELAY_S)


ATTACKS = [
    idle("submissions of one space", bodies("/batches", NDJSON, b"1\r\n \r\n", CHUNKED, drop=b"1\r\n \r\n")),
    idle("lines to be added, a byte in a second", bodies("/batches/{batch}/items", NDJSON, b"1\r\n{\r\n", CHUNKED, drop=b"1\r\n \r\n")),
    idle("a stated mebibyte that never comes", bodies("/detect", "image/jpeg", b"\xff", "content-length: 1048576")),
    idle("forms that trickle", bodies("/enhance", FORM, b"5\r\n--b\r\n\r\n", CHUNKED, drop=b"1\r\na\r\n")),
    idle("msgpack that trickles", bodies("/verify", MSGPACK, b"1\r\n\x82\r\n", CHUNKED, drop=b"1\r\n\xa1\r\n")),
    idle("large stated bodies", bodies("/batches", MSGPACK, b"\x82", "content-length: 60000000", count=12)),
    idle(
        "bodies at the lowest rate on every connection",
        bodies("/batches", NDJSON, b"1\r\n \r\n", CHUNKED, count=2200, drop=b"200\r\n" + b" " * 512 + b"\r\n"),
    ),
    idle("streams of HTTP/2 without a body", streams(b"/batches", b"application/x-ndjson")),
    idle("streams of HTTP/2 with a byte", streams(b"/detect", b"image/jpeg", b"\xff")),
    idle("streams of HTTP/2 that state a mebibyte", streams(b"/quality", b"image/jpeg", b"\xff", 1 << 20)),
    idle("unfinished heads", heads(lambda _: b"GET /livez HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 380_000, 1000)),
    idle(
        "unfinished heads of many fields",
        heads(lambda _: b"POST /detect HTTP/1.1\r\nhost: a\r\n" + b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 90, 3000),
    ),
    idle("unfinished heads of HTTP/2", heads(lambda _: UNFINISHED, 2000)),
    idle("connections that send nothing", heads(lambda _: b"", 3000)),
    idle("event streams", event_streams),
    idle("answers that nobody reads", unread),
    *(
        Attack(f"idle: {name}", run, memory=ANSWERS, seconds=60, delay=DELAY_S)
        for name, run in {
            "images of 131 MB that nobody reads": slow_readers(ENLARGED, "image/webp", tiny, "accept: application/x-npy"),
            "images in JSON that nobody reads": slow_readers(ENLARGED, "image/webp", tiny, "accept: application/json", count=12),
            "images that trickle": slow_readers(ENLARGED, "image/webp", tiny, "accept: application/x-npy", drip=100),
            "rows that nobody reads": slow_readers(ROW, "image/webp", tiny, "accept: application/x-npy"),
            "rows in parts that nobody reads": slow_readers(ROW, "image/webp", tiny, "accept: multipart/mixed"),
            "vectors that nobody reads": slow_readers("/embed", MSGPACK, photographs),
            "images on streams of HTTP/2 that nobody reads": unread_streams(ENLARGED.encode(), b"image/webp", TINY),
            "small answers on streams of HTTP/2 that nobody reads": unread_streams(b"/detect?store=false", b"image/webp", TINY),
        }.items()
    ),
    Attack("idle: an event stream of a revoked key", revoked_stream, watched=False),
]
