"""Requests whose results are stored: their rate beside requests that store nothing, and over time on a new database."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import statistics
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from .installation import BENCH, Postgres, check
from .pair import CLIENTS, PHOTOS, Server, unique

PATHS = ("/detect?det_size=fit", "/embed?det_size=fit")
WINDOW_S = 4
THUMBNAIL = 250
# The rate with storage over the rate without, of each path.
LEAST_RATIO = {"sqlite": (0.85, 0.96), "postgres": (0.80, 0.92)}
TABLES = ("images", "image_sources", "scans", "faces", "embeddings")
GROWTH_S, TENTHS, LEAST_OF_FIRST = 300, 10, 0.95


@contextlib.contextmanager
def servers(database: str, programs: list[Path]) -> Iterator[list[tuple[Server, Postgres | None]]]:
    """Starts each program with a new database."""
    with contextlib.ExitStack() as stack:
        started = []
        for program in programs:
            postgres = Postgres() if database == "postgres" else None
            if postgres:
                stack.callback(postgres.drop)
            url = postgres.url if postgres else ""
            started.append((stack.enter_context(Server(program.absolute(), url)), postgres))
        yield started


def thumbnails(server: Server) -> list[bytes]:
    """Returns small images, of which a server does many in a second, so that their rows count."""
    operations = urllib.parse.quote(json.dumps([{"op": "resize", "width": THUMBNAIL}]))
    images = []
    for photo in PHOTOS:
        connection = server.open()
        connection.request("POST", f"/process?format=jpeg&operations={operations}", photo, {"content-type": "image/jpeg", "accept": "image/jpeg"})
        images.append(connection.getresponse().read())
    return images


def ask(connection: socket.socket, path: str, image: bytes) -> None:
    """Sends an image and reads the response. A client of a library takes as long as the server."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/jpeg\r\ncontent-length: {len(image)}\r\n\r\n"
    connection.sendall(head.encode() + image)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1 << 16)
    head_of_answer, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"HTTP/1.1 200 .*content-length: (\d+)", head_of_answer, re.DOTALL)
    assert length, answer[:300]
    while len(body) < int(length[1]):
        body += connection.recv(1 << 16)


def window(server: Server, path: str, images: list[bytes], seconds: float) -> tuple[float, list[float]]:
    """Sends images that the server does not know from many clients. Returns the images per second, and their seconds."""
    end = time.perf_counter() + seconds

    def client(offset: int) -> list[float]:
        times = []
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            while (began := time.perf_counter()) < end:
                ask(connection, path, images[(offset + len(times)) % len(images)] + next(unique).to_bytes(8, "big"))
                times.append(time.perf_counter() - began)
        return times

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        times = [time for times in clients.map(client, range(CLIENTS)) for time in times]
    return len(times) / seconds, times


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[-1] * 1e3


def storing(args: argparse.Namespace) -> None:
    """Compares requests that store with those that do not. With `--other`, the requests of another program that store, too."""
    programs = [Path(args.server) if args.server else BENCH.with_name("facescan"), *([Path(args.other)] if args.other else [])]
    for database in databases(args):
        with servers(database, programs) as started:
            for place, path in enumerate(PATHS):
                compare(database, place, path, [server for server, _ in started], args)


def databases(args: argparse.Namespace) -> list[str]:
    return [args.database] if args.database else ["sqlite", *(["postgres"] if os.environ.get("TEST_DATABASE_URL") else [])]


def compare(database: str, place: int, path: str, started: list[Server], args: argparse.Namespace) -> None:
    seconds = args.seconds or WINDOW_S
    images = thumbnails(started[0])
    for server in started:
        window(server, path, images, 1)
    rates: list[list[float]] = [[] for _ in range(2 * len(started))]
    times: list[list[float]] = [[] for _ in rates]
    for _ in range(args.rounds or 5):
        runs = [(server, path + stores) for server in started for stores in ("", "&store=false")]
        for column, (server, url) in enumerate(runs):
            rate, took = window(server, url, images, seconds)
            rates[column].append(rate)
            times[column] += took
    for number in range(len(started)):
        stored, unstored = rates[2 * number : 2 * number + 2]
        ratio = statistics.median(a / b for a, b in zip(stored, unstored, strict=True))
        shown = (
            f"{ratio:.3f} ({statistics.median(stored):.1f} over {statistics.median(unstored):.1f} images/s, "
            f"p99 {p99(times[2 * number]):.1f} and {p99(times[2 * number + 1]):.1f} ms)"
        )
        name = "storing" if number == 0 else "storing, other program"
        check(f"{name}: {path} on {database} over store=false", number > 0 or ratio >= LEAST_RATIO[database][place], shown)


def growth(args: argparse.Namespace) -> None:
    """Stores on a new database whose statistics nobody collects."""
    program = Path(args.server) if args.server else BENCH.with_name("facescan")
    for database in databases(args):
        with servers(database, [program]) as [(server, postgres)]:
            if postgres:
                for table in TABLES:
                    postgres.query(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
            images = thumbnails(server)
            window(server, PATHS[0] + "&store=false", images, 2)
            seconds = (args.seconds or GROWTH_S) / TENTHS
            rates = [window(server, PATHS[0], images, seconds)[0] for _ in range(TENTHS)]
            shown = f"{rates[-1] / rates[0]:.3f} ({', '.join(f'{rate:.0f}' for rate in rates)} images/s)"
            check(f"growth: the last tenth over the first on {database}", rates[-1] >= LEAST_OF_FIRST * rates[0], shown)
            if postgres:
                counts = "SELECT relname, seq_scan, seq_tup_read, n_live_tup FROM pg_stat_user_tables WHERE relname IN "
                read = postgres.query(f"{counts} {TABLES}")
                scanned = [row for row in read if int(row[2]) > int(row[3])]
                check("growth: no table is read as a whole", not scanned, str(scanned or read))
