"""Writers of pictures for drills: small files that state many pixels, in every format that the server decodes."""

from __future__ import annotations

import struct
import zlib


class Bits:
    """Codes of different lengths in bytes, with the first code in the low bits or in the high bits."""

    def __init__(self, low_first: bool) -> None:
        self.low_first, self.bytes, self.rest, self.count = low_first, bytearray(), 0, 0

    def put(self, code: int, length: int) -> None:
        if self.low_first:
            self.rest |= code << self.count
        else:
            self.rest = self.rest << length | code
        self.count += length
        while self.count >= 8:
            self.count -= 8
            if self.low_first:
                self.bytes.append(self.rest & 0xFF)
                self.rest >>= 8
            else:
                self.bytes.append(self.rest >> self.count)
                self.rest &= (1 << self.count) - 1

    def end(self) -> bytes:
        if self.count:
            self.put(0, 8 - self.count)
        return bytes(self.bytes)


def zeros(count: int, level: int = 9) -> bytes:
    """Returns a zlib stream of this number of zeros."""
    packer, block, parts = zlib.compressobj(level), bytes(1 << 20), []
    for _ in range(count >> 20):
        parts.append(packer.compress(block))
    parts.append(packer.compress(bytes(count & (1 << 20) - 1)))
    return b"".join(parts) + packer.flush()


# PNG


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int, depth: int = 8, color: int = 2, interlaced: bool = False) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))


