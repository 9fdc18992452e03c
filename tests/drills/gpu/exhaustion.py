"""What the server does while another process takes the memory of the card, and after that."""

from __future__ import annotations

import base64
import ctypes
import time
from pathlib import Path

from .report import Report
from .server import Failed, Load, Server, form

CHUNKS_MIB = (1024, 256, 64, 16, 2)
LITTLE_MIB = 192
SECONDS = 8
RECOVERY_SECONDS = 60
BATCH = 32
CLIENTS = 6


class Hog:
    """Takes memory of the card with plain allocations."""

    def __init__(self) -> None:
        for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
            try:
                self.cuda = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise Failed("libcudart.so was not found: set LD_LIBRARY_PATH to the libraries of CUDA")
        self.taken: list[ctypes.c_void_p] = []
        self.free_mib()

    def free_mib(self) -> float:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if self.cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)):
            raise Failed("cudaMemGetInfo failed: is there a card?")
        return free.value / (1 << 20)

    def leave(self, mib: float) -> float:
        """Takes memory until this much is free. Returns what is free then."""
        for chunk in CHUNKS_MIB:
            while self.free_mib() - chunk >= mib:
                pointer = ctypes.c_void_p()
                if self.cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(chunk << 20)):
                    self.cuda.cudaGetLastError()
                    break
                self.taken.append(pointer)
        return self.free_mib()

    def release(self) -> None:
        for pointer in self.taken:
            self.cuda.cudaFree(pointer)
        self.taken.clear()


def watched(server: Server, load: Load, seconds: float) -> dict[str, dict]:
    """Returns the smallest batch size of each operation within this time, and its health at the end."""
    smallest: dict[str, int] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, health in server.health().items():
            smallest[name] = min(smallest.get(name, BATCH), health["batch_size"])
        time.sleep(0.1)
    return {name: health | {"smallest_batch": smallest[name]} for name, health in server.health().items()}


def recovered(server: Server) -> bool:
    models = ("face_detection", "face_embedding")
    return all(
        health["state"] == "up" and (name not in models or health["batch_size"] == BATCH) for name, health in server.health().items()
    )


def prove(facescan: str, backend: str, images: list[Path], report: Report) -> None:
    settings = {
        "ALL_GPU": "true",
        "GPU_BACKEND": backend,
        "GPU_BATCH_SIZE": str(BATCH),
        "FACESCAN__IMAGING__MAX_DECODED": "256",
        "FACESCAN__DEVICES__BREAKER_COOLDOWN_MS": "500",
        "FACESCAN__DEVICES__BREAKER_MAX_COOLDOWN_MS": "2000",
    }
    hog = Hog()
    try:
        with Server(facescan, report.folder, "exhaustion", settings) as server:
            bodies = [image.read_bytes() for image in images]
            faces = [face for image in bodies for face in server.results("/detect?store=false&crops=true", [image])[0]["faces"]]
            crops = [base64.b64decode(face["crop"]) for face in faces]
            requests = [
                ("/embed?store=false&aligned=true", form((crops * 64)[:64])),
                ("/detect?store=false", form((bodies * 32)[:32])),
                ("/enhance?upscale=2&contrast=true&sharpen=true", form(bodies[:4])),
                ("/quality?store=false", form(bodies[:8])),
            ]
            for moment, mib in (("little memory", LITTLE_MIB), ("no memory", 0)):
                free = hog.leave(mib)
                with Load(server, requests, CLIENTS) as load:
                    health = watched(server, load, SECONDS)
                report.check(f"{moment}: every request was answered", load.only_answers(), f"{load.answered} with {free:.0f} MiB free")
                report.note(moment, {"free_mib": free, "health": health})
                print(*(f"     {name}: {found}" for name, found in health.items()), sep="\n", flush=True)
            hog.release()
            began = time.monotonic()
            with Load(server, requests, CLIENTS) as load:
                while not recovered(server) and time.monotonic() - began < RECOVERY_SECONDS:
                    time.sleep(0.1)
                took = time.monotonic() - began
                before = server.metric("facescan_fallback_rows_total")
                time.sleep(3)
                after = server.metric("facescan_fallback_rows_total")
            report.check("memory is free again: every request was answered", load.only_answers(), str(load.answered))
            report.check("memory is free again: batches have their size again", recovered(server), f"after {took:.1f} s", server.health())
            report.check("memory is free again: no row runs on the CPU", after == before, f"{after - before:.0f} rows in 3 s")
            seen = server.metric("facescan_fallback_rows_total", reason="out_of_memory")
            report.check("rows were counted as out of memory", seen > 0, f"{seen:.0f} rows")
            lines = server.log.read_text(errors="replace").splitlines()
            report.note("first lines of the log", lines[:20])
            halved = sum("the batch is halved" in line for line in lines)
            report.check("batches were halved", halved > 0, f"{halved} times")
    finally:
        hog.release()
