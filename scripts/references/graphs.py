"""Runs the cases that `cargo run --example graph_cases -- FOLDER` wrote on a provider and compares with the CPU's answers.

    python3 scripts/references/graphs.py FOLDER CUDAExecutionProvider use_tf32=0

Needs numpy and onnxruntime (onnxruntime-gpu, or the wheel of the provider). With `openvino` instead of a provider it runs
them on OpenVINO itself, which needs openvino. Exits with 1 when an answer is out of its tolerance.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def opened(model, provider, options):
    """A function from named inputs to the only output."""
    if provider == "openvino":
        import openvino

        core = openvino.Core()
        compiled = core.compile_model(core.read_model(model), "CPU", options)
        return lambda inputs: compiled(inputs)[0]
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=[(provider, options), "CPUExecutionProvider"])
    if provider not in session.get_providers():
        sys.exit(f"{provider} is not available: {session.get_providers()}")
    return lambda inputs: session.run(None, inputs)[0]


def main(folder, provider, *options):
    options = dict(option.split("=", 1) for option in options)
    failed = False
    for path in sorted(Path(folder).iterdir()):
        case = json.loads((path / "case.json").read_text())
        inputs = {
            i["name"]: np.fromfile(path / i["name"], i["dtype"]).reshape(i["shape"]) for i in case["inputs"]
        }
        expected = np.fromfile(path / "expected", case["dtype"]).astype(np.float64)
        try:
            run = opened(str(path / "model.onnx"), provider, options)
            answer = run(inputs)
        except Exception as error:
            print(f"{path.name:32} failed: {str(error)[:300]}")
            failed = True
            continue
        started, runs = time.perf_counter(), 0
        while runs < 3 or time.perf_counter() - started < 0.3:
            run(inputs)
            runs += 1
        each = (time.perf_counter() - started) / runs * 1e3
        apart = np.abs(answer.astype(np.float64).ravel() - expected)
        allowed = np.maximum(case["units"], case["share"] * np.abs(expected))
        good = bool((apart <= allowed).all())
        failed |= not good
        print(
            f"{path.name:32} {'ok ' if good else 'OUT'} worst {apart.max():.6g}, "
            f"{(apart > 0).mean() * 100:.3f} % differ, {each:.2f} ms"
        )
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
