"""Requests whose results are stored: their rate beside requests that store nothing, and over time on a new database."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import itertools
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
STORES = ("", "&store=false")
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


@dataclasses.dataclass
class Window:
    """What many clients got in some seconds: the images per second, the seconds of each, and the processor time of an image in ms."""

    rate: float
    times: list[float]
    of_server: float
    of_postgres: float


# Those of a path, a server and a way to store, round by round.
Windows = dict[tuple[str, int, str], list[Window]]


def window(server: Server, path: str, images: list[bytes], seconds: float, count: int = CLIENTS) -> Window:
    """Sends images that the server does not know from a number of clients."""
    start = time.perf_counter()
    end = start + seconds

    def client(offset: int) -> list[float]:
        times = []
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            while (began := time.perf_counter()) < end:
                ask(connection, path, images[(offset + len(times)) % len(images)] + next(unique).to_bytes(8, "big"))
                times.append(time.perf_counter() - began)
        return times

    before = [server.cpu_seconds(), cpu_seconds_of_postgres()]
    with concurrent.futures.ThreadPoolExecutor(count) as clients:
        times = [each for times in clients.map(client, range(count)) for each in times]
    elapsed = time.perf_counter() - start
    after = [server.cpu_seconds(), cpu_seconds_of_postgres()]
    of_server, of_postgres = (1e3 * (b - a) / len(times) for a, b in zip(before, after, strict=True))
    return Window(len(times) / elapsed, times, of_server, of_postgres)


def cpu_seconds_of_postgres() -> float:
    """Returns the processor time of all its processes, those that ended included."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        # A process can end while it is read. Its time is then that of its parent, too.
        with contextlib.suppress(OSError):
            if (process / "comm").read_text() == "postgres\n":
                ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[-1] * 1e3


def storing(args: argparse.Namespace) -> None:
    """Compares requests that store with those that do not. With `--other`, the requests of another program that store, too.

    Two processes of one program differ in their rates, so each round starts new ones, and its windows have no fixed order.
    """
    programs = [Path(args.server) if args.server else BENCH.with_name("facescan"), *([Path(args.other)] if args.other else [])]
    for database in databases(args):
        windows: Windows = collections.defaultdict(list)
        for _ in range(args.rounds or 5):
            with servers(database, programs) as started:
                measure([server for server, _ in started], args.seconds or WINDOW_S, windows)
        for path, least in zip(PATHS, LEAST_RATIO[database], strict=True):
            for number in range(len(programs)):
                stored, unstored = (windows[path, number, stores] for stores in STORES)
                ratios = [a.rate / b.rate for a, b in zip(stored, unstored, strict=True)]
                ratio, each = statistics.median(ratios), ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
                name = "storing" if number == 0 else "storing, other program"
                check(
                    f"{name}: {path} on {database} over store=false",
                    number > 0 or ratio >= least,
                    f"{ratio:.3f}, of {each} (stored: {shown(stored)}; not stored: {shown(unstored)})",
                )


def measure(started: list[Server], seconds: float, windows: Windows) -> None:
    """Adds a window of each path, server and way to store, in a random order."""
    images = thumbnails(started[0])
    for path in PATHS:
        for server in started:
            window(server, path, images, 1)
        runs = list(itertools.product(range(len(started)), STORES))
        for number, stores in random.sample(runs, len(runs)):
            windows[path, number, stores].append(window(started[number], path + stores, images, seconds))


def databases(args: argparse.Namespace) -> list[str]:
    return [args.database] if args.database else ["sqlite", *(["postgres"] if os.environ.get("TEST_DATABASE_URL") else [])]


def shown(windows: list[Window]) -> str:
    rate, of_server, of_postgres = (statistics.median(getattr(it, name) for it in windows) for name in ("rate", "of_server", "of_postgres"))
    slowest = p99([time for it in windows for time in it.times])
    return f"{rate:.1f} images/s, p99 {slowest:.1f} ms, processor time {of_server:.2f} and {of_postgres:.2f} ms an image"


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
            rates = [window(server, PATHS[0], images, seconds).rate for _ in range(TENTHS)]
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
