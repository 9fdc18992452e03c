"""The files of a wheel, as pip installs them."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path


def unpack(wheel: Path, tree: Path) -> None:
    """Unpacks the program to `bin/` of a folder, and its files to `lib/facescan/`."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            folder, _, path = member.filename.partition(".data/")
            kind, _, below = path.partition("/")
            if not folder or member.is_dir() or kind not in ("scripts", "data"):
                continue
            to = tree / ("bin" if kind == "scripts" else "") / below
            to.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, to.open("wb") as target:
                shutil.copyfileobj(source, target)
            to.chmod(0o755 if kind == "scripts" else 0o644)
