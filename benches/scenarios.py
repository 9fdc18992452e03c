"""The images of the benchmarks, the operations on them, and the floor: decoding and the bare models on every core."""

from __future__ import annotations

import json
import pathlib
import subprocess

from load import Figures
from peers.environment import RUNTIME

PORTRAIT, GROUP = RUNTIME / "pictures/obama.jpg", RUNTIME / "pictures/t1.jpg"
OPERATIONS = ("detect", "embed")
CLIENTS = (1, 4, 16)
THUMBNAIL_SIDE = 250
PHONE_PIXELS = 12_000_000


def scenarios(folder: pathlib.Path, python: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the image of each scenario. Makes the thumbnail and the image of a phone in `folder`."""
    program = pathlib.Path(__file__).resolve().parent / "peers/resize.py"
    command = [python, program, "--output", folder, "--thumbnail-side", str(THUMBNAIL_SIDE)]
    subprocess.run([*command, "--phone-pixels", str(PHONE_PIXELS), PORTRAIT], check=True)
    made = {scenario: folder / f"{scenario}s" / PORTRAIT.name for scenario in ("thumbnail", "phone")}
    return {"portrait": PORTRAIT, "group": GROUP, **made}


def printed(command: list[object]) -> dict:
    """Runs a program and returns the JSON that it prints."""
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def floor(bench: pathlib.Path, operation: str, image: pathlib.Path, seconds: float) -> Figures:
    found = printed([bench, "floor", "--operation", operation, "--seconds", seconds, "--images", image])
    return Figures(found["images_per_second"], found["p50_ms"], found["p99_ms"])
