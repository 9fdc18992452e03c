"""OpenCV's face detector and recognizer in a plain loop, without HTTP.

    python opencv_loop.py --detector yunet-2023mar.onnx --embedder sface-2021dec.onnx --operation embed --seconds 5 *.jpg

The loop decodes each image from memory and detects its faces. With `embed` it also aligns and embeds them. At the end it prints
one line of JSON.

With OpenCV 5.0.0, the detector can be the block-quantized file of OpenCV Zoo or the file that `facescan models prepare` writes.
Both find the same faces at the same speed. The embedder must be the prepared file. OpenCV's new graph engine refuses the Zoo's
file, because its graph also declares its weights as inputs. The classic engine accepts it but takes 1.5 times as long.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from multiprocessing.synchronize import Barrier
from pathlib import Path

import cv2  # pyright: ignore[reportMissingImports]
import numpy as np

SIDE = 640
MIN_SCORE = 0.6
NMS_IOU = 0.3
TOP_K = 5000

start_line: Barrier


def count_faces(arguments: argparse.Namespace) -> Iterator[int]:
    """Processes the images in an endless loop, and yields the number of faces of each.

    An image stays in memory until the next one replaces it. If a function processed each image, its buffers would be freed on
    return. glibc would return the memory to the system, and the page faults would take 5 of 28 ms for each image.
    """
    pictures = [np.fromfile(path, np.uint8) for path in arguments.pictures]
    detector = cv2.FaceDetectorYN.create(arguments.detector, "", (SIDE, SIDE), MIN_SCORE, NMS_IOU, TOP_K)
    recognizer = cv2.FaceRecognizerSF.create(arguments.embedder, "") if arguments.operation == "embed" else None
    for encoded in cycle(pictures):
        picture = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        if picture is None:
            raise ValueError("not an image")
        height, width = picture.shape[:2]
        scale = min(SIDE / width, SIDE / height)
        resized = cv2.resize(picture, (round(width * scale), round(height * scale)))
        # The servers run their detector on the same square, so the model does the same work.
        below, beside = SIDE - resized.shape[0], SIDE - resized.shape[1]
        square = cv2.copyMakeBorder(resized, 0, below, 0, beside, cv2.BORDER_CONSTANT)
        _, found = detector.detect(square)
        faces = [] if found is None else found
        if recognizer is not None:
            for face in faces:
                face[:-1] /= scale  # all but the score
                recognizer.feature(recognizer.alignCrop(picture, face))
        yield len(faces)


def share_start_line(barrier: Barrier) -> None:
    """Stores the barrier in a new process. A barrier cannot be an argument of a task."""
    global start_line
    start_line = barrier


def measure(arguments: argparse.Namespace) -> tuple[list[float], int, float]:
    """Runs the loop for the given time. Returns the seconds of each image, the number of faces, and the total seconds."""
    cv2.setNumThreads(arguments.threads)
    counts = count_faces(arguments)
    for _ in arguments.pictures:
        next(counts)

    start_line.wait()
    took: list[float] = []
    faces = 0
    begin = now = time.perf_counter()
    while now - begin < arguments.seconds:
        faces += next(counts)
        before, now = now, time.perf_counter()
        took.append(now - before)
    return took, faces, now - begin


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="OpenCV's face models in a loop, to compare facescan with.")
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--detector", required=True)
    parser.add_argument("--embedder", required=True)
    parser.add_argument("--operation", choices=["detect", "embed"], default="embed")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=-1, help="OpenCV's threads in a process; -1 leaves it to OpenCV")
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Starts the processes at the same time and combines their results."""
    arguments = parse_arguments()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(arguments.processes)
    with ProcessPoolExecutor(arguments.processes, context, share_start_line, (barrier,)) as pool:
        runs = list(pool.map(measure, [arguments] * arguments.processes))

    milliseconds = 1e3 * np.concatenate([took for took, _, _ in runs])
    seconds = max(span for _, _, span in runs)
    p50, p99 = np.percentile(milliseconds, [50, 99])
    result = {
        "operation": arguments.operation,
        "pictures": len(milliseconds),
        "faces": sum(faces for _, faces, _ in runs),
        "seconds": round(seconds, 3),
        "pictures_per_second": round(len(milliseconds) / seconds, 2),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
