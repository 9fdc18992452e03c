"""Read the parts of an ONNX file that scripts/torchscript needs: nodes, weights, inputs and outputs. It needs no package.

An ONNX file is one protobuf message. The numbers of fields and types are those of the public schema
(https://onnx.ai/onnx/api/classes.html).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

FLOAT, INT64 = 1, 7


class Unreadable(Exception):
    """The file is not an ONNX model, or contains something that this module does not support. The text has the reason."""


@dataclass(frozen=True)
class Weight:
    """A constant with its dimensions. Floats are little-endian bytes, and indices are integers."""

    dims: list
    floats: bytes | None
    integers: list | None


@dataclass(frozen=True)
class Node:
    kind: str
    inputs: list
    outputs: list
    attributes: dict


@dataclass(frozen=True)
class Port:
    """An input or output. A dynamic dimension is None."""

    name: str
    dims: list


@dataclass(frozen=True)
class Graph:
    nodes: list
    weights: dict
    inputs: list
    outputs: list


def varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def fields(data: memoryview) -> dict:
    """Parses a message into {field number: its values in order}."""
    found: dict = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise Unreadable(f"wire type {wire} is not part of protobuf 3")
        found.setdefault(number, []).append(value)
    return found


def text(message: dict, number: int) -> str:
    return bytes(message.get(number, [b""])[0]).decode()


def texts(message: dict, number: int) -> list:
    return [bytes(value).decode() for value in message.get(number, [])]


def integers(message: dict, number: int) -> list:
    """Returns integers, which may be packed."""
    values = []
    for value in message.get(number, []):
        if isinstance(value, int):
            values.append(signed(value))
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            values.append(signed(one))
    return values


def attribute(message: dict) -> object:
    kind = message.get(20, [0])[0]
    if kind == 1:
        return struct.unpack("<f", message[2][0])[0]
    if kind == 2:
        return signed(message[3][0])
    if kind == 3:
        return text(message, 4)
    if kind == 4:
        return weight(fields(message[5][0]))
    if kind == 7:
        return integers(message, 8)
    raise Unreadable(f"attribute {text(message, 1)} has the unsupported type {kind}")


def weight(message: dict) -> Weight:
    dims, kind, raw = integers(message, 1), message.get(2, [0])[0], message.get(9)
    if kind == FLOAT:
        return Weight(dims, bytes(raw[0]) if raw else b"".join(message.get(4, [])), None)
    if kind == INT64:
        values = list(memoryview(raw[0]).cast("q")) if raw else integers(message, 7)
        return Weight(dims, None, values)
    raise Unreadable(f"weight {text(message, 8)} has elements of the unsupported type {kind}")


def node(message: dict) -> Node:
    given = [fields(value) for value in message.get(5, [])]
    return Node(text(message, 4), texts(message, 1), texts(message, 2), {text(one, 1): attribute(one) for one in given})


def port(message: dict) -> Port:
    tensor = fields(fields(message[2][0])[1][0])
    dims = [fields(dim) for dim in fields(tensor[2][0]).get(1, [])]
    return Port(text(message, 1), [dim[1][0] if 1 in dim else None for dim in dims])


def read(path: Path) -> Graph:
    """Reads the graph of a model file."""
    try:
        graph = fields(fields(memoryview(path.read_bytes()))[7][0])
        weights = {text(one, 8): weight(one) for one in map(fields, graph.get(5, []))}
        return Graph(
            [node(fields(one)) for one in graph[1]],
            weights,
            [one for one in (port(fields(value)) for value in graph[11]) if one.name not in weights],
            [port(fields(value)) for value in graph[12]],
        )
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise Unreadable(f"the file is not an ONNX model ({error!r})") from None
