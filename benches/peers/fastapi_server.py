"""A face server in the usual Python style. The benchmarks compare facescan with it over HTTP.

It uses FastAPI on uvicorn, ONNX Runtime's CPU provider with its default options, OpenCV for pixels and numpy for the rest. It
has two routes and runs the same models with the same arithmetic, so only the server explains a difference in speed:

    python fastapi_server.py --port 9100 --detector yunet-2023mar.onnx --embedder sface-2021dec.onnx

    POST /detect, POST /embed    one image as the body -> {"results": [{"faces": [...]}]}

Both models are files that `facescan models prepare` wrote. It prints one line, `ready …`, when it can answer.
"""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import cv2  # pyright: ignore[reportMissingImports]
import numpy as np
import onnxruntime as ort  # pyright: ignore[reportMissingImports]
import uvicorn  # pyright: ignore[reportMissingImports]
from fastapi import Depends, FastAPI, HTTPException, Request  # pyright: ignore[reportMissingImports]
from fastapi.responses import JSONResponse  # pyright: ignore[reportMissingImports]

DETECTOR_SIDE = 640
STRIDES = (8, 16, 32)
MIN_SCORE = 0.6
NMS_IOU = 0.3
CROP_SIDE = 112
# The positions of the eyes, the nose and the mouth corners in an aligned face, as x + iy.
TEMPLATE = np.array([38.2946 + 51.6963j, 73.5318 + 51.5014j, 56.0252 + 71.7366j, 41.5493 + 92.3655j, 70.7299 + 92.2041j], np.complex64)


def open_session(path: str, threads: int | None) -> ort.InferenceSession:
    """Opens a model with ONNX Runtime's default options. `threads` sets the number of threads if it is given."""
    options = ort.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def decode_picture(body: bytes) -> np.ndarray:
    """Decodes an image to upright BGR pixels. Raises a client error if the body is not an image."""
    picture = cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_COLOR) if body else None
    if picture is None:
        raise HTTPException(422, "the body is not an image")
    return picture


