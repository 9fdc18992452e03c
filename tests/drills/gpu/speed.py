"""Rows per second through the server, and by ONNX Runtime alone with the same batch size on the same card."""

from __future__ import annotations

import base64
import http.client
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

from ..installation import RUNTIME
from .report import Report
from .server import FORM, Failed, Server, form

BATCH = 32
ROUNDS = 3
SECONDS = 2.0
CLIENTS = 12
BARE = Path(__file__).with_name("bare.py")
PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}
SIDE = 640
# The number of images that the rows are made of.
IMAGES = 8
# Operation → the model, the shape of a row, the path, and the images in a request.
MODELS = {
    "face_embedding": ("sface-2021dec.onnx", "3,112,112", "/embed?store=false&aligned=true&embedding_format=base64-f16", 64),
    "face_detection": ("yunet-2023mar.onnx", f"3,{SIDE},{SIDE}", "/detect?store=false", 16),
}


class Alone:
    """ONNX Runtime with one model, in a process of its own."""

    def __init__(self, model: str, shape: str, provider: str) -> None:
        command = [sys.executable, str(BARE), str(RUNTIME / "models" / model), f"{BATCH},{shape}", "--provider", provider]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.answer()["version"]

    def answer(self) -> dict:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise Failed("ONNX Runtime alone ended; its message is above")
        return json.loads(line)

    def run(self, mode: str) -> dict[str, float]:
        print(json.dumps({"mode": mode, "seconds": SECONDS}), file=self.process.stdin, flush=True)
        return self.answer()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def send(server: Server, path: str, body: bytes, until: float) -> None:
    """Sends one request after the other on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    while time.monotonic() < until:
        connection.request("POST", path, body, {"content-type": FORM})
        response = connection.getresponse()
        response.read()
        if response.status == 429:
            time.sleep(0.05)


def served(server: Server, operation: str, path: str, body: bytes) -> dict[str, float]:
    """Returns the rows per second of the device under load, and how the batches were."""
    until = time.monotonic() + SECONDS + 1.2
    processes = [multiprocessing.Process(target=send, args=(server, path, body, until)) for _ in range(CLIENTS)]
    for process in processes:
        process.start()
    time.sleep(1)
    before, began = counters(server, operation), time.monotonic()
    time.sleep(SECONDS)
    after, took = counters(server, operation), time.monotonic() - began
    for process in processes:
        process.join()
    rows, runs, busy = (after[name] - before[name] for name in ("rows", "runs", "busy"))
    return {"rows_per_second": rows / took, "rows_per_run": rows / max(1, runs), "device_busy": busy / took}


def counters(server: Server, operation: str) -> dict[str, float]:
    return {
        "rows": server.metric("facescan_rows_total", operation=operation),
        "runs": server.metric("facescan_run_seconds_count", operation=operation),
        "busy": server.metric("facescan_run_seconds_sum", operation=operation),
    }


def material(server: Server, images: list[Path]) -> dict[str, list[bytes]]:
    """Returns JPEGs that become one row each without scaling: aligned faces, and images of the detector's size."""

    def jpeg(step: dict, image: bytes) -> bytes:
        return server.post(f"/process?jpeg_quality=90&operations={quote(json.dumps([step]))}", [image], "image/jpeg")

    bodies = [image.read_bytes() for image in images[:IMAGES]]
    faces = [face for image in bodies for face in server.results("/detect?store=false&crops=true", [image])[0]["faces"]]
    flip = {"op": "flip", "axis": "horizontal"}
    return {
        "face_embedding": [jpeg(flip, base64.b64decode(face["crop"])) for face in faces],
        "face_detection": [jpeg({"op": "resize", "width": SIDE, "height": SIDE}, image) for image in bodies],
    }


def prove(facescan: str, backend: str, images: list[Path], report: Report) -> None:
    settings = {"FACE_DETECTION_GPU": "true", "FACE_EMBEDDING_GPU": "true", "GPU_BACKEND": backend, "GPU_BATCH_SIZE": str(BATCH)}
    ways = {"defaults": settings, "max_decoded 256": settings | {"FACESCAN__IMAGING__MAX_DECODED": "256"}}
    servers = [Server(facescan, report.folder, f"speed-{number}", own) for number, own in enumerate(ways.values())]
    with servers[0], servers[1]:
        made = material(servers[0], images)
        for operation, (model, shape, path, count) in MODELS.items():
            alone = Alone(model, shape, PROVIDERS[backend])
            try:
                measure(operation, path, form((made[operation] * count)[:count]), alone, dict(zip(ways, servers)), report)
            finally:
                alone.end()
        report.note("health", servers[1].health())


def measure(operation: str, path: str, body: bytes, alone: Alone, servers: dict[str, Server], report: Report) -> None:
    """Measures each way once in each round, in turn, and reports medians and the medians of the ratios."""
    figures: dict[str, list[dict[str, float]]] = {}
    for _ in range(ROUNDS):
        for mode in ("host", "device", "tf32"):
            figures.setdefault(f"ONNX Runtime, {mode}", []).append(alone.run(mode))
        for way, server in servers.items():
            figures.setdefault(f"server, {way}", []).append(served(server, operation, path, body))
    host = [found["rows_per_second"] for found in figures["ONNX Runtime, host"]]
    for way, found in figures.items():
        rates = [one["rows_per_second"] for one in found]
        ratio = statistics.median(rate / base for rate, base in zip(rates, host))
        rest = {name: round(statistics.median(one[name] for one in found), 6) for name in found[0] if name != "rows_per_second"}
        print(f"     {operation}, {way}: {statistics.median(rates):.0f} rows/s, {ratio:.2f} of ONNX Runtime alone, {rest}", flush=True)
        report.note(f"{operation}, {way}", {"rates": rates, "ratio": ratio, **rest})
    report.note(f"{operation}, version of ONNX Runtime", alone.version)
