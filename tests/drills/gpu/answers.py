"""Whether each operation gives the same answers on the device as on the CPU."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy
from numpy.typing import ArrayLike

from .report import Report
from .server import Server

COMMON = "store=false&strict_device=true"
MEASURES = ("blur_score", "brightness", "contrast", "sharpness")
# Values in levels of 0 to 255.
UNIT = json.dumps([0, 0, 0]), json.dumps([1, 1, 1])
PROFILES = {"torchvision": 1, "jax": 1e-3, "pil": 1, "opencv": 1}
STEPS: dict[str, dict] = {
    "resize, torchvision": {"op": "resize", "width": 500, "height": 333},
    "resize, pil": {"op": "resize", "width": 500, "height": 333, "profile": "pil"},
    "resize, opencv": {"op": "resize", "width": 500, "height": 333, "profile": "opencv"},
    "resize to more": {"op": "resize", "width": 1700, "height": 1300},
    "blur, 7": {"op": "gaussian_blur"},
    "blur, 31": {"op": "gaussian_blur", "kernel": 31, "sigma": 6},
    "blur of a region": {"op": "gaussian_blur", "kernel": 15, "sigma": 4, "region": [20, 30, 180, 160]},
}

# Each of the two passes of a resize rounds. Rounded the other way in both, a few of a million values are two levels apart.
STEP_LIMITS = {"levels": 2.001, "share beyond one level": 1e-5}

Compare = Callable[[Server, Server, bytes], dict[str, float]]


def distance(device: ArrayLike, cpu: ArrayLike) -> float:
    return float(numpy.abs(numpy.subtract(device, cpu, dtype=numpy.float64)).max())


def pixels_apart(device: numpy.ndarray, cpu: numpy.ndarray) -> dict[str, float]:
    apart = numpy.abs(numpy.subtract(device, cpu, dtype=numpy.float64))
    return {"levels": float(apart.max()), "share beyond one level": float((apart > 1.001).mean())}


def detected(device: Server, cpu: Server, image: bytes) -> dict[str, float]:
    """Compares boxes and landmarks in pixels, and scores."""
    one, other = (server.results(f"/detect?{COMMON}", [image])[0]["faces"] for server in (device, cpu))
    if len(one) != len(other):
        return {"faces missed or added": abs(len(one) - len(other))}
    pairs = paired(one, other)
    found = {"faces missed or added": 0.0}
    for name, key in (("box, pixels", "bbox"), ("landmarks, pixels", "landmarks"), ("score", "score")):
        found[name] = max((distance(a[key], b[key]) for a, b in pairs), default=0.0)
    return found


def paired(device: list[dict], cpu: list[dict]) -> list[tuple[dict, dict]]:
    """Returns each face of the CPU with the nearest one of the device. Faces of nearly one size can change places."""
    return [(min(device, key=lambda face: distance(face["bbox"], other["bbox"])), other) for other in cpu if device]


def embedded(device: Server, cpu: Server, image: bytes) -> dict[str, float]:
    """Compares the vectors of faces, by 1 − cosine."""
    one, other = (server.results(f"/embed?{COMMON}", [image])[0]["faces"] for server in (device, cpu))
    return {"1 − cosine": max((apart(a["embedding"], b["embedding"]) for a, b in paired(one, other)), default=0.0)}


def encoded(device: Server, cpu: Server, image: bytes) -> dict[str, float]:
    """Compares the vectors of the whole image."""
    one, other = (server.results(f"/embed?kind=image&{COMMON}", [image])[0]["embedding"] for server in (device, cpu))
    return {"1 − cosine": apart(one, other)}


def apart(one: list[float], other: list[float]) -> float:
    a, b = numpy.array(one, numpy.float64), numpy.array(other, numpy.float64)
    return float(1 - a @ b / numpy.linalg.norm(a) / numpy.linalg.norm(b))


def graded(device: Server, cpu: Server, image: bytes) -> dict[str, float]:
    """Compares the measures, as shares of the larger of 0.5 % and 0.01. The same faces are measured: aligned crops."""
    found: dict[str, float] = dict.fromkeys(MEASURES, 0.0)
    crops = cpu.results("/detect?store=false&crops=true", [image])[0]["faces"]
    sources = [(image, COMMON)]
    sources += [(base64.b64decode(face["crop"]), f"{COMMON}&aligned=true") for face in crops]
    for source, query in sources:
        one, other = (qualities(server.results(f"/quality?{query}", [source])[0]) for server in (device, cpu))
        for a, b in zip(one, other):
            for name in MEASURES:
                found[name] = max(found[name], abs(a[name] - b[name]) / max(0.01, 0.005 * abs(b[name])))
    return found


def qualities(result: dict) -> list[dict]:
    """Returns the measures of the image and of faces that are whole images, because boxes may differ by less than a pixel."""
    whole = [result["picture_quality"]] if "picture_quality" in result else []
    aligned = [face["quality"] for face in result["faces"] if not whole]
    return whole + aligned


def enhanced(device: Server, cpu: Server, image: bytes) -> dict[str, float]:
    """Compares the pixels of images that were enlarged and sharpened."""
    query = "/enhance?strict_device=true&upscale=2&contrast=true&sharpen=true&format=png"
    one, other = (server.post(query, [image], "image/png") for server in (device, cpu))
    if one == other:
        return {"levels": 0.0}
    # The server is the decoder.
    return {"levels": distance(levels(cpu, [], one), levels(cpu, [], other))}


def levels(server: Server, steps: list[dict], image: bytes) -> numpy.ndarray:
    """Returns the pixels of an image after these steps."""
    mean, std = (json.loads(text) for text in UNIT)
    operations = [*steps, {"op": "normalize", "mean": mean, "std": std}]
    query = f"/process?strict_device=true&operations={quote(json.dumps(operations))}"
    return numpy.load(io.BytesIO(server.post(query, [image], "application/x-npy"))) * 255


def processed(step: dict) -> Compare:
    def compare(device: Server, cpu: Server, image: bytes) -> dict[str, float]:
        return pixels_apart(levels(device, [step], image), levels(cpu, [step], image))

    return compare


def preprocessed(profile: str) -> Compare:
    def compare(device: Server, cpu: Server, image: bytes) -> dict[str, float]:
        query = f"/preprocess?strict_device=true&profile={profile}&mean={quote(UNIT[0])}&std={quote(UNIT[1])}"
        one, other = (numpy.load(io.BytesIO(server.post(query, [image], "application/x-npy"))) * 255 for server in (device, cpu))
        return {"levels": distance(one, other)}

    return compare


QUESTIONS: dict[str, tuple[Compare, dict[str, float]]] = {
    "`/detect`": (detected, {"faces missed or added": 0, "box, pixels": 1, "landmarks, pixels": 1, "score": 0.01}),
    "`/embed`": (embedded, {"1 − cosine": 1e-4}),
    "`/quality`, in shares of the tolerance": (graded, dict.fromkeys(MEASURES, 1)),
    "`/enhance`": (enhanced, {"levels": 1}),
    **{f"`/preprocess`, {profile}": (preprocessed(profile), {"levels": most * 1.001}) for profile, most in PROFILES.items()},
    **{f"`/process`, {name}": (processed(step), STEP_LIMITS) for name, step in STEPS.items()},
}
OF_IMAGES = {"`/embed?kind=image`": (encoded, {"1 − cosine": 1e-4})}


def prove(facescan: str, backend: str, images: list[Path], report: Report) -> None:
    """Sends each image to a server on the device and to one on the CPU, and compares the answers."""
    # A device always pads to a square, and other padding moves boxes by pixels.
    square = {"FACESCAN__DETECTION__PADDING": "square"}
    device = Server(facescan, report.folder, "answers-device", square | {"ALL_GPU": "true", "GPU_BACKEND": backend})
    cpu = Server(facescan, report.folder, "answers-cpu", square | {"ALL_GPU": "false"})
    questions = QUESTIONS | (OF_IMAGES if device.environment.get("FACESCAN__MODELS__ENCODER") else {})
    with device, cpu:
        for title, (compare, limits) in questions.items():
            worst: dict[str, float] = {}
            for path in images:
                for name, value in compare(device, cpu, path.read_bytes()).items():
                    worst[name] = max(worst.get(name, 0.0), value)
            for name, value in worst.items():
                report.check(f"{title}: {name}", value <= limits[name], f"{value:.3g} on {len(images)} images", value)
        for operation, health in device.health().items():
            kept = health["state"] == "up" and not health["fallbacks"] and health["rows"] > 0
            report.check(f"{operation} stayed on the device", kept, f"{health['rows']} rows", health)
