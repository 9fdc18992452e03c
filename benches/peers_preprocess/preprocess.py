"""Measure how many images per second a peer preprocesses on one core.

The images are resized to 224 x 224 and 384 x 384 and normalized. They come from memory (random pixels, 512 x 512) and from
JPEG files.

    preprocess.py PEER SECONDS JPEG...

The script prints JSON. It uses the names and the turns of tools/bench/src/preprocess.rs. The measurements take SECONDS each
on average. jax and Pillow antialias, as facescan does. OpenCV's INTER_LINEAR does not, which is less work.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

# The libraries read these values when they start their threads.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np  # noqa: E402

SIDES, BATCHES = (224, 384), (8, 16, 32)
# Seconds of a turn. The measurements of a program take turns, as in tools/bench/src/preprocess.rs.
TURN = 0.05
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


class Jax:
    """jax works on arrays and reads no files."""

    load = None

    def __init__(self) -> None:
        import jax  # pyright: ignore[reportMissingImports]
        import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

        def preprocess(x: Any, side: int, layout: str) -> Any:
            x = jax.image.resize(x.astype(jnp.float32), (len(x), side, side, 3), "linear", antialias=True)
            x = (x / 255 - MEAN) / STD
            return x if layout == "NHWC" else jnp.transpose(x, (0, 3, 1, 2))

        self.preprocess = jax.jit(preprocess, static_argnums=(1, 2))

    def hold(self, pictures: np.ndarray) -> Any:
        return pictures

    def batch(self, pictures: Any, side: int, layout: str) -> None:
        self.preprocess(pictures, side, layout).block_until_ready()


class Rows:
    """Libraries that resize one image at a time. numpy normalizes and stacks the results."""

    def scaled(self, picture: Any, side: int) -> np.ndarray:
        raise NotImplementedError

    def batch(self, pictures: Any, side: int, layout: str) -> None:
        shape = (side, side, 3) if layout == "NHWC" else (3, side, side)
        rows = np.empty((len(pictures), *shape), np.float32)
        for row, picture in zip(rows, pictures):
            scaled = (self.scaled(picture, side).astype(np.float32) / 255 - MEAN) / STD
            row[:] = scaled if layout == "NHWC" else scaled.transpose(2, 0, 1)


class OpenCv(Rows):
    def __init__(self) -> None:
        import cv2  # pyright: ignore[reportMissingImports]

        cv2.setNumThreads(1)
        self.cv2 = cv2

    def hold(self, pictures: np.ndarray) -> Any:
        return list(pictures)

    def load(self, path: str) -> Any:
        return self.cv2.imread(path, self.cv2.IMREAD_COLOR_RGB)

    def scaled(self, picture: Any, side: int) -> np.ndarray:
        return self.cv2.resize(picture, (side, side), interpolation=self.cv2.INTER_LINEAR)


class Pillow(Rows):
    def __init__(self) -> None:
        from PIL import Image  # pyright: ignore[reportMissingImports]

        self.image = Image

    def hold(self, pictures: np.ndarray) -> Any:
        return [self.image.fromarray(picture) for picture in pictures]

    def load(self, path: str) -> Any:
        return self.image.open(path).convert("RGB")

    def scaled(self, picture: Any, side: int) -> np.ndarray:
        return np.asarray(picture.resize((side, side), self.image.Resampling.BILINEAR))


PEERS = {"jax": Jax, "opencv": OpenCv, "pillow": Pillow}


def measures(peer: Any, files: list[str]) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Yields the name, the number of images and the function of each measurement."""
    pictures = peer.hold(np.random.default_rng(1).integers(0, 256, (BATCHES[-1], 512, 512, 3), np.uint8))
    for side, count in itertools.product(SIDES, BATCHES):
        for layout in ("NCHW", "NHWC"):
            some = pictures[:count]
            yield f"memory/{side}/{count}/{layout}", count, lambda s=side, p=some, n=layout: peer.batch(p, s, n)
        if peer.load:
            some = list(itertools.islice(itertools.cycle(files), count))
            loaded = lambda s=side, p=some: peer.batch([peer.load(path) for path in p], s, "NCHW")  # noqa: E731
            yield f"files/{side}/{count}/NCHW", count, loaded
    if peer.load:
        some = list(itertools.islice(itertools.cycle(files), BATCHES[-1]))

        def decode() -> None:
            for path in some:
                np.asarray(peer.load(path))

        yield "decode", len(some), decode


def main() -> None:
    name, seconds, files = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    every = list(measures(PEERS[name](), files))
    took = dict.fromkeys((name for name, _, _ in every), 0.0)
    done = dict.fromkeys(took, 0)
    started = time.perf_counter()
    while time.perf_counter() - started < seconds * len(every):
        for what, count, batch in every:
            # This run compiles the function and warms the caches.
            batch()
            began = time.perf_counter()
            while time.perf_counter() - began < TURN:
                batch()
                done[what] += count
            took[what] += time.perf_counter() - began
    print(json.dumps({what: round(done[what] / took[what], 1) for what in took}))


if __name__ == "__main__":
    main()
