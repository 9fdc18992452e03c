"""What other users of the host read, and what a folder or a model file of somebody else does."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from ..installation import RUNTIME
from .attack import Attack, Report
from .target import PHOTO, Target


def modes(target: Target, report: Report) -> None:
    """The files of a server that was started with the usual umask."""
    before = os.umask(0o022)
    try:
        target.folder.chmod(0o755)
        data = target.folder / "data"
        target.environment |= {"FACESCAN__DATA_DIR": str(data), "FACESCAN__BATCHES__PAYLOADS": "", "FACESCAN__BATCHES__WORKERS": "0"}
        target.run()
        entry = {"data": base64.b64encode(PHOTO).decode()}
        target.alice.made("/batches", {"operation": "detect", "items": [entry]})
        target.alice.made("/webhooks", {"url": "https://example.com/"}) if target.command("config").stdout.count("webhooks") else None
        target.alice.made("/detect", {"images": [entry]})
    finally:
        os.umask(before)
    found = [data, *data.rglob("*")]
    for path in found:
        mode, most = path.stat().st_mode & 0o777, 0o700 if path.is_dir() else 0o600
        report.outcomes[oct(mode)] += 1
        report.expect(mode & ~most == 0, f"{path.relative_to(target.folder)} has {mode:o}")
    report.expect(len(found) > 2, f"only {len(found)} files were looked at")


def library(folder: Path) -> Path:
    """Builds a library that leaves a file when it is loaded."""
    code = f'#include <stdio.h>\n__attribute__((constructor)) static void run(void) {{ fclose(fopen("{folder}/loaded", "w")); }}\n'
    (folder / "evil.c").write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "evil.so", folder / "evil.c"], check=True)
    return folder / "evil.so"


def placed(name: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "evil.so", folder / name)

    return prepare


def written(name: str, text: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.format(folder))

    return prepare


def both(first: Callable[[Path], None], second: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        first(folder)
        second(folder)

    return prepare


EVIL = "runtime:\n  library: ./evil.so\n"
FOLDERS: list[tuple[str, Callable[[Path], None]]] = [
    ("a library in .runtime", placed(".runtime/onnxruntime/libonnxruntime.so")),
    ("a library beside the images", placed("libonnxruntime.so")),
    ("a plugin in .runtime", placed(".runtime/plugins/openvino/libonnxruntime_providers_openvino_plugin.so")),
    ("a .env with a library", written(".env", "FACESCAN__RUNTIME__LIBRARY=./evil.so\n")),
    ("a .env with libjpeg-turbo", written(".env", "FACESCAN__RUNTIME__TURBOJPEG=./evil.so\nFACESCAN__DETECTION__DECODE=fast\n")),
    ("a .env with the library's other name", written(".env", "ORT_DYLIB_PATH=./evil.so\n")),
    ("a .env with a settings file", both(written(".env", "FACESCAN_CONFIG=./evil.yaml\n"), written("evil.yaml", EVIL))),
    ("a settings file with a common name", written("config.yaml", EVIL)),
    ("a settings file in configs/", written("configs/config.yaml", EVIL)),
    ("a .env above", written("../.env", "FACESCAN__RUNTIME__LIBRARY={}/evil.so\n")),
]
COMMANDS = [
    ["scan", "photo.jpg"],
    ["models", "list"],
    ["verify", "photo.jpg", "photo.jpg"],
    ["config"],
    ["process", "photo.jpg"],
    ["devices"],
]


def folders(target: Target, report: Report) -> None:
    """Commands in a folder of somebody else run none of its code."""
    if not shutil.which("gcc"):
        report.missed.append("no gcc, so no library of an attacker could be built")
        return
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FACESCAN", "ORT_"))}
    for number, (name, prepare) in enumerate(FOLDERS):
        folder = target.folder / f"{number}/photos"
        folder.mkdir(parents=True)
        library(folder)
        (folder / "photo.jpg").write_bytes(PHOTO)
        prepare(folder)
        for command in COMMANDS:
            (folder / "loaded").unlink(missing_ok=True)
            subprocess.run([target.binary, *command], check=False, cwd=folder, env=environment, capture_output=True, timeout=60)
            ran = (folder / "loaded").exists()
            report.outcomes["code ran" if ran else "no code ran"] += 1
            report.expect(not ran, f"{name}: `{command[0]}` ran its code")


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


ATTACKS = [
    Attack("files: modes of files and folders", modes, watched=False, databases=("sqlite",), settings={"urls__allow_private": True}),
    Attack("files: code in the folder of a command", folders, watched=False, databases=("sqlite",)),
    Attack("files: weights beside a model", weights, watched=False, databases=("sqlite",)),
]
