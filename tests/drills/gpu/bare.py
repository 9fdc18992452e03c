"""ONNX Runtime alone: runs a model with rows of one size, as often as it can, with the provider options of the server.

Reads one JSON object a line: {"seconds", "mode"} with the mode `host` (rows come from memory of the host, and outputs go there, as
in the server), `device` (rows are on the card) or `tf32` (as host, with TF32). Answers with {"rows_per_second", "apart"}.
`apart` is the largest 1 − cosine of a row of the last output to that of the CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy
import onnxruntime  # pyright: ignore[reportMissingImports]


class Bare:
    """A model in sessions with and without TF32."""

    def __init__(self, model: str, shape: list[int], provider: str) -> None:
        self.model, self.provider = model, provider
        pixels = numpy.random.default_rng(1).integers(0, 256, shape)
        self.rows = numpy.ascontiguousarray(pixels, dtype=numpy.float32)
        cpu = self.open("CPUExecutionProvider", {})
        self.input = cpu.get_inputs()[0].name
        self.right = cpu.run(None, {self.input: self.rows[:2]})
        self.sessions = {tf32: self.on_device(tf32) for tf32 in ("0", "1")}

    def open(self, provider: str, options: dict[str, str]) -> onnxruntime.InferenceSession:
        session = onnxruntime.SessionOptions()
        session.enable_mem_pattern = False
        found = onnxruntime.InferenceSession(self.model, session, providers=[(provider, options)])
        if found.get_providers()[0] != provider:
            sys.exit(f"onnxruntime has no {provider}: {found.get_providers()}")
        return found

    def on_device(self, tf32: str) -> onnxruntime.InferenceSession:
        if self.provider == "CPUExecutionProvider":
            return self.open(self.provider, {})
        options = {"arena_extend_strategy": "kSameAsRequested", "cudnn_conv_algo_search": "HEURISTIC", "use_tf32": tf32}
        return self.open(self.provider, options)

    def apart(self, session: onnxruntime.InferenceSession) -> float:
        outputs = session.run(None, {self.input: self.rows})
        found = 0.0
        for output, right in zip(outputs, self.right):
            for one, other in zip(output[:2].reshape(2, -1).astype(float), right.reshape(2, -1).astype(float)):
                found = max(found, 1 - one @ other / numpy.linalg.norm(one) / numpy.linalg.norm(other))
        return float(found)

    def run(self, mode: str, seconds: float) -> dict[str, float]:
        session = self.sessions["1" if mode == "tf32" else "0"]
        if mode == "device":
            binding = session.io_binding()
            held = onnxruntime.OrtValue.ortvalue_from_numpy(self.rows, "cuda" if "CUDA" in self.provider else "cpu", 0)
            binding.bind_ortvalue_input(self.input, held)
            for output in session.get_outputs():
                binding.bind_output(output.name, "cuda" if "CUDA" in self.provider else "cpu")

            def once() -> None:
                session.run_with_iobinding(binding)
        else:

            def once() -> None:
                session.run(None, {self.input: self.rows})

        for _ in range(5):
            once()
        count, began = 0, time.monotonic()
        while time.monotonic() - began < seconds:
            once()
            count += 1
        rate = count * len(self.rows) / (time.monotonic() - began)
        return {"rows_per_second": rate, "apart": self.apart(session)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("shape", help="rows, channels, height and width, such as 32,3,112,112")
    parser.add_argument("--provider", default="CUDAExecutionProvider")
    args = parser.parse_args()
    bare = Bare(args.model, [int(length) for length in args.shape.split(",")], args.provider)
    print(json.dumps({"version": onnxruntime.__version__}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(bare.run(asked["mode"], asked["seconds"])), flush=True)


if __name__ == "__main__":
    main()
