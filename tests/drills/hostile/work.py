"""Work that costs nothing to send: many megapixels in a few bytes, dear steps, and many of both."""

from __future__ import annotations

import base64
import concurrent.futures
import json
import threading
import time
from collections.abc import Callable
from urllib.parse import urlencode

from .. import pictures
from .attack import Attack, Report
from .shapes import pack
from .target import MSGPACK, PHOTO, Response, Target

BLUR = {"op": "gaussian_blur", "kernel": 255, "sigma": 100}
SMALL = {"op": "resize", "width": 64, "height": 64}
# Its AVIF takes eight seconds of a core.
MEDIUM = {"op": "resize", "width": 2_880, "height": 2_880}
# The largest for a response, which holds the samples twice.
ENLARGED = {"op": "resize", "width": 6_680, "height": 6_680}
# The cores that bob's own requests take, and a little more.
CORES = 0.8
# When items of a batch have begun although bob's requests go before them (`admission.bulk_max_wait_ms`), and when bob comes.
BULK_S, DELAY_S = 12, 4
# How long another tenant's image of six megapixels may take, which waits for decoders that cannot be stopped midway.
DECODED_S = 2
# Decoded images of 100 megapixels count in the budget of imaging, which the limit of the control group holds.
PIXELS = 3 << 30


def large(number: int = 0) -> bytes:
    """A lossless WebP of 100 megapixels in 38 bytes, and more bytes to make it another one."""
    return pictures.webp(pictures.riff_chunk(b"VP8L", pictures.vp8l(10_000, 10_000))) + bytes(2 * number)


def at_once(count: int, send: Callable[[int], object]) -> None:
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        list(threads.map(send, range(count)))


def with_options(path: str, query: dict[str, object]) -> str:
    options = urlencode({name: value if isinstance(value, (str, int)) else json.dumps(value) for name, value in query.items()})
    return f"{path}?{options}"


def requests(path: str, write: Callable[[int], bytes], count: int = 2, **query: object) -> Callable[[Target, Report], None]:
    """Returns an attack with a few requests at the same time."""

    def run(target: Target, report: Report) -> None:
        at_once(count, lambda number: report.saw(target.attack(with_options(path, query), write(number), "application/octet-stream")))

    return run


def many(path: str, write: Callable[[int], bytes], count: int, **options: object) -> Callable[[Target, Report], None]:
    """Returns an attack with many images in one request."""

    def run(target: Target, report: Report) -> None:
        images = [{"data": b"\xc6" + len(data).to_bytes(4, "big") + data} for data in map(write, range(count))]
        report.saw(target.attack(path, pack({"images": images, "options": options}), MSGPACK))

    return run


def submitted(operation: str, count: int, **options: object) -> Callable[[Target], Response]:
    entries = [{"id": str(n), "data": base64.b64encode(large(n)).decode()} for n in range(count)]
    body = {"operation": operation, "options": options, "items": entries}
    return lambda target: target.alice.post("/batches", body)


def at_rest(target: Target, report: Report, event: str) -> None:
    """Checks that the processor has little to do a second after an event."""
    time.sleep(1)
    used = target.processor_seconds()
    time.sleep(1.5)
    cores = (target.processor_seconds() - used) / 1.5
    report.notes.append(f"{cores:.1f} cores a second after {event}")
    report.expect(cores <= CORES, f"{cores:.1f} cores were in use a second after {event}")


def batch(operation: str, end: str, count: int = 200, **options: object) -> Callable[[Target, Report], None]:
    """Returns an attack with a batch, which is cancelled or deleted after a while and must then stop within a second."""

    def run(target: Target, report: Report) -> None:
        response = report.saw(submitted(operation, count, **options)(target))
        if response.status not in (200, 201, 202):
            return
        path = f"/batches/{response.json()['id']}"
        time.sleep(BULK_S)
        report.saw(target.alice.get("/batches"))
        ended = report.saw(target.alice.post(f"{path}/cancel") if end == "cancel" else target.alice.request("DELETE", path))
        report.expect(ended.seconds <= 1, f"{end} was answered after {ended.seconds:.1f} s")
        at_rest(target, report, f"the {end}")

    return run


def disconnected(path: str, write: Callable[[int], bytes] = large, **query: object) -> Callable[[Target, Report], None]:
    """Returns an attack whose clients go away; their work must end."""

    def run(target: Target, report: Report) -> None:

        def impatient(number: int) -> Response:
            return target.alice.request("POST", with_options(path, query), write(number), "application/octet-stream", timeout=2)

        at_once(4, impatient)
        at_rest(target, report, "the clients left")

    return run


def encoded(path: str, write: Callable[[int], bytes], **query: object) -> Callable[[Target, Report], None]:
    """Returns an attack by three tenants whose results take much memory to encode. The processes of the encoders count."""

    def run(target: Target, report: Report) -> None:
        tenants, erin = [target.alice, target.tenant("carol"), target.tenant("dave")], target.tenant("erin")
        ended, most, decoded = threading.Event(), 0, [0.0]

        def watched() -> None:
            nonlocal most
            while not ended.wait(0.02):
                most = max(most, target.resident())

        def send(number: int) -> None:
            kind = "application/octet-stream"
            report.saw(tenants[number % 3].request("POST", with_options(path, query), write(number), kind, timeout=25))

        def decode() -> None:
            while not ended.is_set():
                response = erin.post("/quality?store=false", medium(0), "application/octet-stream", timeout=25)
                decoded.append(response.seconds)
                report.saw(response)
                ended.wait(0.3)

        watchers = [threading.Thread(target=watched), threading.Thread(target=decode)]
        for watcher in watchers:
            watcher.start()
        at_once(12, send)
        ended.set()
        for watcher in watchers:
            watcher.join()
        report.expect(max(decoded) <= DECODED_S, f"an image of another tenant was decoded after {max(decoded):.1f} s")
        report.notes.append(f"{most >> 20:,} MiB with the encoders")
        report.expect(most <= PIXELS, f"{most >> 20:,} MiB with the encoders")

    return run


