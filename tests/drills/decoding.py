"""The drill of hostile pictures: each is posted alone, with the time of its answer and the memory that it takes."""

from __future__ import annotations

import argparse
import http.client
import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import pictures as make
from .installation import RUNTIME, Installation, check

# The limits of configs/config.yaml.
MAX_PIXELS, MAX_BYTES = 100_000_000, 20 << 20
# What docs/operations.md states: 16 bytes for each pixel of the largest image, 32 MiB of metadata, and twice the largest file.
STATED_BYTES = 16 * MAX_PIXELS + (32 << 20) + 2 * MAX_BYTES
# What docs/operations.md states: ten seconds for each image, which is 10 megapixels in a second for the largest one.
STATED_SECONDS = 10
# The side of the largest square inside the limit.
SIDE = 10_000
# A name, the code of the answer, and a writer. Files are written one at a time, because together they have hundreds of megabytes. The
# code `None` stands for any answer below 500.
Case = tuple[str, str | None, Callable[[], bytes]]
OK, LARGE, SHORT, CORRUPT, OTHER = "", "image_too_large", "image_truncated", "image_corrupt", "unsupported_media_type"


def solid(side: int) -> Iterator[Case]:
    """One color, in every format and compression."""
    width, height = SIDE, SIDE if side == SIDE else SIDE + 1
    expected = OK if side == SIDE else LARGE
    pixels = width * height
    chunk = make.riff_chunk
    for name, write in [
        ("png, 8-bit rgb", lambda: make.png(width, height)),
        ("png, 16-bit rgba", lambda: make.png(width, height, 16, 6)),
        ("png, 1 bit, interlaced", lambda: make.png(width, height, 1, 0, True)),
        ("png, 16-bit rgba, interlaced", lambda: make.png(width, height, 16, 6, True)),
        ("jpeg, gray", lambda: make.jpeg(width, height, 1)),
        ("jpeg, color", lambda: make.jpeg(width, height, 3)),
        ("jpeg, cmyk", lambda: make.jpeg(width, height, 4)),
        ("jpeg, progressive, 99 scans", lambda: make.progressive(width, height, 99)),
        ("jpeg, a restart marker behind each block", lambda: make.restarts(width, height)),
        ("gif", lambda: make.gif(width, height)),
        ("webp, lossless", lambda: make.webp(chunk(b"VP8L", make.vp8l(width, height)))),
        ("webp, lossless with transforms", lambda: make.webp(chunk(b"VP8L", make.vp8l(width, height, True)))),
        ("webp, lossy", lambda: make.webp(chunk(b"VP8 ", make.vp8(width, height)))),
        ("bmp, run lengths", lambda: make.bmp(width, height, 8, 1, make.run_lengths(width, height))),
        ("bmp, ends at once", lambda: make.bmp(width, height, 8, 1, b"\0\1")),
        ("bmp, 1 bit", lambda: make.bmp(width, height, 1, 0, bytes(-(-width // 32) * 4 * height))),
        ("tiff, deflate", lambda: make.strip(width, height, 8, make.zeros(3 * pixels))),
        ("tiff, deflate, 16-bit rgba", lambda: make.strip(width, height, 8, make.zeros(8 * pixels), 4, 16)),
        ("tiff, lzw", lambda: make.strip(width, height, 5, make.lzw(3 * pixels, 8, False, True))),
        ("tiff, packbits", lambda: make.strip(width, height, 32773, make.packed_bits(3 * pixels))),
        ("tiff, deflate, 1 bit", lambda: make.strip(width, height, 8, make.zeros(-(-width // 8) * height), 1, 1)),
        ("tiff, jpeg", lambda: make.strip(width, height, 7, make.jpeg(width, height, 1), 1)),
    ]:
        yield f"{name}, {width} × {height}", expected, write


def claims() -> Iterator[Case]:
    """Headers that state more than the file has."""
    png = make.png_header((1 << 32) - 1, 1 << 29)[:33] + make.png_chunk(b"IDAT", b"")[:9]
    yield "png of 42 bytes, 2³² − 1 × 2²⁹", LARGE, lambda: png
    jpeg = b"\xff\xd8" + make.jpeg_frame(12336, 12336, 3) + make.jpeg_scan([0, 1, 2], 0, 63, b"")
    yield "jpeg of 35 bytes, 12336²", LARGE, lambda: jpeg
    yield "jpeg of 35 bytes, 9999²", SHORT, lambda: jpeg.replace(struct.pack(">HH", 12336, 12336), struct.pack(">HH", 9999, 9999))
    yield "jpeg, its height behind its scan (DNL)", None, lambda: make.jpeg(64, 0) + make.segment(0xDC, b"\xff\xff")
    tiny = make.vp8l(64, 64)
    for kind in (b"ICCP", b"EXIF"):
        chunk = make.riff_chunk(kind, b"II*\0", stated=0xFFFF_FFF0)
        yield (
            f"webp, {kind.decode()} states 4 GB",
            None,
            lambda c=chunk: make.webp(make.vp8x(0x28, 64, 64), make.riff_chunk(b"VP8L", tiny), c),
        )
    avif = b"\0\0\0\x1cftypavif\0\0\0\0mif1miaf" + b"\xff\xff\xff\xf0meta"
    yield "avif, a box states 4 GB", OTHER, lambda: avif
    for name, more in [
        ("strip of 4 GB", {"count": 0xFFFF_FFFF}),
        ("strip behind the end", {"offset": 0xFFFF_FFF0}),
        ("rows a strip", {"rows": 0xFFFF_FFFF}),
    ]:
        yield f"tiff, {name}", None, lambda m=more: make.strip(64, 64, 8, make.zeros(3 << 12), **m)
    for tag in (273, 279, 274, 700, 34675):
        yield f"tiff, tag {tag} has 4 billion values", None, lambda t=tag: huge_tag(t)
    yield "tiff, float rgb, 1.2 GB of samples", LARGE, lambda: make.strip(SIDE, SIDE, 8, make.zeros(12 * SIDE * SIDE), 3, 32, format=3)
    yield "tiff, 1 bit, no data", None, lambda: make.strip(SIDE, SIDE, 1, b"", 1, 1)
    yield "tiff of 64², a jpeg of 16384² in it", LARGE, lambda: make.strip(64, 64, 7, make.jpeg(16384, 16384, 1), 1)
    yield "tiff of 64², a jpeg of 10000² in it", None, lambda: make.strip(64, 64, 7, make.jpeg(SIDE, SIDE, 1), 1)


def huge_tag(tag: int) -> bytes:
    entries = [
        (256, 4, 1, 64),
        (257, 4, 1, 64),
        (258, 3, 1, 8),
        (259, 3, 1, 8),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (277, 3, 1, 1),
        (278, 4, 1, 64),
        (279, 4, 1, 50),
    ]
    return make.tiff([entry for entry in entries if entry[0] != tag] + [(tag, 4, 0xFFFF_FFFF, 8)], make.zeros(1 << 12))


def metadata() -> Iterator[Case]:
    """Metadata that is large, or that unpacks to a gigabyte."""
    packed = make.zeros(1 << 30)
    for kind, head in [(b"iCCP", b"name\0\0"), (b"zTXt", b"key\0\0"), (b"iTXt", b"key\0\1\0\0\0")]:
        yield f"png, {kind.decode()} unpacks to 1 GiB", OK, lambda k=kind, h=head: make.png(64, 64, extra=make.png_chunk(k, h + packed))
    yield "png, 300,000 texts", OK, lambda: make.png(64, 64, extra=make.png_chunk(b"tEXt", b"key\0" + b"x" * 50) * 300_000)
    small = make.png_chunk(b"zTXt", b"k\0\0" + make.zeros(1 << 15))
    yield "png, 200,000 packed texts", OK, lambda: make.png(64, 64, extra=small * 200_000)
    yield "png, a million empty chunks", OK, lambda: make.png(64, 64, extra=make.png_chunk(b"abCd", b"") * 1_000_000)
    segment = make.segment(0xE1, b"Exif\0\0" + b"x" * 65_000)
    yield "jpeg, 19 MB of exif", OK, lambda: make.jpeg(64, 64, extra=segment * (19_000_000 // len(segment)))
    yield "jpeg, 60 MB of exif", None, lambda: make.jpeg(64, 64, extra=segment * (60_000_000 // len(segment)))
    yield "jpeg, 5 million empty comments", OK, lambda: make.jpeg(64, 64, extra=make.segment(0xFE, b"") * 5_000_000)
    yield "jpeg, 280,000 quantization tables", OK, lambda: make.jpeg(64, 64, extra=make.segment(0xDB, b"\0" + b"\1" * 64) * 280_000)
    yield "jpeg, 900,000 huffman tables", None, lambda: make.jpeg(64, 64, extra=make.segment(0xC4, b"\0\1" + bytes(16)) * 900_000)
    yield "jpeg, fill bytes between markers", None, lambda: make.jpeg(64, 64, extra=b"\xff\xff\xd0" * 6_900_000)
    for name, following in [("itself", 8), ("a far one", 0xFFFF_FFF0)]:
        block = make.exif(struct.pack("<HHII", 0x8769, 4, 1, 8) * 3, 3, following)
        yield f"jpeg, exif directory that leads to {name}", OK, lambda b=block: make.jpeg(64, 64, extra=make.segment(0xE1, b))
    block = make.exif(struct.pack("<HHII", 0x8769, 4, 1, 8) * 5000, 65535, 8)
    yield "jpeg, exif of 65,535 entries", OK, lambda: make.jpeg(64, 64, extra=make.segment(0xE1, block))
    large = make.riff_chunk(b"EXIF", b"II*\0" + bytes(19_000_000))
    yield "webp, 19 MB of exif", OK, lambda: make.webp(make.vp8x(8, 64, 64), make.riff_chunk(b"VP8L", make.vp8l(64, 64)), large)


def many() -> Iterator[Case]:
    """Thousands of frames, pages, scans and parts."""
    yield "gif, 20,000 frames", OK, lambda: make.gif(64, 64, frames=20_000)
    yield "gif, a frame without pixels on a large canvas", None, lambda: make.gif(SIDE, SIDE, pixels=1)
    yield "gif, 5 million comments", OK, lambda: make.gif(64, 64, extra=b"!\xfe\1x\0" * 4_000_000)
    yield "animated png, 5,000 frames", OK, lambda: make.apng(64, 5_000)
    yield "animated webp, 5,000 frames", OK, lambda: make.animated_webp(64, 5_000)
    yield "animated webp, 300,000 frames of 10000²", OK, lambda: make.animated_webp(SIDE, 300_000)
    for side in (64, SIDE):
        yield (
            f"webp of {side}², 65,536 groups of codes",
            CORRUPT,
            lambda s=side: make.webp(make.riff_chunk(b"VP8L", make.vp8l_groups(s, s, 65_536))),
        )
    yield "webp, 4,096 groups of codes", OK, lambda: make.webp(make.riff_chunk(b"VP8L", make.vp8l_groups(64, 64, 4_096)))
    yield (
        "webp, 2 million unknown chunks",
        OK,
        lambda: make.webp(make.vp8x(0, 64, 64), make.riff_chunk(b"VP8L", make.vp8l(64, 64)), make.riff_chunk(b"abcd", b"") * 2_000_000),
    )
    yield "jpeg, 5,000 progressive scans", None, lambda: make.progressive(2000, 2000, 5_000)
    yield "jpeg, 5,000 progressive scans of 100 megapixels", None, lambda: make.progressive(SIDE, SIDE, 5_000)
    # As many as libjpeg-turbo gets.
    scans = make.progressive(SIDE, SIDE, 32)
    yield "jpeg, 32 progressive scans of 100 megapixels", OK, lambda: scans
    yield "jpeg, 32 progressive scans of 100 megapixels, cut", None, lambda: scans[: -len(scans) // 64] + b"\xff\xd9"
    yield "jpeg, 100 megapixels without an end marker", None, lambda: make.jpeg(SIDE, SIDE, end=b"")
    yield "jpeg, 10 million restart markers in a scan", None, lambda: make.jpeg(64, 64, end=b"\xff\xd0" * 10_000_000 + b"\xff\xd9")
    yield "tiff, a loop of pages", None, lambda: make.strip(64, 64, 8, make.zeros(3 << 12), following=8 + 6 + len(make.zeros(3 << 12)))
    page = struct.pack("<H", 0)
    chain = b"".join(page + struct.pack("<I", 8 + 6 * (number + 1)) for number in range(3_000_000))
    yield "tiff, 3 million pages", None, lambda: b"II*\0\x08\0\0\0" + chain
    entries = [
        (256, 4, 1, 64),
        (257, 4, 1, 64),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (277, 3, 1, 1),
        (279, 4, 1, 4096),
    ]
    yield "tiff, 65,000 tags", OK, lambda: make.tiff(entries + [(40_000, 4, 1, 0)] * 65_000, bytes(4096))
    yield "tiff, a tag of 5 million values", OK, lambda: make.tiff(entries + [(700, 3, 4_000_000, 8)], bytes(8_000_000))
    turned = make.segment(0xE1, make.exif(struct.pack("<HHIHH", 274, 3, 1, 6, 0), 1, 0))
    yield "jpeg, 100 megapixels to be rotated", OK, lambda: make.jpeg(SIDE, SIDE, extra=turned)
    yield "tiff, 6,000 strips, each the same jpeg of 1600²", None, lambda: make.shared_strips(SIDE, 6_000, 7, make.jpeg(1_600, 1_600, 1), 1)
    yield (
        "tiff, 10,000 strips, each the same 9 MB",
        None,
        lambda: make.shared_strips(64, 10_000, 7, make.jpeg(64, 1, 1, make.segment(0xFE, b"x" * 65_000) * 140), 1),
    )
    yield "tiff, 390,000 tiles of deflate", None, lambda: make.tiny_tiles(390_000, 8, make.zeros(256))
    yield "tiff, 390,000 tiles of jpeg", None, lambda: make.tiny_tiles(390_000, 7, make.jpeg(16, 16, 1))
    yield "tiff, 390,000 tiles of lzw", None, lambda: make.tiny_tiles(390_000, 5, make.lzw(256, 8, False, True))
    yield (
        "tiff, 10,000 strips, each the same empty blocks",
        None,
        lambda: make.shared_strips(64, 10_000, 8, b"\x78\x01" + b"\0\0\0\xff\xff" * 3_000_000, 1),
    )


def polyglots() -> Iterator[Case]:
    """Files that are two formats at once."""
    jpeg, png, gif = make.jpeg(64, 64), make.png(64, 64), make.gif(64, 64)
    archive = b"PK\x03\x04" + bytes(60) + b"PK\x05\x06" + bytes(18)
    script = make.gif(64, 64, extra=b"!\xfe" + make.gif_blocks(b"*/=1;alert(1)/*"))
    for name, expected, data in [
        ("jpeg and png", OK, jpeg + png),
        ("png and jpeg", OK, png + jpeg),
        ("jpeg and zip", OK, jpeg + archive),
        ("gif and zip", OK, gif + archive),
        ("zip and jpeg", OTHER, archive + jpeg),
        ("pdf and jpeg", OTHER, b"%PDF-1.7\n" + jpeg),
        ("gif with a script", OK, script),
        ("jpeg with html", OK, make.jpeg(64, 64, extra=make.segment(0xFE, b"<html><script>alert(1)</script>"))),
        ("png with a jpeg in a chunk", OK, make.png(64, 64, extra=make.png_chunk(b"abCd", jpeg))),
    ]:
        yield f"polyglot, {name}", expected, lambda d=data: d


def small() -> list[tuple[str, bytes]]:
    """Small whole files, to be cut at every byte."""
    chunk = make.riff_chunk
    return [
        ("jpeg", make.jpeg(16, 16)),
        ("jpeg, progressive", make.progressive(16, 16, 12)),
        # These are large enough to be reduced.
        ("jpeg, wide", make.jpeg(1288, 8)),
        ("jpeg, wide, progressive", make.progressive(1288, 8, 12)),
        ("png", make.png(16, 16)),
        ("gif", make.gif(16, 16, frames=2)),
        ("webp, lossless", make.webp(chunk(b"VP8L", make.vp8l(16, 16)))),
        ("webp, lossy", make.webp(chunk(b"VP8 ", make.vp8(16, 16)))),
        ("webp, animated", make.animated_webp(16, 3)),
        ("bmp", make.bmp(16, 16, 1, 0, bytes(64))),
        ("bmp, run lengths", make.bmp(16, 16, 8, 1, make.run_lengths(16, 16))),
        ("tiff, deflate", make.strip(16, 16, 8, make.zeros(768))),
        ("tiff, lzw", make.strip(16, 16, 5, make.lzw(768, 8, False, True))),
        ("tiff, jpeg", make.strip(16, 16, 7, make.jpeg(16, 16, 1), 1)),
    ]


class Meter:
    """Posts files one at a time to a server with one worker."""

    def __init__(self, installation: Installation) -> None:
        self.folder = Path(f"/proc/{installation.serve().pid}")
        # Memory that an earlier file leaves behind counts for the next one.
        self.before = 0
        self.connection = http.client.HTTPConnection("127.0.0.1", installation.port, timeout=90)

    def resident(self, field: str) -> int:
        lines = (self.folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))

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
        return status, "" if status == 200 else body.get("code", ""), time.monotonic() - began

    def measure(self, data: bytes) -> tuple[int, str, float, int]:
        """Returns also the highest growth of the resident memory since the start, in bytes."""
        (self.folder / "clear_refs").write_text("5")
        status, code, seconds = self.post(data)
        return status, code, seconds, self.resident("VmHWM") - self.before


def pictures(_: argparse.Namespace) -> None:
    """Hostile pictures: status, time and memory of each. With `decode: fast`, libjpeg-turbo also reads JPEGs."""
    for mode in ("full", "fast"):
        with Installation("sqlite", detection__decode=mode, runtime__turbojpeg=RUNTIME / "turbojpeg/libturbojpeg.so.0") as installation:
            meter = Meter(installation)
            meter.post(make.png(64, 64))
            meter.before = meter.resident("VmRSS")
            for name, cases in [
                ("solid, inside the limit", solid(SIDE)),
                ("solid, outside the limit", solid(SIDE + 1)),
                ("claims", claims()),
                ("metadata", metadata()),
                ("many parts", many()),
                ("polyglots", polyglots()),
            ]:
                group(meter, f"{mode}, {name}", cases)
            truncated(meter, mode)


def group(meter: Meter, name: str, cases: Iterator[Case]) -> None:
    """Posts the files of a group and checks the worst of them."""
    wrong, slowest, largest = [], 0.0, 0
    for case, expected, write in cases:
        data = write()
        status, code, seconds, grown = meter.measure(data)
        print(
            f"     {case}: {len(data):,} bytes, {status} {code or 'ok'}, {seconds * 1e3:,.0f} ms, {grown / (1 << 20):,.0f} MiB", flush=True
        )
        if not 200 <= status < 500 or expected not in (None, code):
            wrong.append(f"{case}: {status} {code}")
        slowest, largest = max(slowest, seconds), max(largest, grown)
    bounds(name, wrong, slowest, largest)


def bounds(name: str, wrong: list[str], slowest: float, largest: int) -> None:
    check(f"{name}: each answer is the expected one, and none is 5xx", not wrong, "; ".join(wrong[:5]) or "all")
    check(f"{name}: seconds", slowest <= STATED_SECONDS, f"at most {slowest:.2f} of {STATED_SECONDS}")
    check(f"{name}: memory", largest <= STATED_BYTES, f"at most {largest >> 20:,} of {STATED_BYTES >> 20:,} MiB")


def truncated(meter: Meter, mode: str) -> None:
    """Small files, cut at every byte."""
    wrong, slowest, largest, count = [], 0.0, 0, 0
    for name, data in small():
        whole = meter.post(data)
        if whole[0] != 200:
            wrong.append(f"{name}, whole: {whole[:2]}")
        for end in range(len(data)):
            status, code, seconds, grown = meter.measure(data[:end])
            if not 200 <= status < 500:
                wrong.append(f"{name} of {end} bytes: {status} {code}")
            slowest, largest, count = max(slowest, seconds), max(largest, grown), count + 1
    print(f"     {count} files", flush=True)
    bounds(f"{mode}, cut at every byte", wrong, slowest, largest)
