"""Two programs side by side: the same requests to both in turn, so that the noise of the machine meets both."""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from own_server import free_port, start
from packages import RUNTIME

from .installation import BENCH, check

PHOTOS = [path.read_bytes() for path in sorted((RUNTIME / "pictures").glob("*.jpg"))]
OPERATIONS = ("detect", "embed")
CLIENTS, WINDOW_S = 12, 2
BATCH_IMAGES = 140
# The new program's latency over the other's, and its rates.
MOST_TIME, LEAST_RATE = 1.03, 0.98

unique = itertools.count(time.time_ns())


class Server:
    """A program that serves from a folder of its own."""

    def __init__(self, binary: Path, settings: dict[str, str] | None = None) -> None:
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory(prefix="facescan-pair.")
        self.command = (str(binary), self.port, self.folder.name, {"DATABASE_URL": ""} | (settings or {}))
        self.restart()

    def restart(self) -> None:
        self.process: subprocess.Popen = start(*self.command)
        self.connection = self.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def open(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def latency(self, operation: str, photo: bytes) -> float:
        """Sends an image on the connection of the one client, and returns the seconds until the response."""
        began = time.perf_counter()
        send(self.connection, f"/{operation}?store=false", photo, "image/jpeg")
        return time.perf_counter() - began

    def rate(self, operation: str) -> float:
        """Returns the images per second that many clients get in one window."""
        end = time.perf_counter() + WINDOW_S

        def client(offset: int) -> int:
            connection = self.open()
            for done in itertools.count():
                if time.perf_counter() >= end:
                    connection.close()
                    return done
                send(connection, f"/{operation}?store=false", PHOTOS[(offset + done) % len(PHOTOS)], "image/jpeg")
            return 0

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            return sum(clients.map(client, range(CLIENTS))) / WINDOW_S

    def batch_rate(self, operation: str) -> float:
        """Returns the images per second of a batch, from its submission to its end."""
        lines = [json.dumps({"operation": operation}).encode()]
        for n in range(BATCH_IMAGES):
            data = PHOTOS[n % len(PHOTOS)] + next(unique).to_bytes(8, "big")
            lines.append(json.dumps({"id": str(n), "data": base64.b64encode(data).decode()}).encode())
        connection = self.open()
        began = time.perf_counter()
        batch = send(connection, "/batches", b"\n".join(lines), "application/x-ndjson")["id"]
        while True:
            connection.request("GET", f"/batches/{batch}")
            now = json.loads(connection.getresponse().read())
            if now["state"] == "done":
                assert now["counts"]["ok"] == BATCH_IMAGES, now
                return BATCH_IMAGES / (time.perf_counter() - began)
            time.sleep(0.01)


def send(connection: http.client.HTTPConnection, path: str, body: bytes, kind: str) -> dict:
    connection.request("POST", path, body, {"content-type": kind})
    response = connection.getresponse()
    answer = response.read()
    assert response.status < 300, (path, response.status, answer[:300])
    return json.loads(answer)


def in_turn(servers: tuple[Server, Server], rounds: int, measure: Callable[[Server, int], float]) -> list[tuple[float, float]]:
    """Measures both servers in each round. The one that begins changes from round to round."""
    pairs = []
    for turn in range(rounds):
        ordered = servers if turn % 2 == 0 else servers[::-1]
        figures = {id(server): measure(server, turn) for server in ordered}
        pairs.append((figures[id(servers[0])], figures[id(servers[1])]))
    return pairs


def pair(args: argparse.Namespace) -> None:
    """Compares the latency of one client, the rate of many, and the rate of batches."""
    if not args.other:
        sys.exit("drill: name the program to compare with by --other PATH")
    new = Path(args.server) if args.server else BENCH.with_name("facescan")
    rounds = args.rounds or 16
    with Server(new.absolute()) as ours, Server(Path(args.other).absolute()) as other:
        servers = (ours, other)
        for operation in OPERATIONS:
            for server in servers:
                server.rate(operation)
            times = in_turn(servers, 25 * rounds, lambda server, turn: server.latency(operation, PHOTOS[turn % len(PHOTOS)]))
            medians = [statistics.median(column) for column in zip(*times, strict=True)]
            ratio = medians[0] / medians[1]
            shown = f"{ratio:.3f} ({medians[0] * 1e3:.1f} over {medians[1] * 1e3:.1f} ms, {len(times)} pairs)"
            check(f"pair: p50 of /{operation} with one client", ratio <= MOST_TIME, shown)
        for operation in OPERATIONS:
            compare(f"/{operation} with {CLIENTS} clients", servers, rounds, lambda server, _: server.rate(operation))
        for operation in OPERATIONS:
            compare(f"batches of {operation}", servers, rounds, lambda server, _: server.batch_rate(operation))


def compare(name: str, servers: tuple[Server, Server], rounds: int, measure: Callable[[Server, int], float]) -> None:
    before = [server.cpu_seconds() for server in servers]
    rates = in_turn(servers, rounds, measure)
    ratio = statistics.median(ours / other for ours, other in rates)
    medians = [statistics.median(column) for column in zip(*rates, strict=True)]
    cpu = [server.cpu_seconds() - start for server, start in zip(servers, before, strict=True)]
    shown = (
        f"{ratio:.3f} ({medians[0]:.1f} over {medians[1]:.1f} images/s, {rounds} rounds; processor time {cpu[0]:.1f} and {cpu[1]:.1f} s)"
    )
    check(f"pair: rate of {name}", ratio >= LEAST_RATE, shown)
