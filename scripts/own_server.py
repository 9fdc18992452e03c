"""A server that a program starts for itself, and a free port for it."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def becomes_ready(process: subprocess.Popen, port: int | str, seconds: float = 60) -> bool:
    """Waits until the server answers that it is ready. Returns false if it ends before, or if the time is over."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return True
        time.sleep(0.1)
    return False


@dataclasses.dataclass
class Server:
    """A running server."""

    port: int
    pid: int

    def post(self, path: str, body: bytes, kind: str = "application/octet-stream") -> dict:
        """Returns the answer to a request that has to succeed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, body, {"content-type": kind})
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:
            sys.exit(f"POST {path} was answered with {response.status} {answer[:200].decode()}")
        return json.loads(answer)


def start(binary: str, port: int, folder: str, settings: dict[str, str] | None = None) -> subprocess.Popen:
    """Starts a server with these settings and waits until it is ready."""
    own = {"FACESCAN__SERVER__PORT": str(port), "FACESCAN__DATA_DIR": folder, "LOG_LEVEL": "warn"}
    environment = os.environ | own | (settings or {})
    server = subprocess.Popen([binary, "serve"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not becomes_ready(server, port):
        server.terminate()
        sys.exit(f"the server was not ready within 60 s, or ended; run `{binary} serve` to see why")
    return server


@contextlib.contextmanager
def running(binary: str, settings: dict[str, str] | None = None) -> Iterator[Server]:
    """Runs a server with these settings on a port and with a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        process = start(binary, port, folder, settings)
        try:
            yield Server(port, process.pid)
        finally:
            process.terminate()
            process.wait()
