"""How many pictures a second others make into rows on one core: 32 of 512 x 512, to 224 x 224, normalised, NCHW.

Prints JSON. jax and Pillow antialias, as facescan does; OpenCV's INTER_LINEAR does not, which is less work.
"""

import json
import os
import sys
import time

# Before the libraries start their threads.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np  # noqa: E402

PICTURES, SIDE = 32, 224
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def rate(batch):
    """Pictures a second over at least a second, after a first batch that compiles and warms up."""
    batch()
    started, batches = time.perf_counter(), 0
    while time.perf_counter() - started < 1:
        batch()
        batches += 1
    return batches * PICTURES / (time.perf_counter() - started)


def jax_batch(pictures):
    import jax
    import jax.numpy as jnp

    @jax.jit
    def preprocess(x):
        x = jax.image.resize(x.astype(jnp.float32), (PICTURES, SIDE, SIDE, 3), "linear", antialias=True)
        return jnp.transpose((x / 255 - MEAN) / STD, (0, 3, 1, 2))

    return lambda: preprocess(pictures).block_until_ready()


def numpy_row(scaled):
    return ((scaled.astype(np.float32) / 255 - MEAN) / STD).transpose(2, 0, 1)


def opencv_batch(pictures):
    import cv2

    cv2.setNumThreads(1)
    rows = np.empty((PICTURES, 3, SIDE, SIDE), np.float32)

    def batch():
        for row, picture in zip(rows, pictures):
            row[:] = numpy_row(cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR))

    return batch


def pillow_batch(pictures):
    from PIL import Image

    rows = np.empty((PICTURES, 3, SIDE, SIDE), np.float32)
    images = [Image.fromarray(picture) for picture in pictures]

    def batch():
        for row, image in zip(rows, images):
            row[:] = numpy_row(np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)))

    return batch


PEERS = {"jax": jax_batch, "opencv": opencv_batch, "pillow": pillow_batch}

if __name__ == "__main__":
    pictures = np.random.default_rng(1).integers(0, 256, (PICTURES, 512, 512, 3), np.uint8)
    names = sys.argv[1:] or PEERS
    print(json.dumps({name: round(rate(PEERS[name](pictures)), 1) for name in names}))
