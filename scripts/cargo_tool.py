"""Install a program from crates.io, in the version and with the hash that scripts/packages.py pins."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from packages import CACHE, CARGO_TOOLS


def install(crate: str) -> Path:
    """Builds the program once. Returns the folder with its binary."""
    version, digest = CARGO_TOOLS[crate]
    root = CACHE / "tools" / f"{crate}-{version}"
    if not (root / "bin" / crate).is_file():
        if not shutil.which("cargo"):
            sys.exit("cargo is missing: install Rust")
        print(f"building {crate} {version}; this takes some minutes, once", flush=True)
        check_archive(crate, version, digest)
        # The build folder of the project is not used, because the build output of a program is of no use later.
        environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
        subprocess.run(
            ["cargo", "install", "--quiet", "--locked", "--version", f"={version}", "--root", root, crate],
            cwd=CACHE,
            env=environment,
            check=True,
        )
    return root / "bin"


def check_archive(crate: str, version: str, digest: str) -> None:
    """Downloads the source archive into cargo's cache and compares its hash, before cargo runs any code of it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "info", "--quiet", f"{crate}@{version}"], cwd=CACHE, stdout=subprocess.DEVNULL, check=True)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    archives = list(home.glob(f"registry/cache/*/{crate}-{version}.crate"))
    wrong = [archive for archive in archives if hashlib.sha256(archive.read_bytes()).hexdigest() != digest]
    if wrong or not archives:
        sys.exit(
            f"{wrong[0] if wrong else f'{crate} {version}'} does not have the sha256 {digest} of scripts/packages.py: "
            "compare it with the checksum on crates.io"
        )
