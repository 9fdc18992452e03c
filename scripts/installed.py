"""What the programs of this folder install for themselves: groups of Python packages, and programs from crates.io."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from packages import CACHE, CARGO_TOOLS, PINS, RUNTIME, requirement


def python_packages(group: str) -> Path:
    """Installs a group of scripts/requirements.toml, once for each set of pins and each Python. Returns its folder.

    The packages are wheels, so none of their code runs.
    """
    folder = RUNTIME / "python" / f"{group}-{sys.version_info.major}.{sys.version_info.minor}"
    pins = "".join(f"{requirement(package)}\n" for package in PINS["groups"][group])
    stamp = folder / "pins.txt"
    if not stamp.is_file() or stamp.read_text() != pins:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wanted = folder / "wanted.txt"
        wanted.write_text(pins)
        command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--quiet"]
        command += ["--disable-pip-version-check", "--root-user-action=ignore", "--target", folder, "--requirement", wanted]
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"pip could not install the group {group} of scripts/requirements.toml; its output is above")
        wanted.rename(stamp)
    return folder


def use_packages(group: str) -> None:
    """Lets this program import the packages of a group."""
    sys.path.insert(0, str(python_packages(group)))


def cargo_program(crate: str, *features: str) -> Path:
    """Builds a program from crates.io once, in the version of scripts/packages.py. Returns the folder with its binary."""
    version, digest = CARGO_TOOLS[crate]
    root = CACHE / "tools" / f"{crate}-{version}"
    if not (root / "bin" / crate).is_file():
        if not shutil.which("cargo"):
            sys.exit("cargo is missing: install Rust")
        print(f"building {crate} {version}; this takes some minutes, once", flush=True)
        check_archive(crate, version, digest)
        # The build folder of the project is not used, because the build output of a program is of no use later.
        environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
        command = ["cargo", "install", "--quiet", "--locked", "--version", f"={version}", "--root", root, crate]
        command += [f"--features={feature}" for feature in features]
        subprocess.run(command, cwd=CACHE, env=environment, check=True)
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
