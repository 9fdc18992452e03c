"""An attack, what it reports, and what the server has to hold beside it."""

from __future__ import annotations

import collections
import multiprocessing
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from .target import LIMIT, Response, Target
from .watch import Figures, watch

# What a watched attack may do: bob's p99 over that alone, the worst /livez, the memory beside twice the bodies, and what is kept of it.
RATIO, LIVEZ_S, ALLOWANCE, KEPT = 3, 0.2, 96 << 20, 128 << 20
# The p99 of few samples is nearly their maximum, so one that is shorter than this says more about the scheduler than about the server.
LEAST_P99_S = 0.05
MANY_SAMPLES = 400
BOTH = ("sqlite", "postgres")


@dataclass
class Report:
    """What an attack saw. Each text of `missed` is a promise that was not kept."""

    outcomes: collections.Counter = field(default_factory=collections.Counter)
    missed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def saw(self, response: Response) -> Response:
        self.outcomes[f"{response.status} {response.code}".strip()] += 1
        return response

    def expect(self, holds: bool, promise: str) -> None:
        if not holds:
            self.missed.append(promise)


@dataclass(frozen=True)
class Attack:
    """What is sent. A watched attack runs in a process of its own beside bob, and ends at `seconds`."""

    name: str
    run: Callable[[Target, Report], None]
    watched: bool = True
    settings: dict[str, object] = field(default_factory=dict)
    databases: tuple[str, ...] = BOTH
    seconds: float = 20
    # Bob comes after this time. A share that nobody else asks for may be taken, and has to be given back.
    delay: float = 0
    # The most memory, where pixels or connections count and not the bytes of bodies.
    memory: int | None = None
    # How a 5xx that is due begins, such as that of a deadline that the attack itself passes.
    due: tuple[str, ...] = ()


@dataclass
class Result:
    """A line of the table."""

    name: str
    database: str
    report: Report
    figures: Figures | None
    missed: list[str]


def carry_out(attack: Attack, database: str) -> Result:
    """Starts a server, attacks it, and judges what it did."""
    with Target(database, **attack.settings) as target:
        if not attack.watched:
            report = Report()
            guarded(attack, target, report)
            return Result(attack.name, database, report, None, report.missed + unexpected(attack, report))
        target.run()
        reports: list[Report] = []
        figures = watch(target, lambda: reports.append(in_process(attack, target)), attack.delay)
        report = reports[0]
        missed = report.missed + unexpected(attack, report) + judge(attack, target, figures)
        return Result(attack.name, database, report, figures, missed)


def guarded(attack: Attack, target: Target, report: Report) -> None:
    """Runs an attack. One that fails by itself has shown nothing, so it counts as missed."""
    try:
        attack.run(target, report)
    except Exception as error:
        traceback.print_exc()
        report.missed.append(f"the attack failed: {type(error).__name__} {str(error)[:200]}")


def in_process(attack: Attack, target: Target) -> Report:
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def run() -> None:
        report = Report()
        guarded(attack, target, report)
        sender.send(report)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    done = receiver.poll(attack.seconds)
    report = receiver.recv() if done else Report(notes=[f"ended after {attack.seconds:.0f} s"])
    process.kill()
    process.join()
    return report


def unexpected(attack: Attack, report: Report) -> list[str]:
    found = [outcome for outcome in report.outcomes if outcome.startswith("5") and not outcome.startswith(attack.due)]
    return [f"answered with {', '.join(found)}"] if found else []


def judge(attack: Attack, target: Target, figures: Figures) -> list[str]:
    """Returns what the server missed beside the attack."""
    if target.server.poll() is not None:
        return ["the server died"]
    allowed = attack.memory if attack.memory is not None else 2 * target.in_flight.value + ALLOWANCE
    p99 = figures.alone.quantile(99)
    if len(figures.alone.seconds) < MANY_SAMPLES:
        p99 = max(p99, LEAST_P99_S)
    errors = collections.Counter(figures.beside.errors)
    held = [
        (not errors, f"bob's errors {dict(errors)}"),
        (figures.beside.quantile(99) <= RATIO * p99, f"bob's p99 {figures.beside.quantile(99) / p99:.1f} times"),
        (not figures.livez.errors and max(figures.livez.seconds) <= LIVEZ_S, f"/livez after {max(figures.livez.seconds):.2f} s"),
        (figures.peak <= min(allowed, LIMIT), f"memory {figures.peak >> 20:,} of {allowed >> 20:,} MiB"),
        (figures.kept <= KEPT, f"kept {figures.kept >> 20:,} MiB"),
    ]
    return [missed for holds, missed in held if not holds]
