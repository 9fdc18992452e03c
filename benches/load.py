"""Load on a server over HTTP, by oha. Every request has the same image as its body."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from installed import cargo_program  # noqa: E402

# The connections of an open loop. Requests that are due while all of them wait are late, and count from when they were due.
CONNECTIONS = 1000


@dataclasses.dataclass
class Figures:
    """Rates in a second and latencies in milliseconds, of responses with 200 and of all others."""

    rate: float
    p50: float
    p99: float
    refused: float = 0.0
    refused_p99: float = 0.0


def load(url: str, image: pathlib.Path, seconds: float, clients: int = CONNECTIONS, rate: float | None = None) -> Figures:
    """Sends an image again and again: from a number of clients, each after its last response, or at a rate."""
    command = [cargo_program("oha") / "oha", "--no-tui", "--output-format", "json", "--stats-success-breakdown", "-c", clients]
    # Work that nobody waits for any more would slow down what is measured next.
    command += ["-z", f"{seconds}s", "-w", "-m", "POST", "-T", "application/octet-stream", "-D", image]
    command += ["-q", round(rate), "--latency-correction"] if rate else []
    done = subprocess.run([*map(str, command), url], check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    statuses = found["statusCodeDistribution"]
    answered = statuses.pop("200", 0)
    if not answered:
        sys.exit(f"{url} answered no image with 200: {statuses}, {found['errorDistribution']}")
    within = found["latencyPercentilesSuccessful"]
    refused = found["latencyPercentilesNotSuccessful"] if statuses else {"p99": 0.0}
    total = found["summary"]["total"]
    return Figures(answered / total, within["p50"] * 1e3, within["p99"] * 1e3, sum(statuses.values()) / total, refused["p99"] * 1e3)
