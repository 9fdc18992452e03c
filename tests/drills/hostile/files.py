"""What a model file of somebody else does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ..installation import RUNTIME
from .attack import Attack, Report
from .target import PHOTO, Target


def field(number: int, value: int | bytes | str) -> bytes:
    """Returns a field of protobuf."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def encoder(location: str) -> bytes:
    """Returns an ONNX model that means each channel and multiplies it by 48 weights of another file."""

    def node(kind: str, output: str, *inputs: str) -> bytes:
        return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind))

    def port(number: int, name: str, *sides: int | str) -> bytes:
        shape = b"".join(field(1, field(1, side) if isinstance(side, int) else field(2, side)) for side in sides)
        return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, shape))))

    outside = b"".join(
        field(13, field(1, key) + field(2, value)) for key, value in (("location", location), ("offset", "0"), ("length", "192"))
    )
    weights = field(1, 3) + field(1, 16) + field(2, 1) + field(8, "W") + outside + field(14, 1)
    nodes = node("GlobalAveragePool", "p", "x") + node("Flatten", "f", "p") + node("MatMul", "y", "f", "W")
    graph = nodes + field(2, "g") + field(5, weights) + port(11, "x", "N", 3, 224, 224) + port(12, "y", "N", 16)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def registry(folder: Path, model: bytes) -> Path:
    (folder / "encoder.onnx").write_bytes(model)
    shape = {"width": 224, "height": 224, "channel_order": "rgb", "mean": [0, 0, 0], "scale": [0.01, 0.01, 0.01], "mode": "stretch"}
    entry = {
        "id": "drill",
        "role": "encoder",
        "family": "image",
        "file": str(folder / "encoder.onnx"),
        "sha256": hashlib.sha256(model).hexdigest(),
        "license": "MIT",
        "commercial_use": True,
        "source": "drill",
        "input": shape,
        "dim": 16,
    }
    path = folder / "registry.yaml"
    path.write_text(json.dumps({"models": [entry]}))
    return path


def weights(target: Target, report: Report) -> None:
    """Weights that the sha256 of a model does not cover change its vectors unnoticed, or are refused."""
    picture = target.folder / "photo.jpg"
    picture.write_bytes(PHOTO)
    for location in ("weights.bin", "./weights.bin", "sub/weights.bin", "../weights.bin"):
        settings = {
            "FACESCAN__MODELS__REGISTRY": str(registry(target.folder, encoder(location))),
            "FACESCAN__MODELS__ENCODER": "drill",
            "FACESCAN__MODELS__DIR": str(RUNTIME / "models"),
        }
        vectors = set()
        for fill in (b"\x00\x00\x80\x3f", b"\x00\x00\x00\x40"):
            path = target.folder / location
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(
                b"".join(fill if n % 3 else b"\0\0\x40\xc0" for n in range(48 * 1)) if fill[3] == 0x3F else fill * 47 + b"\0" * 4
            )
            done = target.command("embed", "--kind", "image", "--format", "jsonl", str(picture), **settings)
            report.outcomes[f"exit {done.returncode}"] += 1
            if done.returncode == 0:
                vectors.add(str(json.loads(done.stdout.splitlines()[0]).get("embedding")))
            else:
                report.expect(
                    "sha256 does not cover" in done.stderr or location.startswith(".."),
                    f"{location}: refused without its reason: {done.stderr.strip()[-120:]}",
                )
            path.unlink()
        report.expect(len(vectors) == 0, f"{location}: {len(vectors)} vectors of other weights under one sha256")


ATTACKS = [Attack("files: weights beside a model", weights, watched=False, databases=("sqlite",))]
