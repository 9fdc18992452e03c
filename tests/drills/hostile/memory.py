"""Bodies that are small on the wire and large in memory, one for each kind of reader."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from . import shapes
from .attack import Attack, Report
from .shapes import in_object, json_list, packed_list, repeated
from .target import JSON, MSGPACK, NDJSON, Target

MIB = 1 << 20
# Below `server.max_body_bytes`, which is 64 MiB.
LIMIT = 60 * MIB


def posted(path: str, kind: str, write: Callable[[], bytes], method: str = "POST") -> Callable[[Target, Report], None]:
    """Returns an attack that sends one body. `{}` of the path is the resource that its route needs."""

    def run(target: Target, report: Report) -> None:
        report.saw(target.attack(place(target, path), write(), kind, method))

    return run


def place(target: Target, path: str) -> str:
    """Fills in the ids of a collection, a subject and a batch that exist."""
    if "{collection}" in path:
        collection = target.collection()["id"]
        path = path.replace("{collection}", collection)
        if "{subject}" in path:
            path = path.replace("{subject}", target.alice.made(f"/collections/{collection}/subjects", {})["id"])
    if "{library}" in path:
        path = path.replace("{library}", target.collection(kind="library")["id"])
    if "{batch}" in path:
        path = path.replace("{batch}", target.alice.made("/batches", {"operation": "detect", "open": True, "items": []})["id"])
    return path


def items(value: bytes) -> bytes:
    return in_object("items", value, {"operation": "detect"}, msgpack=True)


def lines(line: bytes, size: int, head: bytes = b'{"operation":"detect"}\n') -> bytes:
    return head + repeated(line + b"\n", size)


def unfinished(target: Target, report: Report) -> None:
    """Bodies of routes that need little, each without its last byte."""
    text = b'{"url":"' + b"a" * (32 * MIB)
    held: list[socket.socket] = []
    for number in range(16):
        path = ("/webhooks", "/keys", "/erasures", "/collections")[number % 4]
        connection = target.connect()
        connection.settimeout(2)
        try:
            connection.sendall(target.alice.head(path, JSON, f"content-length: {len(text) + 100}") + text)
        except OSError:
            report.outcomes["closed"] += 1
        held.append(connection)
    time.sleep(3)
    for connection in held:
        connection.close()


ATTACKS = [
    Attack("memory: items of nil, msgpack", posted("/batches", MSGPACK, lambda: items(packed_list(b"\xc0", 8 * MIB))), seconds=40),
    Attack("memory: items of empty lists, msgpack", posted("/batches", MSGPACK, lambda: items(packed_list(b"\x90", 6 * MIB))), seconds=40),
    Attack(
        "memory: items of empty maps, added to a batch",
        posted("/batches/{batch}/items", MSGPACK, lambda: in_object("items", packed_list(b"\x80", 6 * MIB), {}, True)),
    ),
    Attack(
        "memory: items of zeros, JSON",
        posted("/batches", JSON, lambda: in_object("items", json_list(b"0", 12 * MIB), {"operation": "detect"})),
    ),
    Attack("memory: lines that are no items", posted("/batches", NDJSON, lambda: lines(b"0", 20 * MIB)), seconds=60),
    Attack("memory: empty lines", posted("/batches/{batch}/items", NDJSON, lambda: lines(b"", LIMIT, b"")), seconds=60),
    Attack(
        "memory: a head of many keys, NDJSON",
        posted("/batches", NDJSON, lambda: in_object("options", json_list(b'{"":0}', 20 * MIB), {"operation": "detect"})),
    ),
    Attack(
        "memory: metadata of an item",
        posted("/batches/{batch}/items", NDJSON, lambda: in_object("metadata", json_list(b"{}", 20 * MIB), {"data": "AAAA"})),
    ),
    Attack(
        "memory: small objects at a collection",
        posted("/collections", JSON, lambda: in_object("x", json_list(b'{"":0}', LIMIT), {})),
        seconds=60,
    ),
    Attack(
        "memory: many keys in a subject's metadata",
        posted("/collections/{collection}/subjects/{subject}", JSON, lambda: in_object("metadata", shapes.json_object(LIMIT), {}), "PATCH"),
        seconds=60,
    ),
    Attack(
        "memory: people to be merged",
        posted("/collections/{library}/people/merge", JSON, lambda: in_object("people", json_list(b'""', LIMIT), {})),
        seconds=60,
    ),
    Attack(
        "memory: scopes of a key",
        posted("/keys", JSON, lambda: in_object("scopes", json_list(b'"read"', LIMIT), {"name": "a"})),
        seconds=60,
    ),
    Attack(
        "memory: escapes at an erasure",
        posted("/erasures", JSON, lambda: in_object("source", b'"' + repeated(b"\\u0001", LIMIT) + b'"', {})),
        seconds=60,
    ),
    Attack(
        "memory: images of nil, msgpack", posted("/detect", MSGPACK, lambda: in_object("images", packed_list(b"\xc0", 8 * MIB), {}, True))
    ),
    Attack(
        "memory: masks of empty objects",
        posted("/process", JSON, lambda: in_object("masks", json_list(b"{}", 20 * MIB), {"images": [], "options": {"operations": []}})),
    ),
    Attack(
        "memory: faces to be searched for",
        posted("/collections/{collection}/searches", MSGPACK, lambda: in_object("faces", packed_list(b"\x80", 8 * MIB), {}, True)),
    ),
    Attack(
        "memory: a vector of a face",
        posted("/verify", JSON, lambda: b'{"a":{"vector_space":"x","embedding":' + json_list(b"0", LIMIT) + b'},"b":{}}'),
        seconds=60,
    ),
    Attack(
        "memory: options nested deeply",
        posted("/enhance", MSGPACK, lambda: in_object("options", b"\x91" * LIMIT + b"\xc0", {"images": []}, True)),
    ),
    Attack("memory: bodies without their end", unfinished, memory=128 * MIB),
]
