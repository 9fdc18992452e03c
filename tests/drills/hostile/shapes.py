"""Structured bodies that are cheap to send and dear to hold, in JSON and msgpack, of about the size that is asked for."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

Value = bytes
# A name, and a writer of a value of about this number of bytes.
Shape = tuple[str, Callable[[int], Value]]


def repeated(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def json_list(unit: bytes, size: int) -> bytes:
    return b"[" + repeated(unit + b",", size) + unit + b"]"


def json_object(size: int, value: bytes = b"0") -> bytes:
    """Many keys, each with its own name."""
    count = size // (11 + len(value))
    return b"{" + b",".join(b'"%07x":' % number + value for number in range(count)) + b"}"


JSON_SHAPES: list[Shape] = [
    ("nulls", lambda size: json_list(b"null", size)),
    ("zeros", lambda size: json_list(b"0", size)),
    ("empty lists", lambda size: json_list(b"[]", size)),
    ("empty objects", lambda size: json_list(b"{}", size)),
    ("small objects", lambda size: json_list(b'{"":0}', size)),
    ("many keys", json_object),
    ("one key again and again", lambda size: b"{" + repeated(b'"a":[],', size) + b'"a":0}'),
    ("nested lists", lambda size: b"[" * (size // 2) + b"]" * (size // 2)),
    ("nested objects", lambda size: b'{"a":' * (size // 6) + b"0" + b"}" * (size // 6)),
    ("lists of a hundred levels", lambda size: json_list(b"[" * 100 + b"]" * 100, size)),
    ("a long text", lambda size: b'"' + b"a" * size + b'"'),
    ("a text of escapes", lambda size: b'"' + repeated(b"\\u0000", size) + b'"'),
    ("a long text behind the name of an image's bytes", lambda size: b'[{"id":"data"},"' + b"\x7f" * size + b'"]'),
    ("an image of escapes", lambda size: b'[{"data":"' + repeated(b"AAA\\n", size) + b'"}]'),
    ("a long key", lambda size: b'{"' + b"k" * size + b'":0}'),
    ("a long number", lambda size: b"1" * size),
    ("small texts", lambda size: json_list(b'""', size)),
    ("spaces", lambda size: b" " * size + b"0"),
]


def pack(value: object) -> bytes:
    """Returns msgpack of texts, small numbers, lists and objects. Bytes are msgpack already."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        data = value.encode()
        return b"\xdb" + struct.pack(">I", len(data)) + data
    if isinstance(value, dict):
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(key) + pack(each) for key, each in value.items())
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    return b"\xd2" + struct.pack(">i", value)


def packed_list(unit: bytes, size: int) -> bytes:
    count = size // len(unit)
    return b"\xdd" + struct.pack(">I", count) + unit * count


def packed_object(entry: bytes, size: int) -> bytes:
    count = size // len(entry)
    return b"\xdf" + struct.pack(">I", count) + entry * count


MSGPACK_SHAPES: list[Shape] = [
    ("nils", lambda size: packed_list(b"\xc0", size)),
    ("zeros", lambda size: packed_list(b"\x00", size)),
    ("empty lists", lambda size: packed_list(b"\x90", size)),
    ("empty maps", lambda size: packed_list(b"\x80", size)),
    ("empty texts", lambda size: packed_list(b"\xa0", size)),
    ("empty binaries", lambda size: packed_list(b"\xc4\x00", size)),
    ("small maps", lambda size: packed_list(b"\x81\xa0\x00", size)),
    ("one key again and again", lambda size: packed_object(b"\xa1a\x90", size)),
    ("nested lists", lambda size: b"\x91" * size + b"\xc0"),
    ("lists of a hundred levels", lambda size: packed_list(b"\x91" * 100 + b"\xc0", size)),
    ("a list that states four billion", lambda size: b"\xdd\xff\xff\xff\xff" + b"\xc0" * size),
    ("a map that states four billion", lambda size: b"\xdf\xff\xff\xff\xff" + b"\xa0\xc0" * (size // 2)),
    ("a long text", lambda size: pack("a" * size)),
    ("a long binary", lambda size: b"\xc6" + struct.pack(">I", size) + bytes(size)),
    ("a long text behind the name of an image's bytes", lambda size: pack([{"id": "data"}, "\x7f" * size])),
    ("a long text that looks like an image's bytes", lambda size: pack(["data", "\x7f" * size])),
    ("extensions", lambda size: packed_list(b"\xd4\x01\x00", size)),
]


def in_object(name: str, value: bytes, others: dict[str, object], msgpack: bool = False) -> bytes:
    """Returns an object with this value beside others."""
    if msgpack:
        return pack({**others, name: value})
    head = b"".join(json.dumps(key).encode() + b":" + json.dumps(each).encode() + b"," for key, each in others.items())
    return b"{" + head + json.dumps(name).encode() + b":" + value + b"}"
