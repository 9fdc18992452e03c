"""The drill of attacks: what one cheap request, a model file of somebody else or the owner of the database can do."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..installation import check
from . import bodies, files, forms, idle, logs, memory, outbound, promises, texts, trail, vectors, work
from .attack import BOTH, Attack, Result, carry_out
from .target import LIMIT, Target, limited

MODULES = (memory, forms, bodies, work, idle, outbound, texts, vectors, trail, files, logs, promises)
ATTACKS: list[Attack] = [attack for module in MODULES for attack in module.ATTACKS]


def hostile(args: argparse.Namespace) -> None:
    """Carries out each attack on a server of its own and prints a table."""
    chosen = [attack for attack in ATTACKS if not args.only or any(part in attack.name for part in args.only)]
    if args.list:
        print("\n".join(attack.name for attack in chosen))
        return
    if not chosen:
        sys.exit(f"drill: no attack has {' or '.join(args.only)} in its name; --list prints them")
    Target.binary = Path(args.server).absolute() if args.server else Target.binary
    Target.samples = args.alone or Target.samples
    databases = [args.database] if args.database else [name for name in BOTH if name == "sqlite" or os.environ.get("TEST_DATABASE_URL")]
    state_limit()
    results = []
    for attack in chosen:
        for database in databases:
            if database in attack.databases:
                result = carry_out(attack, database)
                check(f"{attack.name}, {database}", not result.missed, summary(result.missed) or figure(result))
                results.append(result)
    print("\n".join(table(results)))


def state_limit() -> None:
    group = limited(f"facescan-drill-{os.getpid()}")
    if group:
        group.remove()
        print(f"     each server has a control group with {LIMIT >> 30} GiB", flush=True)
    else:
        print(
            f"     no control group can be made, so nothing limits the servers; their peak is compared with {LIMIT >> 30} GiB", flush=True
        )


def figure(result: Result) -> str:
    return ", ".join([*(f"{count} × {name}" for name, count in result.report.outcomes.most_common(4)), *result.report.notes]) or "held"


def summary(missed: list[str], most: int = 5) -> str:
    more = [f"and {len(missed) - most} more"] if len(missed) > most else []
    return " ".join("; ".join([*missed[:most], *more]).split()).replace("|", "/")


def table(results: list[Result]) -> list[str]:
    lines = [
        "",
        "| attack | database | outcome | bob's p50 and p99, alone → beside (ms) "
        "| bob's errors | worst /livez (ms) | peak (MiB) | kept (MiB) | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        seen = result.figures
        columns = (
            ["–"] * 5
            if seen is None
            else [
                " → ".join(f"{each.quantile(50) * 1e3:.0f}, {each.quantile(99) * 1e3:.0f}" for each in (seen.alone, seen.beside)),
                f"{len(seen.beside.errors)} of {len(seen.beside.seconds)}",
                f"{max(seen.livez.seconds) * 1e3:.0f}",
                f"{seen.peak >> 20:,}",
                f"{seen.kept >> 20:,}",
            ]
        )
        verdict = "held" if not result.missed else "MISSED: " + summary(result.missed, 2)
        lines.append("| " + " | ".join([result.name, result.database, figure(result), *columns, verdict]) + " |")
    return lines
