"""A server that a program starts for itself, and a free port for it."""

from __future__ import annotations

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


def start(binary: str, port: int, folder: str, settings: dict[str, str] | None = None) -> subprocess.Popen:
    """Starts a server with these settings and waits until it is ready."""
    own = {"FACESCAN__SERVER__PORT": str(port), "FACESCAN__DATA_DIR": folder, "LOG_LEVEL": "warn"}
    environment = os.environ | own | (settings or {})
    server = subprocess.Popen([binary, "serve"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        if server.poll() is not None:
            sys.exit(f"the server ended with code {server.returncode}; run `{binary} serve` to see why")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return server
        except OSError:
            pass
        time.sleep(0.1)
    server.terminate()
    sys.exit("the server was not ready within 30 s")
