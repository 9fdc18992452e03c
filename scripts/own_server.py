"""A server that a program starts for itself, and a free port for it."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time


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


def start(binary: str, port: int, folder: str, settings: dict[str, str] | None = None) -> subprocess.Popen:
    """Starts a server with these settings and waits until it is ready."""
    own = {"FACESCAN__SERVER__PORT": str(port), "FACESCAN__DATA_DIR": folder, "LOG_LEVEL": "warn"}
    environment = os.environ | own | (settings or {})
    server = subprocess.Popen([binary, "serve"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not becomes_ready(server, port):
        server.terminate()
        sys.exit(f"the server was not ready within 60 s, or ended; run `{binary} serve` to see why")
    return server
