#!/usr/bin/env python3
"""Writes the ONNX models of one case, their inputs and the result: peer_onnx_models.py FOLDER CASE

One folder a variant: model.onnx, manifest.txt (a line a tensor: in|out NAME TYPE BYTES SHAPE FILE),
and the tensors as raw files. Variants: `op23`, the standard operator Attention of opset 23;
`mha` and `attention`, com.microsoft's MultiHeadAttention and Attention; a 4 at the end: keys and values
are handed over as [B,H,K,d]. Prints the names of the folders it wrote.
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import cases

TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}
node = helper.make_node


def attend(c, q, k, v, keep):
    """softmax(q k^T scale) v for each head, one after the other: scores of all would not fit."""
    out = np.empty_like(q)
    width = c.D // c.H
    for b in range(c.B):
        for h in range(c.H):
            columns = slice(h * width, (h + 1) * width)
            for first in range(0, c.Q, 1024):
                rows = slice(first, first + 1024)
                scores = q[b, rows, columns] @ k[b, :, columns].T * np.float32(c.scale)
                if keep is not None:
                    scores[:, keep[b] == 0] = -np.inf
                if c.mask == "causal":
                    ahead = np.arange(c.K)[None, :] > first + np.arange(len(scores))[:, None]
                    scores[ahead] = -np.inf
                scores = np.exp(scores - scores.max(-1, keepdims=True))
                out[b, rows, columns] = scores @ v[b, :, columns] / scores.sum(-1, keepdims=True)
    return out


class Writer:
    """The numbers of one case, and the models over them."""

    def __init__(self, folder, c):
        rng = np.random.default_rng(1)
        self.folder, self.c = folder, c
        real = lambda *shape: (rng.standard_normal(shape) * 0.5).astype(np.float32)
        limit = c.D ** -0.5
        self.weight = {n: rng.uniform(-limit, limit, (c.D, c.D)).astype(np.float32) for n in "qkvo"}
        self.bias = {n: (rng.uniform(-limit, limit, c.D) * c.bias).astype(np.float32) for n in "qkvo"}
        self.query = real(c.B, c.Q, c.D)
        self.key = self.query if c.mode == "self" else real(c.B, c.K, c.D)
        self.value = self.key if c.projects_memory else real(c.B, c.K, c.D)
        self.keep = None
        if c.mask == "key":
            self.keep = (rng.random((c.B, c.K)) >= 0.3).astype(np.int32)
            self.keep[:, 0] = 1
        self.expected = self.solve()

    def linear(self, name, x):
        return x @ self.weight[name] + self.bias[name]

    def solve(self):
        c, q, k, v = self.c, self.query, self.key, self.value
        if c.projects_query:
            q = self.linear("q", q)
        if c.projects_memory:
            k, v = self.linear("k", k), self.linear("v", v)
        y = attend(c, q, k, v, self.keep)
        return self.linear("o", y) if c.projects_output else y

    # ---- models ----

    def inputs(self, by_head):
        """The rows that go in, by name; where one input serves several, it goes in once."""
        c = self.c
        found = {"query": self.query}
        if c.mode != "self":
            found["key"] = self.key
        if not c.projects_memory:
            found["value"] = self.value
        if by_head:
            for name in ("key", "value") + (("query",) if c.mode == "core" else ()):
                x = found[name]
                split = x.reshape(c.B, -1, c.H, c.D // c.H).transpose(0, 2, 1, 3)
                found[name] = np.ascontiguousarray(split)
        return found

    def projections(self, biases):
        """Nodes that make q, k and v, and the names of what they made."""
        c, nodes, made = self.c, [], []
        source = "query" if c.mode == "self" else "key"
        for name, x, wanted in (("q", "query", c.projects_query), ("k", source, c.projects_memory),
                                ("v", source, c.projects_memory)):
            if not wanted:
                made.append({"q": "query", "k": "key", "v": "value"}[name])
                continue
            biased = biases and c.bias
            nodes.append(node("MatMul", [x, f"W{name}"], [f"{name}0" if biased else name]))
            if biased:
                nodes.append(node("Add", [f"{name}0", f"b{name}"], [name]))
            made.append(name)
        return nodes, made

    def output(self, name):
        c = self.c
        if not c.projects_output:
            return [node("Identity", [name], ["y"])] if name != "y" else []
        if not c.bias:
            return [node("MatMul", [name, "Wo"], ["y"])]
        return [node("MatMul", [name, "Wo"], ["y0"]), node("Add", ["y0", "bo"], ["y"])]

    def write(self, variant, nodes, inputs, constants, opset):
        folder = self.folder / f"{self.c.id}.{variant}"
        folder.mkdir()
        used = {name for n in nodes for name in n.input}
        graph = helper.make_graph(
            nodes, "layer",
            [helper.make_tensor_value_info(n, TYPES[str(a.dtype)], a.shape) for n, a in inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, self.shape_of(variant))],
            [numpy_helper.from_array(a, n) for n, a in constants.items() if n in used])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset),
                                                        helper.make_opsetid("com.microsoft", 1)])
        model.ir_version = 10
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        expected = self.expected.reshape(self.c.B, self.c.Q, self.c.H, -1).transpose(0, 2, 1, 3) \
            if len(self.shape_of(variant)) == 4 else self.expected
        lines = []
        for direction, name, array in [("in", n, a) for n, a in inputs.items()] + [("out", "y", expected)]:
            np.ascontiguousarray(array).tofile(folder / f"{name}.raw")
            shape = " ".join(str(size) for size in array.shape)
            lines.append(f"{direction} {name} {TYPES[str(array.dtype)]} {array.nbytes} {array.ndim} {shape}\n")
        (folder / "manifest.txt").write_text("".join(lines))
        print(folder.name)

    def shape_of(self, variant):
        c = self.c
        by_head = variant == "op23-4" and not c.projects_output
        return (c.B, c.H, c.Q, c.D // c.H) if by_head else (c.B, c.Q, c.D)

    def constants(self):
        found = {f"W{n}": w for n, w in self.weight.items()}
        found.update({f"b{n}": b for n, b in self.bias.items()})
        found["Wqkv"] = np.concatenate([self.weight[n] for n in "qkv"], 1)
        found["bqkv"] = np.concatenate([self.bias[n] for n in "qkv"])
        c = self.c
        found["split"] = np.array([c.B, c.Q, c.H, c.D // c.H], np.int64)
        found["join"] = np.array([c.B, c.Q, c.D], np.int64)
        return found

    def mha(self, by_head):
        """com.microsoft.MultiHeadAttention, which adds the biases of all three itself."""
        c = self.c
        inside = c.projects_memory and c.bias
        nodes, qkv = self.projections(biases=not inside)
        inputs = {"query": self.query} if c.mode == "core" else {}
        inputs = dict(self.inputs(by_head), **inputs)
        extra = ["bqkv" if inside else "", ""]
        if self.keep is not None:
            inputs["keep"] = self.keep
            extra[1] = "keep"
        attributes = {"unidirectional": 1} if c.mask == "causal" else {}
        nodes.append(node("MultiHeadAttention", qkv + extra, ["context"], domain="com.microsoft",
                          num_heads=c.H, scale=c.scale, **attributes))
        self.write("mha-4" if by_head else "mha", nodes + self.output("context"), inputs, self.constants(), 17)

    def attention(self):
        """com.microsoft.Attention: one projection for all three, of one input."""
        c = self.c
        attributes = {"unidirectional": 1} if c.mask == "causal" else {}
        nodes = [node("Attention", ["query", "Wqkv", "bqkv"], ["context"], domain="com.microsoft",
                      num_heads=c.H, scale=c.scale, **attributes)]
        self.write("attention", nodes + self.output("context"), self.inputs(False), self.constants(), 17)

    def op23(self, by_head):
        """The standard operator. Its mask has axes for heads and queries."""
        c = self.c
        nodes, qkv = self.projections(biases=True)
        inputs = self.inputs(by_head)
        attributes = {"is_causal": 1} if c.mask == "causal" else {}
        if self.keep is not None:
            spread = np.broadcast_to((self.keep == 1)[:, None, None, :], (c.B, 1, c.Q, c.K))
            inputs["mask"] = np.ascontiguousarray(spread)
            qkv.append("mask")
        if not by_head:
            nodes.append(node("Attention", qkv, ["context"], q_num_heads=c.H, kv_num_heads=c.H,
                              scale=c.scale, **attributes))
            nodes += self.output("context")
        elif c.mode == "core":
            nodes.append(node("Attention", qkv, ["y"], scale=c.scale, **attributes))
        else:
            nodes += [node("Reshape", [qkv[0], "split"], ["q4"]),
                      node("Transpose", ["q4"], ["qt"], perm=[0, 2, 1, 3]),
                      node("Attention", ["qt"] + qkv[1:], ["c4"], scale=c.scale, **attributes),
                      node("Transpose", ["c4"], ["ct"], perm=[0, 2, 1, 3]),
                      node("Reshape", ["ct", "join"], ["context"])] + self.output("context")
        self.write("op23-4" if by_head else "op23", nodes, inputs, self.constants(), 23)


def main():
    writer = Writer(pathlib.Path(sys.argv[1]), cases.read()[sys.argv[2]])
    mode = writer.c.mode
    writer.mha(False)
    writer.op23(False)
    if mode == "self":
        writer.attention()
    if mode == "given":
        writer.mha(True)
    if mode in ("given", "core"):
        writer.op23(True)


main()
