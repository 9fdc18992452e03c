"""Synthetic people: the faces of a person are unit vectors around a random center."""

from __future__ import annotations

import array
import base64
import operator
import random

DIM = 128
# Two faces of a person have a cosine of 1 / (1 + NOISE²) on average, which is 0.7. Those of strangers are near 0: their standard
# deviation is 0.09.
NOISE = (1 / 0.7 - 1) ** 0.5


def unit(vector: list[float]) -> list[float]:
    length = cosine(vector, vector) ** 0.5
    return [value / length for value in vector]


def center() -> list[float]:
    """Returns the center of a new person."""
    return unit([random.gauss(0, 1) for _ in range(DIM)])


def face(of_person: list[float]) -> list[float]:
    """Returns a face of the person with this center. Its values are 32-bit floats, as those that the server stores."""
    deviation = NOISE / DIM**0.5
    return list(array.array("f", unit([value + random.gauss(0, deviation) for value in of_person])))


def cosine(a: list[float], b: list[float]) -> float:
    """Returns the cosine of two unit vectors."""
    return sum(map(operator.mul, a, b))


def encoded(vector: list[float]) -> str:
    """Returns a vector as the field `embedding` has it: little-endian 32-bit floats in base64."""
    return base64.b64encode(array.array("f", vector)).decode()
