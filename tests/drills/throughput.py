"""Drills that measure time and memory."""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import http.client
import random
import statistics
import time
from collections.abc import Callable, Iterator

from own_server import free_port
from packages import RUNTIME

from .installation import Installation, check, image, resident, wait


def scale(args: argparse.Namespace) -> None:
    items, rates = args.items or 400, {}
    for workers in (1, 2, 8):
        with Installation("postgres", batches__chunk_size=10, batches__in_flight=4) as installation:
            installation.serve()
            for _ in range(workers):
                installation.start("worker", "--chunks", "2", "--service-ms", "100")
            # Until every worker has started.
            installation.until_done(installation.submit([image(n) for n in range(workers * 4)]))
            time.sleep(3)
            images = [image(1000 + n) for n in range(items * min(workers, 4))]
            batch = installation.submit(images)
            done = installation.until_done(batch)
            rates[workers] = done["rate_per_s"]
    for workers, least in ((2, 1.9), (8, 7)):
        ratio = rates[workers] / rates[1]
        check(f"scale: {workers} workers over one", ratio >= least, f"{ratio:.2f} ({rates[workers]:.1f} over {rates[1]:.1f} items/s)")


def fairness(args: argparse.Namespace) -> None:
    many, few = args.items or 100_000, 100
    settings = {"batches__chunk_size": 10, "batches__in_flight": 4}

    def tenant_server(installation: Installation, tenant: str) -> Installation:
        port = free_port()
        installation.start("serve", FACESCAN__SERVER__PORT=str(port), FACESCAN__STORE__TENANT=tenant)
        other = object.__new__(Installation)
        other.__dict__ = installation.__dict__ | {"port": port}
        wait("the server of a tenant", lambda: other.status("/readyz") == 200)
        return other

    def run(busy: bool) -> float:
        with Installation("postgres", **settings) as installation:
            installation.serve()
            second = tenant_server(installation, "second")
            # Alone, the second tenant gets one worker: half of the machine.
            for _ in range(2 if busy else 1):
                installation.start("worker", "--chunks", "1", "--service-ms", "20")
            if busy:
                installation.submit([image(n) for n in range(many)])
            time.sleep(2)
            began = time.monotonic()
            second.until_done(second.submit([image(1_000_000 + n) for n in range(few)]))
            return time.monotonic() - began

    alone, beside = run(False), run(True)
    check(
        "fairness: a tenant with 100 items beside one with many",
        beside <= 2 * alone,
        f"{beside:.1f} s, and {alone:.1f} s alone on half the machine: {beside / alone:.2f}",
    )


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def rate(installation: Installation, path: str, image: Callable[[], bytes], clients: int, seconds: float, key: str = "") -> float:
    """Returns the images a second that clients get. A refused request is sent again soon."""
    end = time.monotonic() + seconds

    def client(_: int) -> int:
        done, connection = 0, http.client.HTTPConnection("127.0.0.1", installation.port)
        while time.monotonic() < end:
            connection.request("POST", path, image(), {"content-type": "application/octet-stream"} | ({"x-api-key": key} if key else {}))
            response = connection.getresponse()
            response.read()
            done += response.status == 200
            if response.status != 200:
                time.sleep(0.01)
        return done

    with concurrent.futures.ThreadPoolExecutor(clients) as threads:
        return sum(threads.map(client, range(clients))) / seconds


