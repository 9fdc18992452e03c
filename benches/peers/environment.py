"""The environments and servers of the peers, for the programs of benches."""

import contextlib
import dataclasses
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


@dataclasses.dataclass(frozen=True)
class Peer:
    """The server of a peer: its program, the packages that it needs, its options, and the processes that answer."""

    port: int
    program: str = "fastapi_server.py"
    requirements: str = "requirements.txt"
    options: tuple[str, ...] = ()
    workers: int = 1


# FastAPI with its default settings, and with those that are fastest under load.
FASTAPI = {"fastapi": Peer(19101), "fastapi, 1 thread a run": Peer(19102, options=("--threads", "1", "--no-batch-faces"))}
CORES = os.cpu_count() or 1
DEEPFACE = Peer(19103, "deepface_server.py", "deepface.txt", ("--workers", str(CORES)), CORES)


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
def serving(peer: Peer) -> Iterator[None]:
    """Runs the server of a peer, and yields when all its workers can answer."""
    name = "peers" if peer.requirements == "requirements.txt" else pathlib.Path(peer.requirements).stem
    command = [environment(name, PEERS / peer.requirements), PEERS / peer.program, "--port", str(peer.port), *MODELS, *peer.options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        waiting = peer.workers
        assert process.stdout
        while waiting:
            if not (line := process.stdout.readline()):
                sys.exit(f"the peer on port {peer.port} did not start")
            waiting -= line.startswith("ready")
        yield
    finally:
        process.terminate()
        process.wait()
