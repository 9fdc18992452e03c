"""A face server on the package DeepFace. The benchmarks compare facescan with it over HTTP.

DeepFace finds faces with OpenCV's YuNet and embeds them with SFace on ONNX Runtime, both from the given files. It has its
defaults, except the lowest score of a face. Each worker processes one image at a time, because DeepFace's models are objects
of the process that no two threads may use.

    python deepface_server.py --port 9200 --detector yunet-2023mar.onnx --embedder sface-2021dec.onnx --workers 2

    POST /detect, POST /embed    one image as the body -> {"results": [{"faces": [...]}]}

Each worker prints one line, `ready …`, when it can answer.
"""

import argparse
import os
import pathlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

MIN_SCORE = "0.6"
# The names under which DeepFace looks for its files.
FILES = {"detector": "face_detection_yunet_2023mar.onnx", "embedder": "face_recognition_sface_2021dec.onnx"}
# The number of threads that OpenCV uses in a worker. Each worker has one core.
THREADS = 1


def create_app() -> Any:
    """Creates the application of a worker. DeepFace reads its folder and its settings when it is imported."""
    import cv2  # pyright: ignore[reportMissingImports]
    import numpy as np
    from deepface import DeepFace  # pyright: ignore[reportMissingImports]
    from fastapi import FastAPI, Request  # pyright: ignore[reportMissingImports]
    from fastapi.responses import JSONResponse  # pyright: ignore[reportMissingImports]

    cv2.setNumThreads(THREADS)
    options = {"detector_backend": "yunet", "enforce_detection": False}

    def found(image: np.ndarray) -> list[dict]:
        return [
            {"bbox": face["facial_area"], "score": face["confidence"]} for face in DeepFace.extract_faces(image, align=False, **options)
        ]

    def embedded(image: np.ndarray) -> list[dict]:
        return [
            {"bbox": face["facial_area"], "score": face["face_confidence"], "embedding": face["embedding"]}
            for face in DeepFace.represent(image, model_name="SFace", **options)
        ]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        embedded(np.zeros((640, 640, 3), np.uint8))
        print(f"ready pid={os.getpid()}", flush=True)
        yield

    app = FastAPI(lifespan=lifespan)

    async def answer(request: Request, operation: Any) -> JSONResponse:
        image = cv2.imdecode(np.frombuffer(await request.body(), np.uint8), cv2.IMREAD_COLOR)
        faces = operation(image)
        for face in faces:
            face["bbox"] = {name: part for name, part in face["bbox"].items() if name in ("x", "y", "w", "h")}
        return JSONResponse({"results": [{"faces": faces}]})

    @app.post("/detect")
    async def detect(request: Request) -> JSONResponse:
        return await answer(request, found)

    @app.post("/embed")
    async def embed(request: Request) -> JSONResponse:
        return await answer(request, embedded)

    return app


def main() -> None:
    """Listens before it starts the workers, so a client that has seen `ready` is never refused."""
    parser = argparse.ArgumentParser(description="A server on DeepFace to compare facescan with.")
    parser.add_argument("--port", type=int, default=9200)
    parser.add_argument("--detector", required=True, type=pathlib.Path, help="the prepared YuNet model")
    parser.add_argument("--embedder", required=True, type=pathlib.Path, help="the prepared SFace model")
    parser.add_argument("--workers", type=int, default=1, help="number of worker processes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        weights = pathlib.Path(home, ".deepface/weights")
        weights.mkdir(parents=True)
        for name, file in FILES.items():
            (weights / file).symlink_to(getattr(arguments, name).absolute())
        os.environ.update(DEEPFACE_HOME=home, DEEPFACE_LOG_LEVEL="40", yunet_score_threshold=MIN_SCORE)
        os.environ["OMP_NUM_THREADS"] = str(THREADS)

        import uvicorn  # pyright: ignore[reportMissingImports]
        from uvicorn.supervisors import Multiprocess  # pyright: ignore[reportMissingImports]

        config = uvicorn.Config(
            create_app,
            factory=True,
            host="127.0.0.1",
            port=arguments.port,
            workers=arguments.workers,
            log_level="warning",
            access_log=False,
        )
        listener = config.bind_socket()
        listener.listen(config.backlog)
        Multiprocess(config, sockets=[listener]).run()


if __name__ == "__main__":
    main()
