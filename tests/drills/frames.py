"""HTTP/2 frames and HPACK by hand, because a client library does not send what an attacker sends."""

from __future__ import annotations

import struct

DATA, HEADERS, PRIORITY, RESET, SETTINGS, _, PING, GO_AWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CANCEL = struct.pack(">I", 8)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values: int) -> bytes:
    numbers = {"initial_window_size": INITIAL_WINDOW_SIZE, "header_table_size": 1}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", numbers[name], value) for name, value in values.items()))


def text(value: bytes) -> bytes:
    """Returns a string of HPACK without Huffman codes."""
    return integer(len(value), 7, 0) + value


def integer(value: int, bits: int, first: int) -> bytes:
    """Returns an integer of HPACK behind the high bits of its first byte."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes(out) + bytes([value])


def literal(name: bytes, value: bytes, kept: bool = False) -> bytes:
    """Returns a header field. A field that is kept gets the index 62."""
    return (b"\x40" if kept else b"\0") + text(name) + text(value)


def head(method: bytes, path: bytes, *fields: bytes) -> bytes:
    """Returns the header block of a request."""
    names = literal(b":method", method) + literal(b":scheme", b"http") + literal(b":path", path) + literal(b":authority", b"localhost")
    return names + b"".join(fields)


def headers(stream: int, block: bytes, flags: int = END_HEADERS | END_STREAM) -> bytes:
    return frame(HEADERS, flags, stream, block)


def post(stream: int, path: bytes, body: bytes) -> bytes:
    """Returns a whole request with a small body."""
    block = head(b"POST", path, literal(b"content-type", b"image/png"))
    return headers(stream, block, END_HEADERS) + frame(DATA, END_STREAM, stream, body)


def split(received: bytearray) -> list[tuple[int, int, int, bytes]]:
    """Removes the whole frames and returns kind, flags, stream and payload of each."""
    frames, at = [], 0
    while len(received) - at >= 9:
        length = int.from_bytes(received[at : at + 3], "big")
        if len(received) - at < 9 + length:
            break
        kind, flags, stream = struct.unpack_from(">BBI", received, at + 3)
        frames.append((kind, flags, stream, bytes(received[at + 9 : at + 9 + length])))
        at += 9 + length
    del received[:at]
    return frames
