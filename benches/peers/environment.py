"""The environments and servers of the peers, for benches/run and benches/preprocess."""

import contextlib
import os
import pathlib
import subprocess
import sys
import venv
from collections.abc import Iterator

PEERS = pathlib.Path(__file__).resolve().parent
RUNTIME = pathlib.Path(os.environ.get("FACESCAN_RUNTIME", PEERS.parent.parent / ".runtime"))
OUTPUT = RUNTIME / "bench"
MODELS = ["--detector", RUNTIME / "models/yunet-2023mar.onnx", "--embedder", RUNTIME / "models/sface-2021dec.onnx"]


# The port and the options of the FastAPI server, with its default settings, and with those that are fastest under load.
SERVERS = {"fastapi": (19101, ()), "fastapi, 1 thread a run": (19102, ("--threads", "1", "--no-batch-faces"))}


def environment(name: str, requirements: pathlib.Path) -> pathlib.Path:
    """Creates a virtual environment with pinned packages once, and returns its interpreter."""
    folder = OUTPUT / name
    python = folder / "bin/python"
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", requirements]
        subprocess.run(command, check=True)
        stamp.write_bytes(requirements.read_bytes())
    return python


@contextlib.contextmanager
def fastapi(port: int, options: tuple[str, ...]) -> Iterator[None]:
    """Runs the FastAPI server, and yields when it can answer."""
    command = [environment("peers", PEERS / "requirements.txt"), PEERS / "fastapi_server.py", "--port", str(port), *MODELS, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        if not any(line.startswith("ready") for line in process.stdout):
            sys.exit(f"the peer on port {port} did not start")
        yield
    finally:
        process.terminate()
        process.wait()
