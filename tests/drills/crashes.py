"""Drills that kill processes."""

from __future__ import annotations

import argparse
import random
import time

from .installation import Installation, check, image, verify


def crash(args: argparse.Namespace) -> None:
    for database, workers in (("sqlite", 0), ("postgres", 3), ("nats", 3)):
        items, rounds = args.items or 1000, args.rounds or 100
        # The single process of SQLite works on several chunks at a time, so that a kill hits several.
        settings = {
            "batches__chunk_size": 8,
            "batches__in_flight": 4,
            "batches__workers": 2 if workers == 0 else 0,
            "batches__max_attempts": 20,
        }
        with Installation(database, **settings) as installation:
            # A service time that makes the batch as long as the kills.
            service = ("--service-ms", str(1000 * rounds * max(workers, 1) // items))
            server = installation.serve(*service)
            running = [installation.start("worker", "--chunks", "1", *service) for _ in range(workers)]
            began = time.monotonic()
            batch = installation.submit([image(n) for n in range(items)])
            kills = 0
            while kills < rounds and installation.batch(batch)["state"] != "done":
                time.sleep(random.uniform(0.3, 1.3))
                if workers == 0 or random.random() < 0.25:
                    installation.kill(server)
                    server = installation.serve(*service)
                else:
                    victim = random.randrange(workers)
                    installation.kill(running[victim])
                    running[victim] = installation.start("worker", "--chunks", "1", *service)
                kills += 1
            installation.until_done(batch)
            seconds = time.monotonic() - began
            verify(f"crash on {database}", installation, batch, items)
            check(f"crash on {database}: kills", kills == rounds, f"{kills} kills in {seconds:.0f} s")