class Detector:
    """YuNet: finds boxes, scores and five landmarks."""

    def __init__(self, path: str, threads: int | None) -> None:
        self.session = open_session(path, threads)
        self.outputs = [f"{kind}_{stride}" for stride in STRIDES for kind in ("cls", "obj", "bbox", "kps")]

    def __call__(self, picture: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns corners [n, 4], scores [n] and landmarks [n, 5, 2] in pixels of the image, largest face first."""
        height, width = picture.shape[:2]
        scale = min(DETECTOR_SIDE / width, DETECTOR_SIDE / height)
        resized = cv2.resize(picture, (round(width * scale), round(height * scale)))
        below, beside = DETECTOR_SIDE - resized.shape[0], DETECTOR_SIDE - resized.shape[1]
        blob = cv2.dnn.blobFromImage(cv2.copyMakeBorder(resized, 0, below, 0, beside, cv2.BORDER_CONSTANT))
        boxes, scores, points = self.decode(self.session.run(self.outputs, {"input": blob}))

        corner, size = boxes[:, :2], boxes[:, 2:]
        kept = np.asarray(cv2.dnn.NMSBoxes(boxes.tolist(), scores.tolist(), MIN_SCORE, NMS_IOU), np.intp)
        corners = np.concatenate([corner, corner + size], axis=1)[kept] / scale
        corners = np.clip(corners, 0, [width, height, width, height])
        largest_first = np.argsort(-np.prod(corners[:, 2:] - corners[:, :2], axis=1))
        kept = kept[largest_first]
        return corners[largest_first], scores[kept], points[kept] / scale

    @staticmethod
    def decode(outputs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Converts the outputs to boxes (x, y, w, h), scores and landmarks, only for cells above the threshold."""
        boxes, scores, points = [], [], []
        for level, stride in enumerate(STRIDES):
            cls, obj, box, kps = (output[0] for output in outputs[4 * level : 4 * level + 4])
            score = np.sqrt(np.clip(cls[:, 0], 0, 1) * np.clip(obj[:, 0], 0, 1))
            cells = np.flatnonzero(score >= MIN_SCORE)
            row, column = np.divmod(cells, DETECTOR_SIDE // stride)
            origin = np.stack([column, row], axis=1).astype(np.float32)
            size = np.exp(box[cells, 2:]) * stride
            center = (origin + box[cells, :2]) * stride
            boxes.append(np.concatenate([center - size / 2, size], axis=1))
            scores.append(score[cells])
            points.append((kps[cells].reshape(-1, 5, 2) + origin[:, None]) * stride)
        return np.concatenate(boxes), np.concatenate(scores), np.concatenate(points)


def align(picture: np.ndarray, points: np.ndarray) -> list[np.ndarray]:
    """Warps each face to an upright crop of a fixed size.

    With complex numbers, one division computes the least-squares similarity transform of all faces. The result equals that of
    Umeyama's method, which needs an SVD.
    """
    source = points.astype(np.float32).view(np.complex64)[..., 0]
    mean, target_mean = source.mean(axis=1, keepdims=True), TEMPLATE.mean()
    centered = source - mean
    turn = (centered.conj() * (TEMPLATE - target_mean)).sum(axis=1) / (np.abs(centered) ** 2).sum(axis=1)
    shift = target_mean - turn * mean[:, 0]
    rows = [[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]]
    matrices = np.moveaxis(np.array(rows), -1, 0)
    return [cv2.warpAffine(picture, matrix, (CROP_SIDE, CROP_SIDE)) for matrix in matrices]


class Embedder:
    """SFace: computes one vector for each face."""

    def __init__(self, path: str, threads: int | None, batch_faces: bool) -> None:
        self.session = open_session(path, threads)
        self.batch_faces = batch_faces

    def __call__(self, crops: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the vectors normalized to length 1, and their lengths before that."""
        blob = cv2.dnn.blobFromImages(crops, swapRB=True)
        batches = [blob] if self.batch_faces else np.split(blob, len(blob))
        vectors = np.concatenate([self.session.run(None, {"data": batch})[0] for batch in batches])
        norms = np.linalg.norm(vectors, axis=1)
        return vectors / norms[:, None], norms


async def read_body(request: Request) -> bytes:
    """Reads the body on the event loop, so that no worker thread waits for it."""
    return await request.body()


Body = Annotated[bytes, Depends(read_body)]


def create_app(detector_path: str, embedder_path: str, threads: int | None, batch_faces: bool) -> FastAPI:
    """Loads the models. The endpoints are not async, so FastAPI runs them in its thread pool."""
    detector = Detector(detector_path, threads)
    embedder = Embedder(embedder_path, threads, batch_faces)

    def find(picture: np.ndarray) -> tuple[list[dict[str, Any]], np.ndarray]:
        boxes, scores, points = detector(picture)
        found = zip(boxes.tolist(), scores.tolist(), points.tolist(), strict=True)
        return [{"bbox": box, "score": score, "landmarks": five} for box, score, five in found], points

    def answer(faces: list[dict[str, Any]]) -> JSONResponse:
        return JSONResponse({"results": [{"faces": faces}]})

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # The first run of a session allocates memory, so it runs before the first request.
        detector(np.zeros((DETECTOR_SIDE, DETECTOR_SIDE, 3), np.uint8))
        embedder([np.zeros((CROP_SIDE, CROP_SIDE, 3), np.uint8)])
        print(f"ready pid={os.getpid()}", flush=True)
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/detect")
    def detect(body: Body) -> JSONResponse:
        faces, _ = find(decode_picture(body))
        return answer(faces)

    @app.post("/embed")
    def embed(body: Body) -> JSONResponse:
        picture = decode_picture(body)
        faces, points = find(picture)
        if faces:
            vectors, norms = embedder(align(picture, points))
            for face, vector, norm in zip(faces, vectors.tolist(), norms.tolist(), strict=True):
                face.update(embedding=vector, embedding_norm=norm)
        return answer(faces)

    return app


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="A FastAPI face server to compare facescan with.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9100)
    parser.add_argument("--detector", required=True, help="the prepared YuNet model")
    parser.add_argument("--embedder", required=True, help="the prepared SFace model")
    parser.add_argument("--threads", type=int, help="threads of one run; ONNX Runtime decides by default")
    parser.add_argument("--batch-faces", action=argparse.BooleanOptionalAction, default=True, help="embed all faces of an image in one run")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    app = create_app(arguments.detector, arguments.embedder, arguments.threads, arguments.batch_faces)
    config = uvicorn.Config(app, host=arguments.host, port=arguments.port, log_level="warning", access_log=False)
    # It listens before it says that it is ready, so a client is never refused.
    listener = config.bind_socket()
    listener.listen(config.backlog)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
