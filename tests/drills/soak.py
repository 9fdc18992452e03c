"""The drill of many requests of every kind: whether the memory of a server grows."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import http.client
import itertools
import random
import statistics

from . import pictures
from .installation import RUNTIME, Installation, check, resident

CLIENTS = 16
# The requests and their shares. The inputs of the detector differ, so that rows of many shapes occur; so do the outcomes.
MIX = {
    "/detect?store=false&det_size=160": 24,
    "/detect?store=false&det_size=320": 20,
    "/detect?store=false&second_det_size=96&det_size=192": 8,
    "/detect?det_size=256": 14,
    "/embed?store=false&det_size=192&crops=true": 12,
    "/embed?det_size=256&max_faces=2": 6,
    "/quality?store=false&det_size=224": 10,
    "/enhance": 4,
    "/detect?store=false&min_scor=1": 2,
}
# The client of one request in this many leaves before the response, within this many seconds.
LEAVES, PATIENCE_S = 50, 0.04
# The growth from the second tenth of the run to the last one. The first is the warm-up.
STATED_MIB = 32


def bodies() -> list[bytes]:
    """Returns photographs, images of several sizes, and a few that are cut in half."""
    whole = [path.read_bytes() for path in sorted((RUNTIME / "pictures").iterdir())]
    whole += [pictures.png(side, side * 3 // 4) for side in (96, 240, 480, 800)]
    return whole * 30 + [body[: len(body) // 2] for body in whole]


def soak(args: argparse.Namespace) -> None:
    count, images = args.items or 100_000, bodies()
    outcomes, memory, numbers = collections.Counter(), [], itertools.count()
    with Installation("sqlite", imaging__workers=0, cpu__provider="auto") as installation:
        server = installation.serve()

        def client(seed: int) -> None:
            choose, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", installation.port)
            for number in iter(numbers.__next__, None):
                if number >= count:
                    return
                if number % max(1, count // 100) == 0:
                    memory.append(resident(server) >> 20)
                path = choose.choices(list(MIX), list(MIX.values()))[0]
                leaves = choose.randrange(LEAVES) == 0
                connection.timeout = choose.random() * PATIENCE_S if leaves else 60
                try:
                    connection.request("POST", path, choose.choice(images), {"content-type": "application/octet-stream"})
                    response = connection.getresponse()
                    response.read()
                    outcomes[str(response.status)] += 1
                except (OSError, http.client.HTTPException):
                    outcomes["left" if leaves else "failed"] += 1
                    connection.close()
                if leaves:
                    connection.close()

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(client, range(CLIENTS)))
    tenths = [statistics.median(memory[at * len(memory) // 10 : (at + 1) * len(memory) // 10]) for at in range(10)]
    growth = tenths[-1] - tenths[1]
    check("soak: each request of a client that waits is answered", outcomes["failed"] == 0, str(dict(outcomes)))
    check("soak: none is 5xx", not any(outcome.startswith("5") for outcome in outcomes), f"{count:,} requests")
    figures = " ".join(f"{mib:.0f}" for mib in tenths)
    check("soak: memory", growth <= STATED_MIB, f"{growth:+.0f} MiB from the second tenth to the last; by tenth: {figures}")
