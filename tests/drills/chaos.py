"""Drills of a hostile environment: disks, signals, clocks, connections, file descriptors and memory."""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import threading
import time
from pathlib import Path

from .installation import RUNTIME, Installation, check, image, verify, wait

DETECT = "/detect?det_size=64"
# The memory that docs/operations.md states for a server with the default settings on two cores, in MiB.
STATED_NEED = 480


def code(body: bytes) -> str:
    try:
        return json.loads(body).get("code", "")
    except ValueError:
        return ""


def folder(_: argparse.Namespace) -> None:
    """A full disk under the database, and a data folder that is read-only."""
    full_disk()
    read_only()


class OwnDisk:
    """A server whose data folder is a small disk that only it sees."""

    def __init__(self, installation: Installation, prepare: str) -> None:
        self.installation, self.numbers = installation, iter(range(1_000_000))
        data = installation.folder / "data"
        data.mkdir()
        mount = f'mount -t tmpfs -o size=8m drill {data} && {prepare.format(data)} && exec "$@"'
        within = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
        self.server = installation.start("serve", within=within, FACESCAN__DATA_DIR=str(data))
        wait("the server", lambda: installation.status("/livez") == 200)
        self.inside = Path(f"/proc/{self.server.pid}/root{data}")

    def detect(self, store: str) -> tuple[int, str]:
        status, body = self.installation.send("POST", f"{DETECT}&store={store}", image(next(self.numbers)), "image/png")
        return status, code(body)

    def check(self, name: str) -> None:
        refused = {self.detect("true") for _ in range(20)} - {(200, "")}
        check(f"{name}: a request that stores is refused", refused == {(503, "store_unavailable")}, str(refused))
        answered = {self.detect("false") for _ in range(20)}
        check(f"{name}: a request that does not store is answered", answered == {(200, "")}, str(answered))


def full_disk() -> None:
    with Installation("sqlite") as installation:
        disk = OwnDisk(installation, "true")
        before = [disk.detect("true") for _ in range(5)]
        with (disk.inside / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(os.urandom(4096))
            except OSError as error:
                print(f"     {error.strerror}")
        disk.check("full disk of the database")
        (disk.inside / "filler").unlink()
        after = [disk.detect("true") for _ in range(5)]
        check("full disk of the database: it works again", set(before + after) == {(200, "")}, f"{len(after)} answers")
        _, body = installation.send("GET", "/images?limit=500")
        stored = len(json.loads(body)["results"])
        check("full disk of the database: nothing is lost", stored >= len(before + after), f"{stored} images")


def read_only() -> None:
    with Installation("sqlite") as installation:
        OwnDisk(installation, "mount -o remount,ro {}").check("read-only folder")
        status, _ = installation.send("GET", "/readyz")
        check("read-only folder: the server says that it is not ready", status == 503, str(status))


def shutdown(args: argparse.Namespace) -> None:
    """SIGTERM under load: each request that reached the server is answered."""
    answered, busy, refused, lost = 0, 0, 0, 0
    rounds = args.rounds or 10
    for _ in range(rounds):
        with Installation("sqlite", admission__interactive_images=64) as installation:
            server = installation.serve("--service-ms", "20")
            stopped = threading.Event()

            def client(number: int) -> list[str]:
                outcomes = []
                while not stopped.is_set():
                    connection = http.client.HTTPConnection("127.0.0.1", installation.port, timeout=30)
                    try:
                        connection.connect()
                    except OSError:
                        return [*outcomes, "refused"]
                    try:
                        # One connection serves several requests, until the server says that it closes.
                        for _ in range(50):
                            connection.request("POST", f"{DETECT}&store=false", image(number), {"content-type": "image/png"})
                            response = connection.getresponse()
                            response.read()
                            outcomes.append("answered" if response.status == 200 else "busy")
                            if response.getheader("connection") == "close":
                                break
                    except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected):
                        # An idle connection that the server has closed meanwhile: the request never arrived.
                        outcomes.append("refused" if (outcomes and server.poll() is None) or connection.sock is None else "lost")
                    except OSError:
                        outcomes.append("lost")
                    finally:
                        connection.close()
                return outcomes

            with concurrent.futures.ThreadPoolExecutor(32) as threads:
                clients = [threads.submit(client, number) for number in range(32)]
                time.sleep(1)
                server.send_signal(signal.SIGTERM)
                ended = server.wait(30)
                stopped.set()
                outcomes = [outcome for each in clients for outcome in each.result()]
            installation.processes.remove(server)
            answered += outcomes.count("answered")
            busy += outcomes.count("busy")
            refused += outcomes.count("refused")
            lost += outcomes.count("lost") + (ended != 0)
    check(
        "shutdown under load: no accepted request is lost",
        lost == 0 and answered > 0,
        f"{rounds} rounds, {answered} answered with 200 and {busy} with 429, {refused} not accepted, {lost} lost",
    )


def clock(args: argparse.Namespace) -> None:
    """The wall clock of one worker of three jumps by hours, in both directions."""
    items = args.items or 400
    with Installation("postgres", batches__chunk_size=8, batches__in_flight=4) as installation:
        installation.serve()
        offset = installation.folder / "offset"
        offset.write_text("0")
        for _ in range(2):
            installation.start("worker", "--chunks", "1", "--service-ms", "20")
        installation.start("worker", "--chunks", "1", "--service-ms", "20", "--clock-offset", str(offset))
        batch = installation.submit([image(n) for n in range(items)])
        jumps = 0
        while installation.batch(batch)["state"] != "done" and jumps < 60:
            offset.write_text(("3600", "-3600", "86400", "0")[jumps % 4])
            jumps += 1
            time.sleep(0.5)
        offset.write_text("0")
        installation.until_done(batch)
        print(f"     {jumps} jumps by up to a day")
        verify("clock jumps", installation, batch, items)


