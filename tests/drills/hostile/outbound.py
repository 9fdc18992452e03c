"""Hosts of an attacker that answer slowly or never: webhooks and images by URL. Bob has his own host, which answers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from .attack import Attack, Report
from .target import PHOTO, Target

OPEN = {"urls__enabled": True, "urls__schemes": "[http,https]", "urls__allow_private": True, "urls__hosts": "[127.0.0.1]"}
OK = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
# What bob may wait for. Alone, it takes less than a second.
WAIT_S = 5


class Host(threading.Thread):
    """A web server. `respond` gets the connection and the head of its request; what it leaves open stays open."""

    def __init__(self, respond: Callable[[socket.socket], None]) -> None:
        super().__init__(daemon=True)
        self.listener, self.respond, self.kept = socket.create_server(("127.0.0.1", 0), backlog=1024), respond, []
        self.url, self.first = f"http://127.0.0.1:{self.listener.getsockname()[1]}", threading.Event()
        self.start()

    def run(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            self.kept.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            connection.recv(65536)
            self.first.set()
            self.respond(connection)
        except OSError:
            pass


def silent(_: socket.socket) -> None:
    """Answers nothing and keeps the connection."""


def trickles(connection: socket.socket) -> None:
    connection.sendall(OK % 1_000_000)
    while True:
        connection.sendall(b"\xff")
        time.sleep(1)


def redirects(connection: socket.socket) -> None:
    time.sleep(1)
    connection.sendall(b"HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    connection.close()


def sends(body: bytes) -> Callable[[socket.socket], None]:
    def respond(connection: socket.socket) -> None:
        connection.sendall(OK % len(body) + body)
        connection.close()

    return respond


def of_all_batches(target: Target, report: Report, hostile: Host, count: int) -> None:
    for number in range(count):
        report.saw(target.alice.post("/webhooks", {"url": f"{hostile.url}/{number}"}))
    report.saw(target.alice.ended_batch())


def of_many_batches(target: Target, report: Report, hostile: Host, count: int) -> None:
    for number in range(count):
        report.saw(target.alice.ended_batch(webhook={"url": f"{hostile.url}/{number}"}))


def webhooks(
    respond: Callable[[socket.socket], None], register: Callable[[Target, Report, Host, int], None], count: int = 128
) -> Callable[[Target, Report], None]:
    """Returns an attack with webhooks at a hostile host, beside one of bob."""

    def run(target: Target, report: Report) -> None:
        target.run()
        hostile, own = Host(respond), Host(sends(b""))
        target.bob.made("/webhooks", {"url": own.url})
        register(target, report, hostile, count)
        time.sleep(1.5)
        began = time.monotonic()
        report.saw(target.bob.ended_batch())
        own.first.wait(40)
        waited = time.monotonic() - began
        report.notes.append(f"bob's message after {waited:.1f} s, {len(hostile.kept)} messages to the hostile host")
        report.expect(waited <= WAIT_S, f"bob's message came after {waited:.0f} s")
        report.expect(len(hostile.kept) < count, f"{len(hostile.kept)} messages for one tenant at once")

    return run


def images(respond: Callable[[socket.socket], None], path: str, count: int = 60) -> Callable[[Target, Report], None]:
    """Returns an attack with images of a hostile host, beside one of bob."""

    def run(target: Target, report: Report) -> None:
        target.run()
        hostile, own = Host(respond), Host(sends(PHOTO))
        entries = [{"url": f"{hostile.url}/{number}"} for number in range(count)]
        body = {"operation": "detect", "items": entries} if path == "/batches" else {"images": entries, "options": {"store": False}}
        body |= (
            {"masks": entries[:16], "images": [{"url": own.url}], "options": {"operations": [{"op": "mask_crop"}]}}
            if path == "/process"
            else {}
        )
        attacker = threading.Thread(target=lambda: report.saw(target.alice.post(path, body)), daemon=True)
        attacker.start()
        hostile.first.wait(5)
        time.sleep(0.5)
        for name in ("bulk", "interactive"):
            one = {"images": [{"url": own.url}], "options": {"store": False, "priority": name}}
            response = target.bob.post("/detect", one)
            results = (response.json() or {}).get("results") or [{}]
            report.notes.append(f"{name}: bob's image after {response.seconds:.1f} s")
            report.expect(
                response.status == 200 and results[0].get("status") == "ok",
                f"{name}: bob's image {response.status} {results[0].get('error')}",
            )
            report.expect(response.seconds <= WAIT_S, f"{name}: bob's image after {response.seconds:.0f} s")
        attacker.join(25)

    return run


def other_batch(target: Target, report: Report) -> None:
    """A batch of images that never come beside a batch of bob."""
    target.run()
    hostile = Host(silent)
    report.saw(
        target.alice.post("/batches", {"operation": "detect", "items": [{"id": str(n), "url": f"{hostile.url}/{n}"} for n in range(300)]})
    )
    hostile.first.wait(5)
    began = time.monotonic()
    batch = target.bob.made("/batches?operation=detect", PHOTO, "image/jpeg")["id"]
    while time.monotonic() < began + 30 and target.bob.get(f"/batches/{batch}").json()["state"] != "done":
        time.sleep(0.1)
    waited = time.monotonic() - began
    report.notes.append(f"bob's batch after {waited:.1f} s")
    report.expect(waited <= WAIT_S, f"bob's batch was done after {waited:.0f} s")


def unwatched(name: str, run: Callable[[Target, Report], None]) -> Attack:
    return Attack(f"outbound: {name}", run, watched=False, settings=OPEN)


ATTACKS = [
    unwatched("128 webhooks of a silent host", webhooks(silent, of_all_batches)),
    unwatched("128 webhooks of a host that trickles", webhooks(trickles, of_all_batches)),
    unwatched("a webhook for each of 128 batches", webhooks(silent, of_many_batches)),
    unwatched("60 images of a silent host", images(silent, "/detect")),
    unwatched("60 images of a host that trickles", images(trickles, "/quality")),
    unwatched("60 images of a host that redirects", images(redirects, "/embed")),
    unwatched("masks of a silent host", images(silent, "/process")),
    unwatched("a batch of images of a silent host", other_batch),
]
