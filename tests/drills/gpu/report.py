"""What the proofs found."""

from __future__ import annotations

import json
from pathlib import Path

from ..installation import check


class Report:
    """The figures of all proofs, in a file that is complete after each of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, dict] = {}
        self.proof = ""

    def begin(self, proof: str) -> None:
        print(f"— {proof}", flush=True)
        self.proof = proof
        self.found[proof] = {}

    def check(self, name: str, holds: bool, figure: str, value: object = None) -> None:
        """Prints a condition and whether it holds, and records it."""
        check(name, holds, figure)
        self.note(name, {"holds": holds, "figure": figure, "value": value})

    def note(self, name: str, value: object) -> None:
        self.found[self.proof][name] = value
        (self.folder / "proofs.json").write_text(json.dumps(self.found, indent=1, ensure_ascii=False))
