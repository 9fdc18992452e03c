"""OpenCV's own detector and recogniser in a plain loop, without HTTP: what the machine gives to a script.

    python opencv_loop.py --detector yunet-2023mar.onnx --embedder sface-2021dec.onnx --operation embed --seconds 5 *.jpg

Decodes, detects and, for `embed`, aligns and embeds each picture in turn, from memory, and prints one line of JSON.

Models, with OpenCV 5.0.0: the detector may be OpenCV Zoo's block-quantised file or the one that `facescan models prepare` makes
of it, with the same faces at the same speed. The embedder must be the prepared one: OpenCV's new graph engine refuses the Zoo's
(its graph declares its weights as inputs too), and the classic engine, which takes it, needs half as long again for a face.
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

import cv2
import numpy as np

SIDE = 640
MIN_SCORE = 0.6
NMS_IOU = 0.3
TOP_K = 5000

start_line: Barrier


def count_faces(arguments: argparse.Namespace) -> Iterator[int]:
    """Goes through the pictures for ever; gives the number of faces after each.

    It is one loop, so that a picture lives until the next one takes its place. With a function call a picture, every buffer is
    gone at its end, glibc hands the memory back, and faulting it in again costs 5 of 28 ms a picture.
    """
    pictures = [np.fromfile(path, np.uint8) for path in arguments.pictures]
    detector = cv2.FaceDetectorYN.create(arguments.detector, "", (SIDE, SIDE), MIN_SCORE, NMS_IOU, TOP_K)
    recogniser = cv2.FaceRecognizerSF.create(arguments.embedder, "") if arguments.operation == "embed" else None
    for encoded in cycle(pictures):
        picture = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        if picture is None:
            raise ValueError("not a picture")
        height, width = picture.shape[:2]
        scale = min(SIDE / width, SIDE / height)
        resized = cv2.resize(picture, (round(width * scale), round(height * scale)))
        # The square is what the servers give their detector: the same work for the network.
        below, beside = SIDE - resized.shape[0], SIDE - resized.shape[1]
        square = cv2.copyMakeBorder(resized, 0, below, 0, beside, cv2.BORDER_CONSTANT)
        _, found = detector.detect(square)
        faces = [] if found is None else found
        if recogniser is not None:
            for face in faces:
                face[:-1] /= scale  # all but the score
                recogniser.feature(recogniser.alignCrop(picture, face))
        yield len(faces)


def share_start_line(barrier: Barrier) -> None:
    """Gives a new process the barrier, which cannot travel with a task."""
    global start_line
    start_line = barrier


def measure(arguments: argparse.Namespace) -> tuple[list[float], int, float]:
    """Loops over the pictures for the time asked; returns each one's seconds, the faces, and the seconds it took."""
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
    """The command line."""
    parser = argparse.ArgumentParser(description="OpenCV's face models in a loop, to measure facescan against.")
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--detector", required=True)
    parser.add_argument("--embedder", required=True)
    parser.add_argument("--operation", choices=["detect", "embed"], default="embed")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=-1, help="OpenCV's threads in a process; -1 leaves it to OpenCV")
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Starts the processes together, and adds up what they did."""
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
