"""What another tenant, `/livez` and the memory of the server show beside an attack."""

from __future__ import annotations

import http.client
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .target import PHOTO, Target

PAUSE_S = 0.04
# A request of bob without a response in this time is an error.
PATIENCE_S = 10
# Bob goes on for at least this time, because a server may have most to do after its response.
LEAST_S = 1.5
# How long the server has to give memory back.
SETTLE_S = 10


@dataclass
class Latencies:
    """The seconds of requests that were answered as they should, and the outcomes of others."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def quantile(self, hundredth: int) -> float:
        if len(self.seconds) < 2:
            return self.seconds[0] if self.seconds else float("inf")
        return statistics.quantiles(self.seconds, n=100, method="inclusive")[hundredth - 1]


@dataclass
class Figures:
    """What was seen before, beside and after an attack. Sizes are in bytes."""

    alone: Latencies
    beside: Latencies
    livez: Latencies
    peak: int
    kept: int


class Repeated(threading.Thread):
    """Sends a request again and again on a connection of its own."""

    def __init__(self, target: Target, method: str, path: str, pause: float, body: bytes | None = None) -> None:
        super().__init__(daemon=True)
        self.port, self.pause = target.port, pause
        self.message = (method, path, body, {"authorization": f"Bearer {target.bob.key}", "content-type": "image/jpeg"})
        self.connection = self.open()
        self.results, self.stopped, self.delay = Latencies(), threading.Event(), 0.0

    def open(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def once(self) -> None:
        began = time.monotonic()
        try:
            self.connection.request(*self.message)
            response = self.connection.getresponse()
            response.read()
            outcome = "" if response.status == 200 else str(response.status)
        except (OSError, http.client.HTTPException) as error:
            outcome = "no response" if isinstance(error, TimeoutError) else type(error).__name__
            self.connection.close()
            self.connection = self.open()
        self.results.seconds.append(time.monotonic() - began)
        if outcome:
            self.results.errors.append(outcome)

    def run(self) -> None:
        self.stopped.wait(self.delay)
        while not self.stopped.is_set():
            self.once()
            self.stopped.wait(self.pause)

    def end(self) -> Latencies:
        self.stopped.set()
        self.join()
        return self.results


def detections(target: Target) -> Repeated:
    return Repeated(target, "POST", "/detect?store=false", PAUSE_S, PHOTO)


def alone(target: Target, count: int) -> Latencies:
    bob = detections(target)
    for _ in range(count):
        bob.once()
        time.sleep(PAUSE_S)
    return bob.results


def watch(target: Target, attack: Callable[[], None], delay: float) -> Figures:
    """Runs an attack and watches the server meanwhile. Bob comes after a delay, and is silent as long before."""
    alone(target, 10)
    before = alone(target, target.samples)
    time.sleep(delay)
    resident = target.status_field("VmRSS")
    Path(f"/proc/{target.server.pid}/clear_refs").write_text("5")
    bob, livez = detections(target), Repeated(target, "GET", "/livez", 0.02)
    bob.delay = delay
    bob.start()
    livez.start()
    began = time.monotonic()
    attack()
    time.sleep(max(0.0, began + LEAST_S - time.monotonic()))
    beside, live = bob.end(), livez.end()
    if target.server.poll() is not None:
        return Figures(before, beside, live, target.group.highest() if target.group else 0, 0)
    peak = target.status_field("VmHWM") - resident
    settle(target, resident)
    kept = target.status_field("VmRSS") - resident
    return Figures(before, beside, live, peak, kept)


def settle(target: Target, resident: int) -> None:
    """Waits until the memory is given back, or the time for it is over."""
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end and target.status_field("VmRSS") > resident + (16 << 20):
        time.sleep(0.2)
