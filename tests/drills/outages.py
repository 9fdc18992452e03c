"""Drills that take a part of the installation away."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from .installation import ROOT, Installation, check, image, verify


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
        left = installation.json("GET", "/batches")["results"]
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
