"""Multipart forms whose preamble, boundaries, headers and parts are dear to read."""

from __future__ import annotations

import time
from collections.abc import Callable

from .attack import Attack, Report
from .memory import MIB, place, posted
from .shapes import repeated
from .target import FORM, Target

DASHES = "multipart/form-data; boundary=" + "-" * 60
# Bytes that begin like a boundary of dashes, again and again.
NEARLY = b"\r\n--"


def part(name: str, content: bytes = b"", *fields: bytes) -> bytes:
    return (
        b"--b\r\n"
        + b"".join(field + b"\r\n" for field in (f'content-disposition: form-data; name="{name}"'.encode(), *fields))
        + b"\r\n"
        + content
        + b"\r\n"
    )


def trickled(path: str, opening: bytes, filler: bytes, mib: int, kind: str, drops: int = 1500) -> Callable[[Target, Report], None]:
    """Returns an attack that sends a large body, and then one byte at a time."""

    def run(target: Target, report: Report) -> None:
        target.states(mib * MIB)
        connection = target.connect()
        connection.setsockopt(6, 1, 1)
        block = repeated(filler, MIB)
        try:
            connection.sendall(target.alice.head(place(target, path), kind, "transfer-encoding: chunked"))
            for content in ([opening] if opening else []) + [block] * mib:
                connection.sendall(b"%x\r\n" % len(content) + content + b"\r\n")
            for _ in range(drops):
                connection.sendall(b"1\r\n-\r\n")
                time.sleep(0.001)
            connection.sendall(b"0\r\n\r\n")
        except OSError:
            pass  # The server has closed the connection, perhaps with a response.
        try:
            first = connection.recv(100)
        except OSError:
            first = b""
        report.outcomes[first[9:12].decode() or "closed"] += 1

    return run


def whole(path: str, write: Callable[[], bytes], kind: str = FORM, seconds: float = 40, name: str = "") -> Attack:
    return Attack(f"form: {name}", posted(path, kind, write), seconds=seconds)


IMAGE = part("image", b"x")
ATTACKS = [
    whole("/detect", lambda: repeated(NEARLY, 60 * MIB), DASHES, name="no first boundary"),
    Attack("form: no first boundary, then single bytes", trickled("/detect", b"", NEARLY, 30, DASHES), seconds=40),
    Attack(
        "form: a part that nearly ends, then single bytes",
        trickled("/enhance", b"--" + b"-" * 60 + b'\r\ncontent-disposition: form-data; name="image"\r\n\r\n', NEARLY, 18, DASHES),
        seconds=40,
    ),
    Attack("form: an epilogue, then single bytes", trickled("/quality", IMAGE + b"--b--\r\n", b"\r\n--", 30, FORM), seconds=40),
    Attack("form: headers of a part without an end", trickled("/batches/{batch}/items", b"--b\r\n", b"a: b\r\n", 30, FORM), seconds=40),
    Attack(
        "form: a header of a part without an end", trickled("/collections/{collection}/searches", b"--b\r\na: ", b"a", 30, FORM), seconds=40
    ),
    whole("/embed", lambda: repeated(part("image"), 40 * MIB) + b"--b--\r\n", name="many empty images"),
    whole("/process", lambda: repeated(part("x"), 40 * MIB) + b"--b--\r\n", name="many unknown parts"),
    whole("/preprocess", lambda: repeated(part("mean", b"0"), 40 * MIB) + b"--b--\r\n", name="one option again and again"),
    whole("/batches?operation=detect", lambda: repeated(part("image", b"x"), 40 * MIB) + b"--b--\r\n", name="many items"),
    whole("/verify", lambda: part("a", b"x", *[b"h%d: v" % n for n in range(400_000)]) + b"--b--\r\n", name="many headers of a part"),
    whole("/detect", lambda: part("options", b"[" * (40 * MIB)) + b"--b--\r\n", name="options nested deeply"),
    whole(
        "/process", lambda: part("operations", b"[" + repeated(b'{"op":"flip"},', 20 * MIB) + b"0]") + b"--b--\r\n", name="many operations"
    ),
    whole("/collections/{collection}/searches", lambda: part("purpose", b"a" * (40 * MIB)) + b"--b--\r\n", name="a long option"),
    whole(
        "/batches",
        lambda: b'--b\r\ncontent-disposition: form-data; name="image"; filename="' + b"a" * (40 * MIB) + b'"\r\n\r\nx\r\n--b--\r\n',
        name="a long filename",
    ),
]
