"""The environments and servers of the peers, for benches/run and benches/scenarios."""

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


@dataclasses.dataclass
class Server:
    """A server of a peer: its program, the packages that it needs, and its options."""

    port: int
    program: str = "fastapi_server.py"
    requirements: str = "requirements.txt"
    options: tuple[str, ...] = ()
    workers: int = 1


# The FastAPI server with its default settings, and with the settings that are fastest under load.
SERVERS = {"fastapi": Server(19101), "fastapi, 1 thread a run": Server(19102, options=("--threads", "1", "--no-batch-faces"))}
DEEPFACE = Server(19103, "deepface_server.py", "deepface.txt", workers=os.cpu_count() or 1)


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
def running(server: Server) -> Iterator[None]:
    """Runs the server of a peer, and yields when all of its workers can answer."""
    name = "peers" if server.requirements == "requirements.txt" else pathlib.Path(server.requirements).stem
    command = [environment(name, PEERS / server.requirements), PEERS / server.program, "--port", str(server.port), *MODELS]
    command += ["--workers", str(server.workers), *server.options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        waiting = server.workers
        assert process.stdout
        for line in process.stdout:
            waiting -= line.startswith("ready")
            if waiting == 0:
                break
        else:
            sys.exit(f"the peer on port {server.port} did not start")
        yield
    finally:
        process.terminate()
        process.wait()
