#!/usr/bin/env python3
"""Take the attention blocks out of an ONNX text recogniser and write each as a model that can be served.

Usage: extract.py FILE.onnx REPOSITORY        (needs Debian's python3-onnx and python3-numpy)

A block of PP-OCRv4's recogniser, as its graph has it, for x of shape [batch, length, 120]:

    fused   = x W + b                     W [120, 360], b [360]
    q, k, v = fused as [3, batch, 8 heads, length, 15]
    a       = softmax(0.258 q k^T)        0.258 = 1 / sqrt(15): scaled by the width of a head
    y       = heads of (a v) joined, times P [120, 120], plus c [120]

That is `speech_mha` with x as keys, values and queries. Its parameters are stored [out, in] and apart:
q_layer, k_layer and v_layer are the three column blocks of W transposed (and thirds of b), output_layer
is P transposed with c. The blocks are found by the shape of the graph around each softmax, not by the
names of its nodes, which mean nothing.
"""
import json
import math
import pathlib
import struct
import sys
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from graph import attributes


class Block(NamedTuple):
    name: str
    input: str  # names of values in the graph
    attention: str
    output: str
    n_heads: int
    scale: float
    fused_weight: np.ndarray
    fused_bias: np.ndarray
    output_weight: np.ndarray
    output_bias: np.ndarray


class NoBlock(Exception):
    """The graph around a softmax is no attention block; says where it differs."""


class Graph:
    def __init__(self, graph):
        self.graph = graph
        self.producers = {node.output[0]: node for node in graph.node}
        self.constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = numpy_helper.to_array(attributes(node)["value"])

    def above(self, name, *operators):
        """The node that made a value, through a chain of operators given from the value upwards."""
        for operator in operators:
            node = self.producers.get(name)
            if node is None or node.op_type != operator:
                raise NoBlock("%s is not made by %s" % (name, operator))
            name = next((i for i in node.input if i not in self.constants), node.input[0])
        return node

    def below(self, name, *operators):
        """The node that a chain of operators, from a value downwards, ends in."""
        for operator in operators:
            users = [n for n in self.graph.node if name in n.input and n.op_type == operator]
            if len(users) != 1:
                raise NoBlock("%s goes into %d nodes %s" % (name, len(users), operator))
            name = users[0].output[0]
        return users[0]

    def constant_of(self, node):
        found = [self.constants[name] for name in node.input if name in self.constants]
        if len(found) != 1:
            raise NoBlock("%s has %d constant inputs" % (node.output[0], len(found)))
        return found[0]

    def known(self, name):
        """A constant, possibly cast; None for what is computed."""
        while name not in self.constants:
            node = self.producers.get(name)
            if node is None or node.op_type != "Cast":
                return None
            name = node.input[0]
        return self.constants[name]


def find_block(graph, softmax, name):
    scores = graph.above(softmax.input[0], "MatMul")
    scaled = graph.above(scores.input[0], "Mul")
    query = graph.above(scaled.output[0], "Mul", "Squeeze", "Slice")
    key = graph.above(scores.input[1], "Transpose", "Squeeze", "Slice")
    context = graph.below(softmax.output[0], "MatMul")
    value = graph.above(context.input[1], "Squeeze", "Slice")
    thirds = [(n.input[0], attributes(n)["starts"][0]) for n in (query, key, value)]
    if [start for _, start in thirds] != [0, 1, 2] or len({source for source, _ in thirds}) != 1:
        raise NoBlock("queries, keys and values are not three parts of one value: %s" % thirds)
    split = graph.above(query.input[0], "Transpose", "Reshape")
    sizes = [graph.known(size) for size in graph.above(split.input[1], "Concat").input]
    if len(sizes) != 5 or sizes[2] is None or sizes[3] is None or sizes[2] != 3:
        raise NoBlock("the fused projection is not cut into [batch, length, 3, heads, width]")
    fused_bias = graph.above(split.input[0], "Add")
    fused = graph.above(split.input[0], "Add", "MatMul")
    projection = graph.below(context.output[0], "Transpose", "Reshape", "MatMul")
    output = graph.below(projection.output[0], "Add")
    return Block(
        name=name,
        input=fused.input[0],
        attention=softmax.output[0],
        output=output.output[0],
        n_heads=int(sizes[3][0]),
        scale=float(graph.constant_of(scaled)),
        fused_weight=graph.constant_of(fused),
        fused_bias=graph.constant_of(fused_bias),
        output_weight=graph.constant_of(projection),
        output_bias=graph.constant_of(output),
    )


def find_blocks(onnx_graph):
    graph, blocks = Graph(onnx_graph), []
    for softmax in (n for n in onnx_graph.node if n.op_type == "Softmax"):
        try:
            blocks.append(find_block(graph, softmax, "ocr_block_%d" % (len(blocks) + 1)))
        except NoBlock as reason:
            print("softmax %s is no attention block: %s" % (softmax.output[0], reason))
    return blocks


def block_config(block):
    width = block.fused_weight.shape[0]
    head_width = width // block.n_heads
    by_head = math.isclose(block.scale, head_width**-0.5, rel_tol=1e-6)
    if not by_head and not math.isclose(block.scale, width**-0.5, rel_tol=1e-6):
        sys.exit("%s: a scale of %g is neither that of the head nor that of the model" % (block.name, block.scale))
    layer = {"kind": "speech_mha", "num_heads": block.n_heads, "d_model": width, "scale_dp_by_head": by_head}
    return {"layer": layer, "weights": {"file": "model.safetensors"}}


def block_tensors(block):
    weights = dict(zip("qkv", np.split(block.fused_weight, 3, axis=1)))
    biases = dict(zip("qkv", np.split(block.fused_bias, 3)))
    tensors = {}
    for part in "kvq":
        tensors["%s_layer.weight" % part] = weights[part].T
        tensors["%s_layer.bias" % part] = biases[part]
    tensors["output_layer.weight"] = block.output_weight.T
    tensors["output_layer.bias"] = block.output_bias
    return tensors


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = np.ascontiguousarray(tensor, "<f4").tobytes()
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_models(blocks, repository):
    for block in blocks:
        folder = pathlib.Path(repository) / block.name
        (folder / "1").mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(block_config(block), indent=2) + "\n")
        write_safetensors(folder / "1" / "model.safetensors", block_tensors(block))
        print("%s: %d heads, weights %s, scale %.6f" % (block.name, block.n_heads, block.fused_weight.shape, block.scale))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_models(find_blocks(onnx.load(sys.argv[1]).graph), sys.argv[2])
