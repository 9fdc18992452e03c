"""PNG and WebP by hand, for images of one color of any size, and for those that no two of are the same."""

from __future__ import annotations

import struct
import zlib


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int, depth: int = 8, color: int = 2) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))


def png(width: int, height: int, depth: int = 8, color: int = 2) -> bytes:
    """Returns a black image."""
    row = bytes(1 + -(-width * depth * {0: 1, 2: 3}[color] // 8))
    pack = zlib.compressobj()
    packed = b"".join(pack.compress(row) for _ in range(height)) + pack.flush()
    return png_header(width, height, depth, color) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")


def riff_chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def webp(*chunks: bytes) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def vp8l(width: int, height: int) -> bytes:
    """Returns a lossless bitstream whose pixels take no bits: each of its five codes has one symbol."""
    codes = sum(1 << 3 + 4 * code for code in range(5))
    return b"\x2f" + struct.pack("<II", width - 1 | height - 1 << 14 | 1 << 28, codes) + b"\0" * 7
