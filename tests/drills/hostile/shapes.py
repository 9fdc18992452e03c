"""Structured bodies that are cheap to send and dear to hold, in JSON and msgpack, of about the size that is asked for."""

from __future__ import annotations

import json
import struct


def repeated(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def json_list(unit: bytes, size: int) -> bytes:
    return b"[" + repeated(unit + b",", size) + unit + b"]"


def json_object(size: int, value: bytes = b"0") -> bytes:
    """Many keys, each with its own name."""
    count = size // (11 + len(value))
    return b"{" + b",".join(b'"%07x":' % number + value for number in range(count)) + b"}"


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


def in_object(name: str, value: bytes, others: dict[str, object], msgpack: bool = False) -> bytes:
    """Returns an object with this value beside others."""
    if msgpack:
        return pack({**others, name: value})
    head = b"".join(json.dumps(key).encode() + b":" + json.dumps(each).encode() + b"," for key, each in others.items())
    return b"{" + head + json.dumps(name).encode() + b":" + value + b"}"
