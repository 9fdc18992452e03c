"""The services of one profile, as the drills see an installation."""

from __future__ import annotations

import http.client
import json
import secrets
import threading
import urllib.request
from pathlib import Path

from drills.installation import RUNTIME, Installation, free_port, image

from .engine import COMPOSE, Engine

# The characters must be escaped in a URL, but not in the variable that the compose file uses.
PASSWORD = f"p@ss/w%rd {secrets.token_hex(8)}"
PICTURE = (RUNTIME / "pictures" / "t1.jpg", 6)
LOCK = threading.Lock()


class Stack(Installation):
    """The services of one profile. Leaving it removes their containers and volumes."""

    def __init__(self, engine: Engine, profile: str, server: str, *more: str, files: tuple[Path, ...] = (), **variables: str) -> None:
        self.engine, self.server = engine, server
        self.profiles = [part for name in (profile, *more) for part in ("--profile", name)]
        self.files = [part for file in (COMPOSE, *files) for part in ("--file", str(file))]
        self.port, self.prometheus = free_port(), free_port()
        self.environment = (
            engine.environment
            | variables
            | {
                "POSTGRES_PASSWORD": PASSWORD,
                "FACESCAN_ADDRESS": f"127.0.0.1:{self.port}",
                "PROMETHEUS_ADDRESS": f"127.0.0.1:{self.prometheus}",
            }
        )
        self.secret = ""

    def compose(self, *arguments: str, check: bool = True):
        return self.engine.docker("compose", *self.files, *self.profiles, *arguments, check=check, env=self.environment)

    def up(self, *services: str) -> None:
        """Starts the services and waits until all of them are healthy."""
        self.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "300", *services)

    def create_key(self) -> None:
        """Creates the first key before the start, as docs/operations.md says."""
        made = self.compose("run", "--rm", self.server, "keys", "create", "--name", "first", "--scopes", "infer,read,batch,admin")
        self.secret = made.stdout.split()[-1]

    def send(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **headers: str):
        key = {"x_api_key": self.secret} if self.secret else {}
        return super().send(method, path, body, kind, **key, **headers)

    def container(self, service: str) -> str:
        return self.containers(service)[0]

    def containers(self, service: str) -> list[str]:
        return self.compose("ps", "--quiet", service).stdout.split()

    def within(self, *command: str, service: str = "") -> str:
        """Runs a program in a container. Returns its output, also that of a program that fails."""
        done = self.compose("exec", "--no-TTY", service or self.server, *command, check=False)
        return done.stdout + done.stderr

    def get(self, container: str, port: int, path: str) -> str:
        """Reads an address in the network of the containers."""
        connection = http.client.HTTPConnection(self.engine.address(container), port, timeout=10)
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def targets(self, job: str) -> list[str]:
        """Returns the health of each target of a job, as Prometheus sees it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.prometheus}/api/v1/targets", timeout=10) as answer:
            targets = json.load(answer)["data"]["activeTargets"]
        return [target["health"] for target in targets if target["labels"]["job"] == job]

    def detect(self, query: str = "") -> tuple[int, dict]:
        """Sends the picture. Returns the status and the answer."""
        status, answer = self.send("POST", f"/detect{query}", PICTURE[0].read_bytes(), "image/jpeg")
        return status, json.loads(answer)

    def query(self, text: str) -> list[tuple]:
        shown = self.compose("exec", "--no-TTY", "postgres", "psql", "--host=/tmp", "--username=facescan", "-XAtc", text, "facescan").stdout
        return [tuple(line.split("|")) for line in shown.splitlines()]

    def close(self) -> None:
        self.compose("down", "--volumes", "--timeout", "5", check=False)


class Clients:
    """Clients that send requests one after another, each on a new connection, until the server refuses a connection."""

    def __init__(self, address: str, secret: str) -> None:
        self.address, self.secret = address, secret
        self.statuses: dict[int, int] = {}
        self.lost: list[str] = []
        # A large picture is in the server for most of the time. Small ones often are between the connection and the answer.
        work = [("/detect?cache=false", PICTURE[0].read_bytes())] * 2 + [("/detect?store=false&det_size=64", image(0))] * 6
        self.threads = [threading.Thread(target=self.work, args=one, daemon=True) for one in work]
        for thread in self.threads:
            thread.start()

    def work(self, path: str, picture: bytes) -> None:
        while True:
            connection = http.client.HTTPConnection(self.address, 8080, timeout=60)
            try:
                connection.connect()
            except OSError:
                return
            try:
                connection.request("POST", path, picture, {"content-type": "image/jpeg", "x-api-key": self.secret})
                response = connection.getresponse()
                json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                with LOCK:
                    self.lost.append(repr(error))
                continue
            finally:
                connection.close()
            with LOCK:
                self.statuses[response.status] = self.statuses.get(response.status, 0) + 1

    def count(self) -> int:
        with LOCK:
            return sum(self.statuses.values())

    def join(self) -> None:
        for thread in self.threads:
            thread.join(90)
