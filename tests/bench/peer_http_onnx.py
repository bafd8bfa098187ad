#!/usr/bin/env python3
"""Writes the bench's layers as ONNX models: peer_http_onnx.py REPOSITORY FOLDER

For each model of the repository NAME.onnx, self attention by the standard operator, which is ONNX
Runtime's fastest form of these; and NAME.json, its shape.
"""
import json
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node


def read_weights(path):
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    return {name: np.frombuffer(content[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]],
                                "<f4").reshape(entry["shape"])
            for name, entry in json.loads(content[8:start]).items()}


def write(source, folder):
    heads = json.loads((source / "config.json").read_text())["layer"]["num_heads"]
    weights = read_weights(source / "1" / "model.safetensors")
    width = len(weights["q_layer.bias"])
    shape = [1, int((source / "length").read_text()), width]
    nodes, constants = [], []
    for name, layer, x, y in (("q", "q", "x", "q"), ("k", "k", "x", "k"), ("v", "v", "x", "v"), ("o", "output", "context", "y")):
        if name == "o":
            nodes.append(node("Attention", ["q", "k", "v"], ["context"], q_num_heads=heads, kv_num_heads=heads,
                              scale=(width // heads) ** -0.5))
        nodes += [node("MatMul", [x, f"W{name}"], [f"{name}0"]), node("Add", [f"{name}0", f"b{name}"], [y])]
        constants += [numpy_helper.from_array(np.ascontiguousarray(weights[f"{layer}_layer.weight"].T), f"W{name}"),
                      numpy_helper.from_array(weights[f"{layer}_layer.bias"], f"b{name}")]
    graph = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    model.ir_version = 10
    (folder / f"{source.name}.onnx").write_bytes(model.SerializeToString())
    (folder / f"{source.name}.json").write_text(json.dumps(shape))


for source in pathlib.Path(sys.argv[1]).iterdir():
    write(source, pathlib.Path(sys.argv[2]))