def load(args: argparse.Namespace) -> None:
    photo = (RUNTIME / "pictures/t1.jpg").read_bytes()
    unique = (photo + n.to_bytes(4, "big") for n in range(10**9))
    # The default provider. The length of a run decides how long a request waits for a core.
    with Installation("sqlite", imaging__workers=0, batches__workers=2, cpu__provider="auto") as installation:
        installation.serve()

        def interactive(seconds: float, pause: float) -> list[float]:
            times, end = [], time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.monotonic()
                status, _ = installation.send("POST", "/detect?store=false", photo, "image/jpeg")
                assert status == 200, status
                times.append(time.monotonic() - began)
                time.sleep(pause)
            return times

        rounds = args.rounds or 3
        ratios: dict[str, list[float]] = {"detect": [], "embed": []}
        for operation, count in [("detect", 3500), ("embed", 1000)] * rounds:
            alone = percentile(interactive(10, 0.05), 0.99)
            images = (base64.b64encode(next(unique)) for _ in range(count))
            batch = installation.stream(images, options={}, operation=operation)["id"]
            beside = percentile(interactive(10, 0.05), 0.99)
            now = installation.batch(batch)
            assert now["state"] == "running", f"the batch ended before the measurement: {now}"
            installation.json("POST", f"/batches/{batch}/cancel", b"")
            wait("the cancelled batch", lambda: installation.batch(batch)["counts"]["running"] == 0)
            ratios[operation].append(beside / alone)
            print(f"     p99 of /detect: {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside a batch of {operation}")
        for operation, of_one in ratios.items():
            ratio = statistics.median(of_one)
            check(f"load: p99 beside a batch of {operation} over p99 alone", ratio <= 2, f"{ratio:.2f}")

    # The batch is submitted before its worker starts, so that the client does not compete with it for the cores.
    with Installation("postgres", imaging__workers=0) as installation:
        installation.serve()

        shares = []
        for _ in range(rounds):
            own = rate(installation, "/detect?priority=bulk", lambda: photo + random.randbytes(8), 16, 8)
            batch = installation.submit([next(unique) for _ in range(1200)], options={})
            worker = installation.start("worker", "--chunks", "2")
            of_batch = installation.until_done(batch)["rate_per_s"]
            installation.kill(worker)
            shares.append(of_batch / own)
            print(f"     batch {of_batch:.1f} items/s, bulk requests {own:.1f} images/s")
        check("load: batch throughput over the engine's own", statistics.median(shares) >= 0.95, f"{statistics.median(shares):.3f}")


def volume(args: argparse.Namespace) -> None:
    count = args.items or 100_000
    with Installation("postgres", imaging__workers=0) as installation:
        server = installation.serve()
        worker = installation.start("worker", "--chunks", "2")
        installation.until_done(installation.submit([image(n) for n in range(2000)]))
        before = resident(server), resident(worker)
        highest, began = before, time.monotonic()

        def images() -> Iterator[bytes]:
            """All items have one of few images, so that the time is that of the queue and not that of the model."""
            nonlocal highest
            data = [base64.b64encode(image(5_000_000 + n)) for n in range(50)]
            for n in range(count):
                if n % 10_000 == 0:
                    highest = max(resident(server), highest[0]), highest[1]
                yield data[n % 50]

        receipt = installation.stream(images())
        submitted = time.monotonic() - began
        while installation.batch(receipt["id"])["state"] != "done":
            highest = max(resident(server), highest[0]), max(resident(worker), highest[1])
            time.sleep(0.5)
        seconds = time.monotonic() - began
        figure = f"{receipt['accepted']}, submitted in {submitted:.1f} s ({count / submitted:.0f}/s)"
        check("volume: items of one NDJSON request", receipt["accepted"] == count, figure)
        check("volume: overhead of the queue", seconds / count <= 0.001, f"{seconds / count * 1e3:.3f} ms an item, {seconds:.1f} s in all")
        for name, first, most, limit in zip(("server", "worker"), before, highest, (50, 100)):
            check(f"volume: memory of the {name}", most - first <= limit << 20, f"{first >> 20} + {most - first >> 20} MiB")


def flood(args: argparse.Namespace) -> None:
    # A fixed service time and a small image, so that the clients do not compete with the server for the cores.
    small = image(0)
    with Installation("sqlite", access__mode="required", admission__interactive_images=16) as installation:
        keys = {tenant: installation.key(tenant) for tenant in ("flood", "other")}
        installation.serve("--service-ms", "20")

        def of_tenant(tenant: str, clients: int, seconds: float) -> float:
            return rate(installation, "/detect?store=false&det_size=64", lambda: small, clients, seconds, keys[tenant])

        shares = []
        for _ in range(args.rounds or 5):
            alone = of_tenant("other", 8, 5)
            with concurrent.futures.ThreadPoolExecutor(1) as beside:
                flooding = beside.submit(of_tenant, "flood", 64, 7)
                time.sleep(1)
                shared = of_tenant("other", 8, 5)
            shares.append(shared / (alone / 2))
            print(f"     {alone:.1f} images/s alone, {shared:.1f} beside a flood that gets {flooding.result():.1f}")
        check(
            "flood: a tenant beside one with 64 clients, over half of its rate alone",
            statistics.median(shares) >= 0.8,
            f"{statistics.median(shares):.2f}",
        )
