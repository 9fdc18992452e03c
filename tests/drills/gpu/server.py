"""A server that a proof starts, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

from own_server import becomes_ready, free_port

START_SECONDS = 180
BOUNDARY = "facescan-gpu-proof"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
# What the environment says of devices. Each proof has its own settings instead.
OWN = re.compile(r"ALL_GPU|GPU_.*|.*_GPU|FACESCAN__DEVICES__.*|FACESCAN__CPU__PROVIDER")


class Failed(Exception):
    """A proof cannot go on. The text says what to do."""


def form(images: list[bytes]) -> bytes:
    """Returns the body of a request with these images."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="{{}}"\r\n\r\n'
    parts = [head.format(number).encode() + image + b"\r\n" for number, image in enumerate(images)]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


class Server:
    """A server with its own data folder and log. It ends with the block."""

    def __init__(self, facescan: str, folder: Path, name: str, settings: dict[str, str]) -> None:
        self.port = free_port()
        self.log = folder / f"{name}.log"
        inherited = {key: value for key, value in os.environ.items() if not OWN.fullmatch(key)}
        self.environment = (
            inherited
            | {
                "FACESCAN__SERVER__PORT": str(self.port),
                "FACESCAN__DATA_DIR": str(folder / name),
                "LOG_LEVEL": "warn",
                # The CPU answers in 32 bits.
                "FACESCAN__CPU__PROVIDER": "default",
                "FACESCAN__STORE__ENABLED": "false",
            }
            | settings
        )
        self.command = [facescan, "serve"]

    def __enter__(self) -> Server:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log)
        if becomes_ready(self.process, self.port, START_SECONDS):
            return self
        self.__exit__()
        raise Failed(f"the server was not ready within {START_SECONDS} s; {self.log} says why")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def request(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Returns the status and the body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, bytes]:
        return self.request("GET", path)

    def post(self, path: str, images: list[bytes], accept: str = "application/json") -> bytes:
        """Returns the answer to a form with these images."""
        status, body = self.request("POST", path, form(images), {"content-type": FORM, "accept": accept})
        if status != 200:
            raise Failed(f"POST {path} was answered with {status}: {body[:500].decode(errors='replace')}")
        return body

    def results(self, path: str, images: list[bytes]) -> list[dict]:
        """Returns the results of a form with these images, which all have to succeed."""
        results = json.loads(self.post(path, images))["results"]
        for result in results:
            if result["status"] != "ok":
                raise Failed(f"POST {path}: {result['error']}")
        return results

    def devices(self) -> dict:
        return json.loads(self.get("/devices")[1])

    def health(self) -> dict[str, dict]:
        """Returns the health of the device of each operation that has one."""
        operations = self.devices()["operations"]
        return {name: found["health"] for name, found in operations.items() if found.get("health")}

    def metric(self, name: str, **labels: str) -> float:
        """Returns the sum of a metric over the series with these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = self.get("/metrics")[1].decode().splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.startswith((name + "{", name + " ")) and all(label in line for label in wanted)
        )


class Load:
    """Threads that send requests, one after the other each, until the block ends. Counts what was answered."""

    def __init__(self, server: Server, requests: list[tuple[str, bytes]], clients: int) -> None:
        self.server, self.requests = server, requests
        self.stopped, self.lock = threading.Event(), threading.Lock()
        self.answered: dict[str, int] = {}
        self.threads = [threading.Thread(target=self.send, args=(first,)) for first in range(clients)]

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def send(self, number: int) -> None:
        while not self.stopped.is_set():
            path, body = self.requests[number % len(self.requests)]
            number += 1
            try:
                status, answer = self.server.request("POST", path, body, {"content-type": FORM})
                if status == 429:
                    # A full server asks its clients to wait.
                    time.sleep(0.2)
                    continue
                outcome = str(status)
                if status == 200 and answer.startswith(b"{"):
                    errors = [result["error"]["code"] for result in json.loads(answer)["results"] if result["status"] != "ok"]
                    outcome = errors[0] if errors else outcome
            except OSError as error:
                outcome = type(error).__name__
            with self.lock:
                self.answered[outcome] = self.answered.get(outcome, 0) + 1

    def only_answers(self) -> bool:
        return set(self.answered) == {"200"}
