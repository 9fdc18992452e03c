"""The server that is attacked: two tenants, both databases, and the limit of memory of the Kubernetes manifests."""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import os
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..chaos import Group
from ..installation import BENCH, ROOT, RUNTIME, Installation

PHOTO = (RUNTIME / "pictures/t1.jpg").read_bytes()
# The limit of memory in docker/kubernetes/server.yaml.
LIMIT = 4 << 30
JSON, MSGPACK, NDJSON, FORM = "application/json", "application/msgpack", "application/x-ndjson", "multipart/form-data; boundary=b"


def process_fields(pid: int) -> list[str]:
    """Returns the fields of a process behind its name, which can have spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


@dataclass(frozen=True)
class Response:
    """The status is 0 if the connection ended without a response, and `body` then has the reason."""

    status: int
    body: bytes
    seconds: float
    headers: dict[str, str]

    @property
    def code(self) -> str:
        value = self.json()
        return value.get("code", "") if isinstance(value, dict) else ""

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True)
class Tenant:
    """A caller with a key."""

    port: int
    key: str | None

    def request(self, method: str, path: str, body: object = None, kind: str = JSON, timeout: float = 120, **headers: str) -> Response:
        """Sends a request. A body that is not bytes is sent as JSON."""
        data = body if body is None or isinstance(body, (bytes, bytearray)) else json.dumps(body).encode()
        sent = {"content-type": kind} if data is not None else {}
        sent |= {"authorization": f"Bearer {self.key}"} if self.key else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            # A body that is refused early is not read to its end; the response may be there.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Response(response.status, response.read(), time.monotonic() - began, {k.lower(): v for k, v in response.getheaders()})
        except (OSError, http.client.HTTPException) as error:
            return Response(0, f"{type(error).__name__}: {error}".encode(), time.monotonic() - began, {})
        finally:
            connection.close()

    def get(self, path: str, timeout: float = 120, **headers: str) -> Response:
        return self.request("GET", path, timeout=timeout, **headers)

    def post(self, path: str, body: object = b"", kind: str = JSON, timeout: float = 120, **headers: str) -> Response:
        return self.request("POST", path, body, kind, timeout, **headers)

    def made(self, path: str, body: object, kind: str = JSON) -> dict:
        """Posts what has to succeed."""
        response = self.post(path, body, kind)
        assert response.status in (200, 201, 202), (path, response.status, response.body[:300])
        return json.loads(response.body)

    def ended_batch(self, **fields: object) -> Response:
        """Creates a batch without items, and closes it. Returns the response to the last request that was sent."""
        created = self.post("/batches", {"operation": "detect", "open": True, "items": [], **fields})
        return self.post(f"/batches/{created.json()['id']}/close") if created.status == 202 else created

    def detect(self, data: bytes = PHOTO, query: str = "store=false", timeout: float = 60) -> Response:
        return self.request("POST", f"/detect?{query}", data, "application/octet-stream", timeout)

    def head(self, path: str, kind: str, *lines: str, method: str = "POST") -> bytes:
        """Returns the head of a request in HTTP/1."""
        fields = [
            f"{method} {path} HTTP/1.1",
            "host: 127.0.0.1",
            f"content-type: {kind}",
            *([f"authorization: Bearer {self.key}"] if self.key else []),
            *lines,
        ]
        return ("\r\n".join(fields) + "\r\n\r\n").encode()


def limited(name: str) -> Group | None:
    """Returns a control group with the limit, or None where none can be made."""
    try:
        return Group(name, LIMIT)
    except OSError:
        return None


class Target(Installation):
    """A server with the tenants `alice`, who attacks, and `bob`, who is watched."""

    binary = BENCH.with_name("facescan")
    # Requests of bob alone, before each attack.
    samples = 60

    def __init__(self, database: str, **settings: object) -> None:
        defaults = {
            "imaging__workers": 0,
            "batches__workers": 2,
            "access__mode": "required",
            "recognition__purposes": "[drill]",
            "runtime__plugins_dir": RUNTIME / "plugins",
            "runtime__shipped_dir": RUNTIME / "shipped",
        }
        super().__init__(database, **defaults | settings)
        self.name = database
        self.process: subprocess.Popen | None = None
        self.group = limited(f"facescan-drill-{os.getpid()}-{self.port}")
        # The bytes that an attack has in flight at a time, which it states from its own process.
        self.in_flight = multiprocessing.Value("q", 0)

    def program(self, role: str) -> list[str | Path]:
        return [self.binary, role]

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """Runs a command of the program with the settings of the server."""
        return subprocess.run(
            [self.binary, *arguments],
            check=False,
            cwd=ROOT,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    @cached_property
    def scopes(self) -> str:
        """Every scope that a key can have."""
        return ",".join(re.findall(r"^ +- (\w+):", self.command("keys", "create", "--help").stdout, re.MULTILINE))

    def with_vectors(self, scopes: str) -> str:
        """Returns these scopes and the one for vectors of the caller, if there is one."""
        return scopes + ",search_vectors" * ("search_vectors" in self.scopes)

    def tenant(self, tenant: str, scopes: str | None = None) -> Tenant:
        made = self.command("keys", "create", "--name", "drill", "--tenant", tenant, "--scopes", scopes or self.scopes)
        assert made.returncode == 0, made.stderr
        return Tenant(self.port, made.stdout.strip())

    @cached_property
    def alice(self) -> Tenant:
        return self.tenant("alice")

    @cached_property
    def bob(self) -> Tenant:
        return self.tenant("bob")

    @property
    def stranger(self) -> Tenant:
        return Tenant(self.port, None)

    @property
    def server(self) -> subprocess.Popen:
        """The process of the server, which was started before."""
        assert self.process
        return self.process

    def run(self) -> Target:
        """Starts the server. Its keys must exist before."""
        assert self.alice and self.bob
        enter = ["sh", "-c", f'echo $$ > {self.group.folder}/cgroup.procs && exec "$@"', "sh"] if self.group else []
        self.process = self.serve(within=enter)
        return self

    def status_field(self, field: str, process: int | None = None) -> int:
        """Returns a field of the memory of the server or a process that it started, in bytes, and 0 if that is gone."""
        try:
            lines = Path(f"/proc/{process or self.server.pid}/status").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith(field)), 0)

    def children(self) -> list[int]:
        """Returns the processes that the server started. They may have ended meanwhile."""
        found = []
        for task in Path(f"/proc/{self.server.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (task / "children").read_text().split())
        return found

    def resident(self) -> int:
        """Returns the memory of the server and of the processes that it started, in bytes."""
        return sum(self.status_field("VmRSS", process) for process in [self.server.pid, *self.children()])

    def processor_seconds(self) -> float:
        """Returns the time of the server and of the processes that it started."""
        ticks = sum(map(int, process_fields(self.server.pid)[11:15]))
        for child in self.children():
            # One that has ended counts as one that the server waited for.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                ticks += sum(map(int, process_fields(child)[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def states(self, size: int) -> None:
        """Notes the bytes that an attack has in flight."""
        self.in_flight.value = max(self.in_flight.value, size)

    def attack(self, path: str, body: bytes, kind: str = JSON, method: str = "POST", timeout: float = 120, **headers: str) -> Response:
        """Sends a body of alice, whose size the memory is compared with."""
        self.states(len(body))
        return self.alice.request(method, path, body, kind, timeout, **headers)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def collection(self, tenant: Tenant | None = None, **details: object) -> dict:
        body = {"name": f"drill {time.monotonic()}", "purpose": "drill", "legal_basis": "none", "retention_days": 30}
        return (tenant or self.alice).made("/collections", body | details)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def close(self) -> None:
        super().close()
        if self.group:
            for _ in range(50):
                try:
                    self.group.remove()
                    return
                except OSError:
                    time.sleep(0.1)
