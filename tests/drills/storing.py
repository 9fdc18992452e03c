"""Requests whose results are stored: their rate beside requests that store nothing, and over time on a new database."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from .installation import BENCH, Postgres, check, wait
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
            settings = {"DATABASE_URL": postgres.url if postgres else "", "FACESCAN__DATABASE__ACQUIRE_TIMEOUT_MS": "2000"}
            started.append((stack.enter_context(Server(program.absolute(), settings)), postgres))
        yield started


def thumbnails(server: Server) -> list[bytes]:
    """Returns small images, of which a server does many in a second, so that their rows count."""
    operations = urllib.parse.quote(json.dumps([{"op": "resize", "width": THUMBNAIL}]))
    images = []
    for photo in PHOTOS:
        connection = server.open()
        connection.request(
            "POST", f"/process?format=jpeg&operations={operations}", photo, {"content-type": "image/jpeg", "accept": "image/jpeg"}
        )
        images.append(connection.getresponse().read())
    return images


def ask(connection: socket.socket, path: str, image: bytes) -> bytes:
    """Sends an image and returns the body of the response. A client of a library takes as long as the server.

    Raises `ConnectionError` if the server ends, and if it answers with an error.
    """
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/jpeg\r\ncontent-length: {len(image)}\r\n\r\n"
    connection.sendall(head.encode() + image)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += received(connection)
    head_of_answer, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"HTTP/1.1 200 .*content-length: (\d+)", head_of_answer, re.DOTALL)
    if not length:
        raise ConnectionError(answer[:300])
    while len(body) < int(length[1]):
        body += received(connection)
    return body


def received(connection: socket.socket) -> bytes:
    if not (data := connection.recv(1 << 16)):
        raise ConnectionResetError
    return data


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


def answers(args: argparse.Namespace) -> None:
    """Kills the server, and in turn Postgres, while requests store. Every image that was answered is stored, once."""
    program, rounds = Path(args.server) if args.server else BENCH.with_name("facescan"), args.rounds or 100
    for database in databases(args):
        with servers(database, [program]) as [(server, postgres)]:
            images = thumbnails(server)
            if postgres:
                # The server of the tests answers before a commit is in its log.
                postgres.query(f"ALTER DATABASE {postgres.name} SET synchronous_commit = on")
                server.process.kill()
                server.process.wait()
                server.restart()
            answered: list[tuple[str, str]] = []
            for turn in range(rounds):
                with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                    asking = [clients.submit(ask_until_the_end, server, images) for _ in range(CLIENTS)]
                    time.sleep(random.uniform(0.1, 0.6))
                    if postgres and turn % 2:
                        # A server whose process is killed ends all of them, and recovers from its log.
                        backends = postgres.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'facescan' LIMIT 1")
                        os.kill(int(backends[0][0]), signal.SIGKILL)
                        time.sleep(0.3)
                    server.process.kill()
                    server.process.wait()
                    answered += [answer for client in asking for answer in client.result()]
                wait("Postgres", lambda postgres=postgres: not postgres or is_open(postgres))
                server.restart()
            wrong = [image for image, sha256 in answered if not is_stored_once(server, image, sha256)]
            name = f"answers: images that were answered and are not stored once, on {database}"
            check(name, bool(answered) and not wrong, f"{len(wrong)} of {len(answered)}, {rounds} kills")


def ask_until_the_end(server: Server, images: list[bytes]) -> list[tuple[str, str]]:
    """Returns the id and the sha256 of each image that is answered, until the first request that is not."""
    answered = []
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", server.port)) as connection:
        while True:
            image = random.choice(images) + next(unique).to_bytes(8, "big")
            [result] = json.loads(ask(connection, PATHS[1], image))["results"]
            answered.append((result["image_id"], hashlib.sha256(image).hexdigest()))
    return answered


def is_open(postgres: Postgres) -> bool:
    with contextlib.suppress(subprocess.CalledProcessError):
        return bool(postgres.query("SELECT 1"))
    return False


def is_stored_once(server: Server, image: str, sha256: str) -> bool:
    server.connection.request("GET", f"/images/{image}")
    stored = json.loads(server.connection.getresponse().read())
    return stored.get("sha256") == sha256 and len(stored["scans"]) == 1
