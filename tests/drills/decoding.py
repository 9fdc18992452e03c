"""The drill of hostile pictures: each is posted alone, with the time of its answer and the memory that it takes.

The files are those of fuzz/pictures, which are packed because they have up to 60 MB, and the inputs of the fuzzer. Their folders are
the groups. `solid` has one color and 100 megapixels in every format and compression, `too-large` the same with one row more, `claims`
and the inputs of the fuzzer state more than they have, `metadata` is large or unpacks to a gigabyte, `many-parts` has thousands of
frames, pages, scans or strips, and `two-formats` are two formats at once. The code of the answer is in the name: `any` stands for any
answer below 500.
"""

from __future__ import annotations

import argparse
import http.client
import json
import lzma
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from . import pictures as make
from .installation import ROOT, RUNTIME, Installation, check, forget_highest, resident

# The limits of configs/config.yaml.
MAX_PIXELS, MAX_BYTES = 100_000_000, 20 << 20
# What docs/operations.md states: 16 bytes for each pixel of the largest image, 32 MiB of metadata, and twice the largest file.
STATED_BYTES = 16 * MAX_PIXELS + (32 << 20) + 2 * MAX_BYTES
# What docs/operations.md states: ten seconds for each image, which is 10 megapixels in a second for the largest one.
STATED_SECONDS = 10
# A name, the code of the answer, and the file.
Case = tuple[str, str, bytes]


def packed(folder: Path) -> Iterator[Case]:
    """Yields the files of a folder one at a time, because together they have hundreds of megabytes."""
    for path in sorted(folder.iterdir()):
        name, code, _ = path.name.split(".")
        yield name, code, lzma.decompress(path.read_bytes())
    if folder.name == "many-parts":
        pages = b"".join(struct.pack("<HI", 0, 8 + 6 * (number + 1)) for number in range(3_000_000))
        yield "tiff, 3 million pages", "any", b"II*\0\x08\0\0\0" + pages


def fuzzed() -> Iterator[Case]:
    """Yields the inputs of the fuzzer."""
    for path in sorted((ROOT / "fuzz/corpus/decode").iterdir()):
        yield path.name, "any", path.read_bytes()


class Meter:
    """Posts files one at a time to a server with one worker."""

    def __init__(self, installation: Installation) -> None:
        self.server = installation.serve()
        # Memory that an earlier file leaves behind counts for the next one.
        self.before = 0
        self.connection = http.client.HTTPConnection("127.0.0.1", installation.port, timeout=90)

    def post(self, data: bytes) -> tuple[int, str, float]:
        """Returns the status, the code and the seconds. The status is 0 if nothing answers in time."""
        began = time.monotonic()
        try:
            self.connection.request("POST", "/detect?store=false", data, {"content-type": "application/octet-stream"})
            response = self.connection.getresponse()
            status, body = response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return 0, str(error), time.monotonic() - began
        return status, "ok" if status == 200 else body.get("code", ""), time.monotonic() - began


def pictures(_: argparse.Namespace) -> None:
    """Hostile pictures: status, time and memory of each. With `decode: fast`, libjpeg-turbo also reads JPEGs."""
    for mode in ("full", "fast"):
        with Installation("sqlite", detection__decode=mode, runtime__turbojpeg=RUNTIME / "turbojpeg/libturbojpeg.so.0") as installation:
            meter = Meter(installation)
            meter.post(make.png(64, 64))
            meter.before = resident(meter.server)
            group(meter, f"{mode}, inputs of the fuzzer", fuzzed())
            for folder in sorted((ROOT / "fuzz/pictures").iterdir()):
                group(meter, f"{mode}, {folder.name}", packed(folder))


def group(meter: Meter, name: str, cases: Iterator[Case]) -> None:
    """Posts the files of a group and checks the worst of them."""
    wrong, slowest, largest = [], 0.0, 0
    for case, expected, data in cases:
        forget_highest(meter.server)
        status, code, seconds = meter.post(data)
        grown = resident(meter.server, "VmHWM") - meter.before
        print(f"     {case}: {len(data):,} bytes, {status} {code}, {seconds * 1e3:,.0f} ms, {grown / (1 << 20):,.0f} MiB", flush=True)
        if not 200 <= status < 500 or expected not in ("any", code):
            wrong.append(f"{case}: {status} {code}")
        slowest, largest = max(slowest, seconds), max(largest, grown)
    check(f"{name}: each answer is the expected one, and none is 5xx", not wrong, "; ".join(wrong[:5]) or "all")
    check(f"{name}: seconds", slowest <= STATED_SECONDS, f"at most {slowest:.2f} of {STATED_SECONDS}")
    check(f"{name}: memory", largest <= STATED_BYTES, f"at most {largest >> 20:,} of {STATED_BYTES >> 20:,} MiB")
