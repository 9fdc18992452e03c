"""The drill of hostile connections: floods of headers, frames, resets and settings beside an ordinary client."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import http.client
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

from . import frames as h2
from .installation import Installation, check, forget_highest, image, resident, wait

DETECT = "/detect?det_size=64&store=false"
# What docs/operations.md states: the growth of the server's memory, and p99 of others over that without an attack.
STATED_BYTES, STATED_RATIO = 32 << 20, 1.5
# A short limit, so that the drill sees the server close connections that do not read.
HEADER_TIMEOUT_MS = 2000
Unit = Callable[[int], bytes]
POST_HEAD = b"POST /detect?store=false HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/png\r\ntransfer-encoding: chunked\r\n\r\n"
OPENING = h2.PREFACE + h2.settings()
# A stream whose body is open.
OPEN_BODY = OPENING + h2.headers(1, h2.head(b"POST", DETECT.encode(), h2.literal(b"content-type", b"image/png")), h2.END_HEADERS)


# A request that states a body and does not send it.
UNSENT = h2.head(b"POST", DETECT.encode(), h2.literal(b"content-type", b"image/png"), h2.literal(b"content-length", b"100000"))


@dataclasses.dataclass
class Attack:
    """Bytes that are sent again and again on a few connections. A connection that the server closes is opened again."""

    name: str
    # What each connection sends at its start.
    opening: bytes
    # Returns the bytes that follow, by the number of the call on this connection.
    unit: Unit
    # Units in each second, on all connections together.
    rate: int
    # What a connection has to see at its end, or "open" if it may stay.
    outcomes: set[str]
    connections: int = 4
    reads: bool = True
    # Whether the settings and pings of the server are acknowledged.
    acknowledges: bool = True
    # Whether the server acts after a time that is longer than the measurement.
    is_slow: bool = False
    # A frame that the connections have to see.
    seen: str = ""
    ratio: float = STATED_RATIO


def stream(number: int) -> int:
    return 2 * number + 1


def reset_at_once(number: int) -> bytes:
    """A hundred requests with a body, each reset in the same packet."""
    return b"".join(
        h2.post(stream(n), DETECT.encode(), image(n)) + h2.frame(h2.RESET, 0, stream(n), h2.CANCEL)
        for n in range(100 * number, 100 * number + 100)
    )


def reset_later(number: int) -> bytes:
    """A request with a body, and a reset of an earlier one that may run."""
    reset = h2.frame(h2.RESET, 0, stream(number - 4), h2.CANCEL) if number >= 4 else b""
    return h2.post(stream(number), DETECT.encode(), image(number)) + reset


def bomb(number: int) -> bytes:
    """A field of 4,000 bytes, and then 10,000 references to it in 10,000 bytes."""
    if number == 0:
        return h2.headers(1, h2.head(b"GET", b"/livez", h2.literal(b"a", b"x" * 4000, kept=True)))
    return h2.headers(stream(number), h2.head(b"GET", b"/livez") + b"\xbe" * 10_000)


def large_list(number: int) -> bytes:
    return h2.headers(stream(number), h2.head(b"GET", b"/livez", *(h2.literal(b"a%d" % n, b"x" * 100) for n in range(140))))


def many_streams(number: int) -> bytes:
    return b"".join(h2.headers(stream(n), h2.head(b"GET", b"/openapi.json")) for n in range(320 * number, 320 * number + 320))


ATTACKS = [
    Attack("http/1, 10,000 headers", b"", lambda n: b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n", 20, {"431", "closed"}),
    Attack("http/1, a header of 1 MB", b"", lambda n: b"GET /livez HTTP/1.1\r\na: " + b"b" * (1 << 20) + b"\r\n\r\n", 5, {"431", "closed"}),
    Attack("http/1, an endless header line", b"GET /livez HTTP/1.1\r\na: ", lambda n: b"b" * 8192, 500, {"431", "closed"}),
    Attack("http/1, an endless chunk extension", POST_HEAD + b"1;", lambda n: b"b" * 1024, 500, {"400", "closed"}),
    Attack("http/1, endless trailers", POST_HEAD + b"0\r\n", lambda n: b"a: %0100d\r\n" % n * 10, 500, {"400", "413", "415", "closed"}),
    Attack("http/1, chunks of one byte", POST_HEAD, lambda n: b"1\r\nx\r\n" * 1000, 50, {"400", "408", "413", "415", "open"}),
    Attack(
        "http/1, requests without reading",
        b"",
        lambda n: b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100,
        20,
        {"closed"},
        reads=False,
        is_slow=True,
    ),
    Attack("http/2, rapid reset in one packet", OPENING, reset_at_once, 20, {"goaway 11"}),
    # At most 16 requests are in work at a time. Others wait for their turn behind them, as behind those of any client.
    Attack("http/2, rapid reset of requests that run", OPENING, reset_later, 1000, {"open", "goaway 11"}, ratio=8),
    Attack(
        "http/2, endless continuation",
        OPENING + h2.headers(1, h2.head(b"GET", b"/livez"), 0),
        lambda n: h2.frame(h2.CONTINUATION, 0, 1, h2.literal(b"a", b"x" * 1000)),
        500,
        {"goaway 11"},
        acknowledges=False,
    ),
    Attack("http/2, header lists of 14 kB", OPENING, large_list, 200, {"open"}),
    Attack("http/2, a header list that unpacks to 40 MB", OPENING, bomb, 20, {"goaway 11"}),
    Attack(
        "http/2, settings",
        OPENING,
        lambda n: h2.settings(initial_window_size=n % 65536, header_table_size=n % 4096) * 100,
        20,
        {"open", "goaway 11"},
    ),
    Attack(
        "http/2, pings without reading",
        OPENING,
        lambda n: h2.frame(h2.PING, 0, 0, struct.pack(">Q", n)) * 2000,
        50,
        {"closed"},
        connections=1,
        reads=False,
        is_slow=True,
    ),
    Attack("http/2, empty data", OPEN_BODY, lambda n: h2.frame(h2.DATA, 0, 1) * 50, 100, {"goaway 11"}),
    Attack("http/2, data of one byte", OPEN_BODY, lambda n: h2.frame(h2.DATA, 0, 1, b"x") * 50, 100, {"open", "goaway 11"}),
    Attack("http/2, bodies that never come", OPENING, lambda n: h2.headers(stream(n), UNSENT, h2.END_HEADERS), 200, {"open", "goaway 11"}),
    Attack("http/2, priorities", OPENING, lambda n: h2.frame(h2.PRIORITY, 0, stream(n), b"\0\0\0\0\x10") * 100, 20, {"open"}),
    Attack(
        "http/2, answers without a window",
        h2.PREFACE + h2.settings(initial_window_size=0),
        lambda n: h2.headers(stream(n), h2.head(b"GET", b"/openapi.json")),
        100,
        {"open"},
        is_slow=True,
        seen="reset 8",
    ),
    Attack(
        "http/2, more streams than the limit",
        h2.PREFACE + h2.settings(initial_window_size=0),
        many_streams,
        20,
        {"goaway 11"},
        seen="reset 7",
    ),
]


class Hostile:
    """One connection of an attack."""

    def __init__(self, attack: Attack, port: int) -> None:
        self.attack, self.number, self.received = attack, 0, bytearray()
        self.is_h2 = attack.opening.startswith(h2.PREFACE)
        self.outcome, self.seen = "", collections.Counter()
        self.socket = socket.socket()
        if not attack.reads:
            # The less the system takes for the client, the sooner the server notices.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.waiting = bytearray(attack.opening)

    def step(self) -> None:
        """Sends a unit. Without space in the socket, the rest of the last unit goes first."""
        if not self.waiting:
            self.waiting += self.attack.unit(self.number)
            self.number += 1
        self.push()
        if self.attack.reads:
            self.read()

    def push(self) -> None:
        try:
            del self.waiting[: self.socket.send(self.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            if self.attack.reads:
                self.read()
            self.outcome = self.outcome or "closed"

    def read(self) -> None:
        try:
            while received := self.socket.recv(1 << 16):
                self.received += received
                self.understand()
            self.outcome = self.outcome or "closed"
        except BlockingIOError:
            pass
        except OSError:
            self.outcome = self.outcome or "closed"

    def understand(self) -> None:
        if not self.is_h2:
            if self.received.startswith(b"HTTP/1.1 ") and len(self.received) >= 12:
                self.outcome = self.received[9:12].decode()
            return
        for kind, flags, _, payload in h2.split(self.received):
            if kind == h2.GO_AWAY:
                self.outcome = f"goaway {int.from_bytes(payload[4:8], 'big')}"
            elif kind == h2.RESET:
                self.seen[f"reset {int.from_bytes(payload, 'big')}"] += 1
            elif kind == h2.HEADERS:
                self.seen["answer"] += 1
            elif kind in (h2.SETTINGS, h2.PING) and not flags & h2.ACK and self.attack.acknowledges:
                self.waiting += h2.frame(kind, h2.ACK, 0, payload if kind == h2.PING else b"")


def flood(attack: Attack, port: int, stopped: Event, results: Connection) -> None:
    """Attacks until it is stopped. Sends what the connections saw, and the number of units."""
    open_ones = [Hostile(attack, port) for _ in range(attack.connections)]
    outcomes, seen, units = collections.Counter(), collections.Counter(), 0
    began = time.monotonic()
    while not stopped.is_set():
        at = units % attack.connections
        hostile = open_ones[at]
        hostile.step()
        units += 1
        if hostile.outcome:
            outcomes[hostile.outcome] += 1
            seen += hostile.seen
            hostile.socket.close()
            open_ones[at] = Hostile(attack, port)
        time.sleep(max(0.0, began + units / attack.rate - time.monotonic()))
    for hostile in open_ones:
        outcomes["open"] += 1
        seen += hostile.seen
        hostile.socket.close()
    results.send((outcomes, seen, units))


class Other:
    """An ordinary client beside the attack."""

    def __init__(self, installation: Installation) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", installation.port, timeout=30)
        self.refused = 0

    def times(self, count: int) -> list[float]:
        """Returns the seconds of this number of answers."""
        # The server closes a connection that was idle since the last call.
        self.connection.close()
        times: list[float] = []
        while len(times) < count:
            began = time.monotonic()
            self.connection.request("POST", DETECT, image(len(times)), {"content-type": "image/png"})
            response = self.connection.getresponse()
            response.read()
            if response.status == 200:
                times.append(time.monotonic() - began)
            else:
                self.refused += 1
                time.sleep(0.005)
        return times


def gauge(installation: Installation, name: str) -> float:
    """Returns the sum of a metric over its labels."""
    text = installation.send("GET", "/metrics")[1].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def protocol(args: argparse.Namespace) -> None:
    """Hostile connections: what they see, what others notice, and what is left of them."""
    with Installation("sqlite", server__header_timeout_ms=HEADER_TIMEOUT_MS, admission__interactive_images=64) as installation:
        server = installation.serve("--service-ms", "10")
        other = Other(installation)
        other.times(100)
        for attack in ATTACKS:
            forget_highest(server)
            before = resident(server)
            alone, beside, outcomes, seen, units = rounds(attack, installation, other, args.rounds or 3)
            grown = resident(server, "VmHWM") - before
            p99 = [statistics.quantiles(times, n=100)[98] * 1e3 for times in (alone, beside)]
            print(
                f"     {attack.name}: {units} units, {dict(outcomes)}, {dict(seen)}, p99 {p99[0]:.1f} ms alone and {p99[1]:.1f} ms beside, "
                f"{grown / (1 << 20):.1f} MiB",
                flush=True,
            )
            ended = set(outcomes) - {"open"} or {"open"}
            check(
                f"{attack.name}: each connection is limited",
                ended <= attack.outcomes and (not attack.seen or seen[attack.seen] > 0),
                str(dict(outcomes)),
            )
            check(f"{attack.name}: p99 of others over alone", p99[1] / p99[0] <= attack.ratio, f"{p99[1] / p99[0]:.2f}")
            check(f"{attack.name}: memory", grown <= STATED_BYTES, f"{grown / (1 << 20):.1f} MiB")
            began = time.monotonic()
            wait("the end of the attack", lambda: gauge(installation, "facescan_images_in_flight") == 0, 10)
            check(
                f"{attack.name}: seconds until nothing of it is in work", time.monotonic() - began <= 1, f"{time.monotonic() - began:.2f}"
            )
        check(
            "the server lives and answers",
            server.poll() is None and len(other.times(20)) == 20,
            f"{other.refused} requests of the other client were refused",
        )


def rounds(
    attack: Attack, installation: Installation, other: Other, count: int
) -> tuple[list[float], list[float], collections.Counter[str], collections.Counter[str], int]:
    """Measures the other client alone and beside the attack in turn."""
    alone, beside = [], []
    outcomes, seen, units = collections.Counter(), collections.Counter(), 0
    for _ in range(count):
        alone += other.times(100)
        stopped, (receiver, sender) = multiprocessing.Event(), multiprocessing.Pipe()
        process = multiprocessing.Process(target=flood, args=(attack, installation.port, stopped, sender))
        process.start()
        time.sleep(0.3)
        beside += other.times(100)
        time.sleep(HEADER_TIMEOUT_MS / 1e3 + 1 if attack.is_slow else 0)
        stopped.set()
        parts = receiver.recv()
        process.join()
        outcomes, seen, units = outcomes + parts[0], seen + parts[1], units + parts[2]
    return alone, beside, outcomes, seen, units