def clients(args: argparse.Namespace) -> None:
    """Slow clients and idle connections beside others."""
    slow, idle = 1000, 10_000
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with Installation("sqlite", server__header_timeout_ms=600_000) as installation:
        server = installation.serve("--service-ms", "10")

        def p99() -> float:
            times, connection = [], http.client.HTTPConnection("127.0.0.1", installation.port)
            for number in range(400):
                began = time.monotonic()
                connection.request("POST", f"{DETECT}&store=false", image(number), {"content-type": "image/png"})
                assert connection.getresponse().read()
                times.append(time.monotonic() - began)
            return statistics.quantiles(times, n=100)[98] * 1e3

        def connect() -> socket.socket:
            return socket.create_connection(("127.0.0.1", installation.port))

        head = b"POST /detect HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/png\r\ncontent-length: 100000\r\n\r\n"
        ratios = []
        for _ in range(args.rounds or 3):
            alone = p99()
            held = []
            for number in range(slow):
                held.append(connect())
                # Half of them never finish the head, and the others never finish the body.
                held[-1].sendall(head[:40] if number % 2 else head + b"x")
            held += [connect() for _ in range(idle)]
            beside = p99()
            for each in held:
                each.close()
            wait("the end of the connections", lambda: open_files(server) < 500)
            ratios.append(beside / alone)
            print(f"     p99 of others: {alone:.1f} ms alone, {beside:.1f} ms beside {slow} slow clients and {idle} idle connections")
        ratio = statistics.median(ratios)
        check("slow clients and idle connections: p99 of others over alone", ratio <= 1.2, f"{ratio:.2f}")


def open_files(process: subprocess.Popen) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


def descriptors(_: argparse.Namespace) -> None:
    """A server with few file descriptors, and more connections than that."""
    with Installation("sqlite", server__header_timeout_ms=600_000) as installation:
        server = installation.serve(within=["sh", "-c", 'ulimit -n 128 && exec "$@"', "sh"])
        client = http.client.HTTPConnection("127.0.0.1", installation.port, timeout=30)

        def detect() -> int:
            client.request("POST", f"{DETECT}&store=false", image(1), {"content-type": "image/png"})
            response = client.getresponse()
            response.read()
            return response.status

        def detect_again() -> int:
            """A connection that waits for its client makes room for others, so a client connects again."""
            try:
                return detect()
            except ConnectionError:
                client.close()
                return detect()

        first = detect()
        held = [socket.create_connection(("127.0.0.1", installation.port)) for _ in range(180)]
        beside = [detect_again() for _ in range(20)]
        check(
            "few descriptors: a client that connects again is served",
            {first, *beside} == {200},
            f"{len(beside)} answers beside {open_files(server)} open files",
        )
        for each in held:
            each.close()
        began = time.monotonic()
        wait("new connections", lambda: installation.status("/readyz") == 200)
        check("few descriptors: new connections are accepted again", server.poll() is None, f"after {time.monotonic() - began:.1f} s")


def memory(args: argparse.Namespace) -> None:
    """A limit of 1.2 times the stated memory, under load."""
    group = Group("facescan-drill", int(STATED_NEED * 1.2) << 20)
    try:
        with Installation("sqlite", imaging__workers="2") as installation:
            server = installation.serve(within=["sh", "-c", f'echo $$ > {group.folder}/cgroup.procs && exec "$@"', "sh"])
            pictures = [path.read_bytes() for path in sorted((RUNTIME / "pictures").glob("*.jpg"))]
            outcomes: dict[int, int] = {}

            def client(number: int) -> list[int]:
                connection = http.client.HTTPConnection("127.0.0.1", installation.port, timeout=120)
                statuses = []
                for n in range(args.items or 100):
                    connection.request("POST", "/embed?store=false", pictures[(number + n) % len(pictures)], {"content-type": "image/jpeg"})
                    response = connection.getresponse()
                    response.read()
                    statuses.append(response.status)
                    if response.status == 429:
                        time.sleep(0.05)
                return statuses

            with concurrent.futures.ThreadPoolExecutor(32) as threads:
                for statuses in threads.map(client, range(32)):
                    for status in statuses:
                        outcomes[status] = outcomes.get(status, 0) + 1
            highest = group.highest() / (1 << 20)
            check(
                "memory limit: the server lives and answers",
                server.poll() is None and set(outcomes) <= {200, 429},
                f"{outcomes}, {highest:.0f} of {STATED_NEED * 1.2:.0f} MiB",
            )
    finally:
        group.remove()


class Group:
    """A control group with a limit of memory, of version 1 or 2. It needs root."""

    def __init__(self, name: str, limit: int) -> None:
        first = Path("/sys/fs/cgroup/memory")
        self.is_first = first.is_dir()
        self.folder = (first if self.is_first else Path("/sys/fs/cgroup")) / name
        self.folder.mkdir(exist_ok=True)
        (self.folder / ("memory.limit_in_bytes" if self.is_first else "memory.max")).write_text(str(limit))

    def highest(self) -> int:
        return int((self.folder / ("memory.max_usage_in_bytes" if self.is_first else "memory.peak")).read_text())

    def remove(self) -> None:
        self.folder.rmdir()