def gray_png(_: int) -> bytes:
    return pictures.png(10_000, 10_000, 1, 0)


def photograph(number: int) -> bytes:
    return PHOTO + bytes(number)


def tiny(number: int) -> bytes:
    return pictures.webp(pictures.riff_chunk(b"VP8L", pictures.vp8l(64, 64))) + bytes(2 * number)


def medium(number: int) -> bytes:
    return pictures.webp(pictures.riff_chunk(b"VP8L", pictures.vp8l(2_400, 2_400))) + bytes(2 * number)


def pixels(name: str, run: Callable[[Target, Report], None], seconds: float = 12, delay: float = 0) -> Attack:
    """An attack with work that may pass its own deadline, which the watch does not wait for."""
    return Attack(f"work: {name}", run, memory=PIXELS, due=("504 deadline_exceeded",), seconds=seconds, delay=delay)


ATTACKS = [
    pixels("sixteen blurs", requests("/process", large, operations=[BLUR] * 16)),
    pixels("sixteen blurs of a region", requests("/process", large, operations=[BLUR | {"region": [0, 0, 9_999, 9_999]}] * 16)),
    pixels("sixteen rotations", requests("/process", large, operations=[{"op": "rotate", "degrees": 37}] * 16)),
    pixels(
        "resizes to the limit",
        requests(
            "/process",
            tiny,
            operations=[{"op": "resize", "width": 9_990 + n % 2, "height": 9_990, "profile": "pil"} for n in range(16)],
            format="jpeg",
        ),
    ),
    pixels(
        "anonymized, with a large input",
        requests("/process", large, operations=[{"op": "anonymize", "method": "blur"}], det_size=4096, second_det_size=4064, min_score=0),
    ),
    pixels("a WebP of 100 megapixels to be written", requests("/process", large, operations=[{"op": "grayscale"}], format="webp")),
    pixels(
        "enhanced, with every step",
        requests("/enhance", large, upscale=4, clahe="true", denoise="true", sharpen="true", contrast="true", gamma=2, identity="true"),
    ),
    pixels("enhanced, a PNG of one bit", requests("/enhance", gray_png, 4, denoise="true", clahe="true", format="png")),
    pixels(
        "enlarged, turned and shrunk",
        requests(
            "/process",
            tiny,
            12,
            operations=[{"op": "resize", "width": 9_990, "height": 9_990}, {"op": "rotate", "degrees": 37}, SMALL],
            format="jpeg",
        ),
    ),
    pixels(
        "faces, each of them enlarged",
        requests(
            "/process",
            photograph,
            8,
            operations=[{"op": "crop", "faces": True, "margin": 10}, {"op": "resize", "width": 4_000, "height": 4_000}],
            min_score=0,
            format="jpeg",
        ),
    ),
    pixels(
        "anonymized again and again",
        requests("/process", photograph, 8, operations=[{"op": "anonymize"}] * 16, det_size=4096, second_det_size=4064, format="jpeg"),
    ),
    pixels("tensors to the limit", many("/preprocess", tiny, 8, height=8192, width=8192, dtype="f32")),
    pixels("tensors of large images", many("/preprocess", large, 8, height=4096, width=4096, profile="pil")),
    pixels("detected with large inputs", many("/detect", tiny, 16, det_size=4096, second_det_size=4064, store=False, min_score=0)),
    pixels("large images, many in a request", many("/quality", large, 16, store=False)),
    pixels("crops of each face", many("/detect", photograph, 32, crops=True, store=False, quality=True)),
    pixels(
        "a batch of blurs, cancelled",
        batch("process", "cancel", operations=[BLUR] * 15 + [SMALL], format="jpeg"),
        seconds=60,
        delay=DELAY_S,
    ),
    pixels(
        "a batch of blurs, deleted", batch("process", "delete", operations=[BLUR] * 15 + [SMALL], format="jpeg"), seconds=60, delay=DELAY_S
    ),
    pixels("a batch to be enhanced, cancelled", batch("enhance", "cancel", 64, denoise=True, clahe=True), seconds=60, delay=DELAY_S),
    pixels(
        "a batch with large inputs, deleted", batch("detect", "delete", 64, det_size=4096, second_det_size=4064), seconds=60, delay=DELAY_S
    ),
    pixels("a batch of AVIF, cancelled", batch("process", "cancel", operations=[MEDIUM], format="avif"), seconds=60, delay=DELAY_S),
    pixels("WebP of three tenants", encoded("/process", tiny, operations=[ENLARGED], format="webp"), seconds=40),
    pixels("AVIF of three tenants", encoded("/process", tiny, operations=[MEDIUM], format="avif"), seconds=40),
    pixels("enhanced WebP of three tenants", encoded("/enhance", large, clahe="true", format="webp"), seconds=40),
    pixels("clients that leave", disconnected("/process", operations=[BLUR] * 16)),
    pixels("clients that leave their enhancement", disconnected("/enhance", denoise="true", clahe="true")),
    pixels("clients that leave their AVIF", disconnected("/process", tiny, operations=[MEDIUM], format="avif")),
    pixels("clients that leave their WebP", disconnected("/process", operations=[{"op": "grayscale"}], format="webp")),
]