def png(width: int, height: int, depth: int = 8, color: int = 2, interlaced: bool = False, extra: bytes = b"") -> bytes:
    """Returns a black image. `extra` goes before the pixels."""
    bits = depth * {0: 1, 2: 3, 4: 2, 6: 4}[color]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
        sizes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in passes]
        count = sum((1 + -(-w * bits // 8)) * h for w, h in sizes if w > 0 and h > 0)
    else:
        count = (1 + -(-width * bits // 8)) * height
    return png_header(width, height, depth, color, interlaced) + extra + png_chunk(b"IDAT", zeros(count)) + png_chunk(b"IEND", b"")


def apng(side: int, frames: int) -> bytes:
    head, pixels = struct.pack(">II", frames, 0), zeros((1 + 3 * side) * side)
    parts, number = [png_header(side, side), png_chunk(b"acTL", head)], 0
    for frame in range(frames):
        parts.append(png_chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, side, side, 0, 0, 1, 100, 0, 0)))
        number += 1
        if frame == 0:
            parts.append(png_chunk(b"IDAT", pixels))
        else:
            parts.append(png_chunk(b"fdAT", struct.pack(">I", number) + pixels))
            number += 1
    return b"".join(parts) + png_chunk(b"IEND", b"")


# JPEG


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def jpeg_tables(symbol: int = 0) -> bytes:
    """Returns tables in which one bit 0 means a difference of 0, and one bit 0 means this AC symbol."""
    one_code = bytes([1]) + bytes(15)
    return segment(0xDB, b"\0" + b"\1" * 64) + segment(0xC4, b"\0" + one_code + b"\0") + segment(0xC4, b"\x10" + one_code + bytes([symbol]))


def jpeg_frame(width: int, height: int, components: int, marker: int = 0xC0) -> bytes:
    parts = b"".join(bytes([number + 1, 0x11, 0]) for number in range(components))
    return segment(marker, struct.pack(">BHHB", 8, height, width, components) + parts)


def jpeg_scan(components: list[int], start: int, end: int, data: bytes, precision: int = 0) -> bytes:
    selected = b"".join(bytes([number + 1, 0]) for number in components)
    return segment(0xDA, bytes([len(components)]) + selected + bytes([start, end, precision])) + data


def blocks(width: int, height: int) -> int:
    return -(-width // 8) * -(-height // 8)


def jpeg(width: int, height: int, components: int = 3, extra: bytes = b"", end: bytes = b"\xff\xd9") -> bytes:
    """Returns a gray image. `extra` goes before its tables."""
    data = bytes(-(-blocks(width, height) * components * 2 // 8))
    frame = jpeg_frame(width, height, components)
    return b"\xff\xd8" + extra + jpeg_tables() + frame + jpeg_scan(list(range(components)), 0, 63, data) + end


def progressive(width: int, height: int, scans: int, components: int = 3) -> bytes:
    """Returns a progressive image: first a scan of its DC, then scans of one coefficient of one component each."""
    count = blocks(width, height)
    runs = Bits(low_first=False)
    for at in range(0, count, 32767):
        # EOB14: the block and those behind it end.
        left = min(32767, count - at)
        if left < 1 << 14:
            left = 32767
        runs.put(left - (1 << 14), 15)
    refined, data = [], runs.end().replace(b"\xff", b"\xff\0")
    for number in range(scans - 1):
        band = 1 + number // components % 63
        refined.append(jpeg_scan([number % components], band, band, data))
    first = jpeg_scan(list(range(components)), 0, 0, bytes(-(-count * components // 8)))
    return b"\xff\xd8" + jpeg_tables(0xE0) + jpeg_frame(width, height, components, 0xC2) + first + b"".join(refined) + b"\xff\xd9"


def restarts(width: int, height: int) -> bytes:
    """Returns a gray image with a restart marker behind each block."""
    parts = [b"\x3f\xff" + bytes([0xD0 + number]) for number in range(8)]
    count = blocks(width, height)
    data = (b"".join(parts) * -(-count // 8))[: 3 * count - 2]
    return b"\xff\xd8" + jpeg_tables() + segment(0xDD, b"\0\1") + jpeg_frame(width, height, 1) + jpeg_scan([0], 0, 63, data) + b"\xff\xd9"


def exif(entries: bytes, count: int, following: int) -> bytes:
    """Returns an EXIF block with these entries of its first directory."""
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, count) + entries + struct.pack("<I", following)


# GIF


def lzw(count: int, first_bits: int, low_first: bool, early: bool) -> bytes:
    """Returns an LZW stream of this number of zeros. Each code is the longest one that the decoder knows."""
    bits, clear, width = Bits(low_first), 1 << first_bits, first_bits + 1
    while count > 0:
        bits.put(clear, width)
        width, coming, length = first_bits + 1, (1 << first_bits) + 2, 1
        # A full table cannot grow: GIF goes on with its longest code, and TIFF clears the table.
        while count > 0 and not (early and coming >= 4094):
            now = min(length, count)
            bits.put(0 if now == 1 else clear + now, width)
            count -= now
            if coming <= 4095:
                if coming + early == 1 << width and width < 12:
                    width += 1
                coming += 1
                length += 1 if coming <= 4095 else 0
    bits.put(clear + 1, width)
    return bits.end()


def gif_blocks(data: bytes) -> bytes:
    return b"".join(bytes([len(data[at : at + 255])]) + data[at : at + 255] for at in range(0, len(data), 255)) + b"\0"


def gif_frame(width: int, height: int, data: bytes) -> bytes:
    return b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\2" + gif_blocks(data)


def gif(width: int, height: int, frames: int = 1, extra: bytes = b"", pixels: int | None = None) -> bytes:
    data = lzw(width * height if pixels is None else pixels, 2, low_first=True, early=False)
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x81, 0, 0) + bytes(12)
    return head + extra + gif_frame(width, height, data) * frames + b";"


# WebP


def riff_chunk(kind: bytes, data: bytes, stated: int | None = None) -> bytes:
    return kind + struct.pack("<I", len(data) if stated is None else stated) + data + b"\0" * (len(data) % 2)


def webp(*chunks: bytes) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def vp8l(width: int, height: int, transforms: bool = False) -> bytes:
    """Returns a lossless bitstream whose pixels take no bits."""
    bits = Bits(low_first=True)

    def codes() -> None:
        """One symbol for each of the five codes, so that none takes a bit."""
        for _ in range(5):
            bits.put(0b0001, 4)

    bits.put(0x2F, 8)
    bits.put(width - 1, 14)
    bits.put(height - 1, 14)
    bits.put(0b0001, 4)
    if transforms:
        for kind in (0, 1):  # the predictor and the color transform, with blocks of 512 × 512
            bits.put(1 | kind << 1, 3)
            bits.put(7, 3)
            bits.put(0, 1)
            codes()
        bits.put(1 | 2 << 1, 3)  # green is subtracted
    bits.put(0, 1)  # no further transform
    bits.put(0, 1)  # no cache of colors
    bits.put(0, 1)  # one group of codes
    codes()
    return bits.end() + b"\0" * 8


def vp8l_groups(width: int, height: int, groups: int) -> bytes:
    """Returns a lossless bitstream with this number of groups of codes. The pixels have the last group, and take no bits."""
    bits, tree = Bits(low_first=True), Bits(low_first=True)
    # Lengths of 1 to 10 and 10, so that the decoder has a table of 1,024 entries. Six of the ten lengths have codes of 3 bits.
    codes = {
        length: (int(f"{length - 1:03b}"[::-1], 2), 3) if length <= 6 else (int(f"{length + 5:04b}"[::-1], 2), 4) for length in range(1, 11)
    }
    tree.put(10 << 1, 5)
    for length in (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10):
        tree.put(codes[length][1] if length in codes else 0, 3)
    tree.put(1 | 1 << 1 | 9 << 4, 8)
    for length in (*range(1, 11), 10):
        tree.put(*codes[length])
    size = 8 * len(tree.bytes) + tree.count
    whole = int.from_bytes(tree.end(), "little")
    bits.put(0x2F, 8)
    bits.put(width - 1 | height - 1 << 14 | 1 << 28, 32)
    bits.put(0 | 0 << 1 | 1 << 2 | 7 << 3, 6)  # no transform, no cache of colors, blocks of 512 × 512 have groups
    bits.put(0, 1)
    for symbol in (groups - 1 & 0xFF, groups - 1 >> 8, 0, 0, 0):
        bits.put(0b101 | symbol << 3, 11)
    for _ in range(groups - 1):
        for _ in range(5):
            bits.put(whole, size)
    for _ in range(5):
        bits.put(0b0001, 4)
    return bits.end() + b"\0" * 8


def vp8(width: int, height: int) -> bytes:
    """Returns a lossy bitstream of zeros. They stand for the most likely choice everywhere, so a macroblock takes a few bits."""
    macroblocks = -(-width // 16) * -(-height // 16)
    first = macroblocks * 10 // 8 + 200
    tag = first << 5 | 1 << 4
    sizes = struct.pack("<HH", width, height)
    return struct.pack("<I", tag)[:3] + b"\x9d\x01\x2a" + sizes + bytes(first) + bytes(4 * macroblocks + 200)


def vp8x(flags: int, width: int, height: int) -> bytes:
    return riff_chunk(b"VP8X", struct.pack("<I", flags) + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3])


def animated_webp(side: int, frames: int) -> bytes:
    size = struct.pack("<I", side - 1)[:3] * 2
    frame = riff_chunk(b"ANMF", bytes(6) + size + b"\x64\0\0\0" + riff_chunk(b"VP8L", vp8l(side, side)))
    return webp(vp8x(2, side, side), riff_chunk(b"ANIM", bytes(6)), frame * frames)


# BMP


def bmp(width: int, height: int, bits: int, compression: int, data: bytes) -> bytes:
    palette = b"\0\0\0\0\x80\x80\x80\0"
    at = 54 + len(palette)
    head = struct.pack("<2sIHHI", b"BM", at + len(data), 0, 0, at)
    return head + struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(data), 0, 0, 2, 0) + palette + data


def run_lengths(width: int, height: int) -> bytes:
    """Returns rows of one color, in runs of 255."""
    row = b"\xff\1" * (width // 255) + (bytes([width % 255, 1]) if width % 255 else b"") + b"\0\0"
    return row * height + b"\0\1"


# TIFF


def tiff(entries: list[tuple[int, int, int, int]], data: bytes, following: int = 0, first: int = 8) -> bytes:
    """Returns a file: `data` at offset 8, and then a directory of tag, type, count and value."""
    directory = 8 + len(data)
    rows = b"".join(struct.pack("<HHII", *entry) for entry in sorted(entries))
    return b"II*\0" + struct.pack("<I", directory) + data + struct.pack("<H", len(entries)) + rows + struct.pack("<I", following)


def strip(width: int, height: int, compression: int, data: bytes, samples: int = 3, depth: int = 8, **more: int) -> bytes:
    """Returns an image in one strip. All samples have the same depth. `more` replaces the values of tags."""
    tags = {"width": 256, "height": 257, "photometric": 262, "offset": 273, "rows": 278, "count": 279}
    values = {"width": width, "height": height, "photometric": 2 if samples >= 3 else 1, "rows": height, "count": len(data)} | more
    # The depth of each sample, as a list behind the pixels.
    depths = struct.pack("<H", depth) * samples
    entries = [(tags[name], 4, 1, value) for name, value in values.items() if name in tags]
    entries += [(259, 3, 1, compression), (277, 3, 1, samples), (273, 4, 1, values.get("offset", 8 + len(depths)))]
    entries.append((258, 3, samples, 8 if samples > 2 else depth))
    if values.get("format"):
        entries.append((339, 3, 1, values["format"]))
    if samples == 4:
        entries.append((338, 3, 1, 2))
    return tiff(entries, depths + data, values.get("following", 0))


def packed_bits(count: int) -> bytes:
    return b"\x81\0" * (count // 128) + (bytes([257 - count % 128, 0]) if count % 128 > 1 else b"\0\0" * (count % 128))


def shared_strips(width: int, height: int, compression: int, part: bytes, samples: int = 3) -> bytes:
    """Returns an image with one strip for each row. All strips are the same bytes."""
    depths = struct.pack("<H", 8) * samples
    at = 8 + len(depths)
    offsets = struct.pack("<I", at) * height
    counts = struct.pack("<I", len(part)) * height
    lists = at + len(part)
    return tiff(
        [
            (256, 4, 1, width),
            (257, 4, 1, height),
            (258, 3, samples, 8),
            (259, 3, 1, compression),
            (262, 3, 1, 2 if samples == 3 else 1),
            (273, 4, height, lists),
            (277, 3, 1, samples),
            (278, 4, 1, 1),
            (279, 4, height, lists + len(offsets)),
        ],
        depths + part + offsets + counts,
    )


def tiny_tiles(tiles: int, compression: int, part: bytes) -> bytes:
    """Returns a gray image of this number of tiles of 16 × 16. All tiles are the same bytes."""
    at, across = 8, 1000
    offsets, counts = struct.pack("<H", at) * tiles, struct.pack("<H", len(part)) * tiles
    lists = at + len(part)
    return tiff(
        [
            (256, 4, 1, across * 16),
            (257, 4, 1, tiles // across * 16),
            (258, 3, 1, 8),
            (259, 3, 1, compression),
            (262, 3, 1, 1),
            (277, 3, 1, 1),
            (322, 3, 1, 16),
            (323, 3, 1, 16),
            (324, 3, tiles, lists),
            (325, 3, tiles, lists + len(offsets)),
        ],
        part + offsets + counts,
    )
