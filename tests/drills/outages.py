"""Drills that take a part of the installation away."""

from __future__ import annotations

import argparse
import json
import os
import time
import urllib.parse
from pathlib import Path

from .installation import ROOT, Installation, check, image, verify
from .proxy import Proxy


def outage(args: argparse.Namespace) -> None:
    items = args.items or 300
    with Installation("nats", batches__chunk_size=8, batches__in_flight=4) as installation:
        assert installation.database and installation.nats
        installation.serve()
        for _ in range(2):
            installation.start("worker", "--chunks", "1", "--service-ms", "20")
        batch = installation.submit([image(n) for n in range(items)])
        began = time.monotonic()
        time.sleep(0.7)
        installation.database.disconnect()
        time.sleep(3)
        installation.database.connect()
        time.sleep(0.7)
        installation.nats.kill()
        installation.nats.empty()
        time.sleep(2)
        installation.nats.start()
        installation.until_done(batch)
        print(f"     database away for 3 s, queue killed and emptied for 2 s: {items} items in {time.monotonic() - began:.1f} s")
        verify("outage of the database and the queue", installation, batch, items)
    with Installation("sqlite", batches__workers=1) as installation:
        disk = installation.folder / "images"
        installation.serve()
        (installation.folder / "kept").mkdir()
        disk.rename(installation.folder / "kept/images") if disk.exists() else None
        disk.write_text("no folder")
        status, body = installation.send("POST", "/batches?operation=detect", image(0), "image/png")
        check(
            "outage of the store of images: a submission is refused",
            status == 503 and b"payloads_unavailable" in body,
            f"{status} {json.loads(body)['code']}",
        )
        disk.unlink()
        batch = installation.submit([image(1)])
        check("outage of the store of images: it works again", installation.until_done(batch)["counts"]["ok"] == 1, "1 item done")


def network(args: argparse.Namespace) -> None:
    items = args.items or 600
    with Installation("postgres", batches__chunk_size=8, batches__in_flight=4, database__call_timeout_ms=1000) as installation:
        assert installation.database
        url = urllib.parse.urlsplit(installation.database.url)
        assert url.hostname and url.port
        proxy = Proxy(url.hostname, url.port)
        address = url._replace(netloc=f"{url.username}:{url.password}@127.0.0.1:{proxy.port}").geturl()
        installation.serve(DATABASE_URL=address)
        for _ in range(3):
            installation.start("worker", "--chunks", "1", "--service-ms", "30", DATABASE_URL=address)
        batch = installation.submit([image(n) for n in range(items)])
        began = time.monotonic()
        slowest, codes = {}, {}
        for fault in ("delay", "cut", "freeze", "reset"):
            time.sleep(0.5)
            end = time.monotonic() + 4
            while time.monotonic() < end:
                getattr(proxy, fault)()
                asked = time.monotonic()
                status, _ = installation.send("GET", f"/batches/{batch}")
                slowest[fault] = max(slowest.get(fault, 0), time.monotonic() - asked)
                codes.setdefault(fault, set()).add(status)
                time.sleep(0.2)
            proxy.restore()
        installation.until_done(batch)
        print(f"     delayed, cut, frozen and reset for 4 s each: {items} items in {time.monotonic() - began:.1f} s")
        for fault, seconds in slowest.items():
            expected = {200} if fault == "delay" else {200, 503}
            check(
                f"network, {fault}: requests are answered",
                codes[fault] <= expected and seconds < 10,
                f"{sorted(codes[fault])}, the slowest after {seconds:.1f} s",
            )
        verify("network between workers and the database", installation, batch, items)


def disk(args: argparse.Namespace) -> None:
    items = args.items or 40
    with Installation("sqlite") as installation:
        images = installation.folder / "images"
        images.mkdir()
        # A small disk that only the server and its worker see.
        mount = f'mount -t tmpfs -o size=4m drill {images} && exec "$@"'
        server = installation.serve(within=["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"])
        inside = Path(f"/proc/{server.pid}/root{images}")

        def fill() -> None:
            try:
                with (inside / "filler").open("wb", buffering=0) as filler:
                    while True:
                        filler.write(os.urandom(4096))
            except OSError as error:
                print(f"     {error.strerror}")

        fill()
        status, body = installation.send("POST", "/batches?operation=detect", image(0) + os.urandom(8192), "image/png")
        check(
            "full disk: a submission is refused",
            status == 503 and json.loads(body)["code"] == "payloads_unavailable",
            f"{status} {json.loads(body)['code']}",
        )
        left = installation.json("GET", "/batches")["batches"]
        check("full disk: nothing is half-written", left == [], f"{len(left)} batches")
        (inside / "filler").unlink()
        batch = installation.submit([image(n) for n in range(items)], operation="enhance", options={})
        fill()
        enter = ["nsenter", "--target", str(server.pid), "--user", "--mount", "--preserve-credentials", f"--wd={ROOT}"]
        installation.start("worker", "--chunks", "1", within=enter)
        time.sleep(5)
        counts = installation.batch(batch)["counts"]
        check("full disk: the worker waits", counts["ok"] + counts["error"] + counts["dead"] == 0, str(counts))
        (inside / "filler").unlink()
        counts = installation.until_done(batch)["counts"]
        check("full disk: no item is lost", counts["ok"] == items, str(counts))
