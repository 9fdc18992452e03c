"""Whether the server keeps GPU_MEMORY_LIMIT_GB, as the driver counts the memory of its process."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

from .report import Report
from .server import Load, Server, form

LIMIT_GIB = 1
SECONDS = 8
CLIENTS = 8
PATHS = (
    "/embed?store=false",
    "/quality?store=false",
    "/enhance?upscale=2&contrast=true&sharpen=true",
    "/preprocess",
    "/detect?store=false",
)


def used_mib(pid: int) -> float:
    """Returns the device memory of a process, in MiB."""
    command = ["nvidia-smi", "--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits"]
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        owner, used = line.split(",")
        if int(owner) == pid:
            return float(used)
    return 0.0


class Gauge(threading.Thread):
    """Records the most memory that a process had."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most, self.stopped = pid, 0.0, threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.2):
            self.most = max(self.most, used_mib(self.pid))

    def end(self) -> float:
        self.stopped.set()
        self.join()
        return self.most


def prove(facescan: str, backend: str, images: list[Path], report: Report) -> None:
    bodies = [image.read_bytes() for image in images]
    requests = [(path, form((bodies * 8)[first : first + 8])) for first, path in enumerate(PATHS)]
    everything = {"ALL_GPU": "true", "GPU_BACKEND": backend}
    peaks = {}
    for name, settings in {
        "context": {"QUALITY_CHECKS_GPU": "true", "GPU_BACKEND": backend},
        "unlimited": everything,
        "limited": everything | {"GPU_MEMORY_LIMIT_GB": str(LIMIT_GIB)},
    }.items():
        with Server(facescan, report.folder, f"memory-{name}", settings) as server:
            idle = used_mib(server.process.pid)
            peaks[name] = idle
            if name != "context":
                gauge = Gauge(server.process.pid)
                gauge.start()
                with Load(server, requests, CLIENTS) as load:
                    time.sleep(SECONDS)
                peaks[name] = gauge.end()
                report.check(f"{name}: every request was answered", load.only_answers(), str(load.answered))
                report.note(f"{name}: health", server.health())
            report.note(name, {"idle_mib": idle, "peak_mib": peaks[name]})
    most = LIMIT_GIB * 1024 + peaks["context"]
    figure = f"{peaks['limited']:.0f} MiB, {peaks['unlimited']:.0f} without a limit, {peaks['context']:.0f} with the graph of quality alone"
    report.check(f"a limit of {LIMIT_GIB} GiB is kept beside the context", 0 < peaks["limited"] <= most, figure, peaks)
