"""Write tiny models for the tests, in the place of models that cannot be shipped. The script needs onnx and numpy.

    models.py FOLDER     writes scrfd-64.onnx, arcface-tiny.onnx, encoder-tiny.onnx and encoder-nhwc.onnx

The models have the inputs and outputs of the original files, but do almost no arithmetic. The SCRFD model finds the same
face in every image. The ArcFace model projects the means of the channels to 512 values. The encoders return the means of
the channels in 16 squares as tokens, like a vision transformer, and their projection to 8 values.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

SIDE, ANCHORS = 64, 2


def constant_head(stride: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns scores, distances and landmarks of one stride. Stride 32 has the face."""
    cells = (SIDE // stride) ** 2 * ANCHORS
    score, box, points = (np.zeros((cells, width), np.float32) for width in (1, 4, 10))
    if stride == 32:
        # Distances are in strides. They describe a box from (0, 0) to (48, 60) with the landmarks of an upright face.
        score[3], box[3] = 0.9, [1.0, 0.0, 0.5, 1.875]
        center = np.array([32.0, 0.0])
        face = np.array([[16, 22], [32, 22], [24, 32], [18, 44], [30, 44]], np.float32)
        points[3] = ((face - center) / 32).reshape(-1)
    return score, box, points


def scrfd() -> onnx.ModelProto:
    """Returns a model with nine outputs, like InsightFace's det_* files, and batch 1. Its input does not change the outputs."""
    nodes, outputs, constants = [], [], []
    nodes.append(helper.make_node("ReduceMean", ["input.1"], ["mean"], keepdims=0))
    constants.append(from_array(np.zeros((), np.float32), "zero"))
    nodes.append(helper.make_node("Mul", ["mean", "zero"], ["nothing"]))
    for kind, name in enumerate(("score", "bbox", "kps")):
        for stride in (8, 16, 32):
            value = constant_head(stride)[kind]
            constants.append(from_array(value, f"{name}_{stride}_value"))
            nodes.append(helper.make_node("Add", [f"{name}_{stride}_value", "nothing"], [f"{name}_{stride}"]))
            outputs.append(helper.make_tensor_value_info(f"{name}_{stride}", TensorProto.FLOAT, value.shape))
    image = helper.make_tensor_value_info("input.1", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    return model(helper.make_graph(nodes, "scrfd", [image], outputs, constants))


def arcface() -> onnx.ModelProto:
    weights = np.random.default_rng(1).standard_normal((3, 512)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["data"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["fc1"]),
    ]
    image = helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", 3, 112, 112])
    # The original files declare a batch of one here, but return as many rows as they receive.
    vector = helper.make_tensor_value_info("fc1", TensorProto.FLOAT, [1, 512])
    return model(helper.make_graph(nodes, "arcface", [image], [vector], [from_array(weights, "weights")]))


def encoder(channels_last: bool) -> onnx.ModelProto:
    weights = np.random.default_rng(2).standard_normal((48, 8)).astype(np.float32)
    shape = ["N", 32, 32, 3] if channels_last else ["N", 3, 32, 32]
    planes = "planes" if channels_last else "pixel_values"
    nodes = [helper.make_node("Transpose", ["pixel_values"], [planes], perm=[0, 3, 1, 2])] if channels_last else []
    nodes += [
        helper.make_node("AveragePool", [planes], ["pooled"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Reshape", ["pooled", "squares"], ["planar"]),
        helper.make_node("Transpose", ["planar"], ["last_hidden_state"], perm=[0, 2, 1]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["image_embeds"]),
        helper.make_node("Shape", ["flat"], ["shape"]),
    ]
    image = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, shape)
    outputs = [
        helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
        helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["N", 16, 3]),
        helper.make_tensor_value_info("image_embeds", TensorProto.FLOAT, ["N", 8]),
    ]
    constants = [from_array(weights, "weights"), from_array(np.array([0, 3, 16], np.int64), "squares")]
    return model(helper.make_graph(nodes, "encoder", [image], outputs, constants))


def model(graph: onnx.GraphProto) -> onnx.ModelProto:
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    onnx.save(scrfd(), folder / "scrfd-64.onnx")
    onnx.save(arcface(), folder / "arcface-tiny.onnx")
    onnx.save(encoder(channels_last=False), folder / "encoder-tiny.onnx")
    onnx.save(encoder(channels_last=True), folder / "encoder-nhwc.onnx")
