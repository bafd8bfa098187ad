#!/usr/bin/env python3
"""Write the demo models, one per kind of layer and one more, into a model repository.

usage: make_demo_models.py [--check] [FOLDER]     FOLDER: config/models beside this script's tests/

The weights are random but the same on every run: --check writes nothing and fails when a file
differs from what would be written. Needs nothing but Python 3."""

import argparse
import json
import math
import os
import random
import struct
import sys


def uniform(draw, limit):
    """A number in [-limit, limit], cut to 12 binary places: short in JSON, exact in float32."""
    return round(draw.uniform(-limit, limit) * 4096) / 4096


def weight(draw, n_out, n_in, shape=None):
    """A matrix with Xavier's range; shape where it is not stored as [n_out, n_in]."""
    limit = math.sqrt(6 / (n_in + n_out))
    return (shape or [n_out, n_in], [uniform(draw, limit) for _ in range(n_out * n_in)])


def vector(draw, shape, middle=0.0):
    return (shape, [middle + uniform(draw, 0.125) for _ in range(math.prod(shape))])


def routing_score(draw):
    return {"use_tanh": True, "C": 10}, {}


def routing_mha(draw):
    return {"embedding_dim": 8, "n_heads": 2}, {"project_out.weight": weight(draw, 8, 8)}


def routing_mha_proj(draw):
    names = ["queryEncoder", "keyEncoder", "valueEncoder", "MHA.project_out"]
    return ({"embedding_dim": 8, "n_heads": 2},
            {name + ".weight": weight(draw, 8, 8) for name in names})


def speech_mha(draw):
    tensors = {}
    for name in ["k_layer", "v_layer", "q_layer", "output_layer"]:
        tensors[name + ".weight"] = weight(draw, 8, 8)
        tensors[name + ".bias"] = vector(draw, [8])
    return {"num_heads": 2, "d_model": 8, "scale_dp_by_head": True}, tensors


def causal_mha(draw):
    length, width = 6, 8
    options = {"output_shape": [length, width], "n_heads": 2, "use_mask": True,
               "normalisation": {"type": "LayerNorm"}, "activation": {"type": "Tanh"}}
    return options, {
        "input_linear.weights": weight(draw, 3 * width, width, [width, 3 * width]),
        "input_linear.biases": vector(draw, [3 * width]),
        "normalisation.gamma": vector(draw, [length, width], 1.0),
        "normalisation.beta": vector(draw, [length, width]),
    }


def relational_mha(draw):
    heads, types, key_width, value_width, width = 2, 3, 4, 4, 8
    options = {"num_heads": heads, "num_edge_types": types, "key_query_dimension": key_width,
               "value_dimension": value_width, "output_dimension": width, "dropout_rate": 0.0,
               "use_edge_value_biases": True}
    return options, {
        "_out_proj.weight": weight(draw, width, heads * value_width),
        "_edge_attention_biases.weight": weight(draw, types, heads * key_width),
        "_edge_value_biases.weight": weight(draw, types, heads * value_width),
    }


def causal_steps(draw):
    """One whose positions are not coupled but by its mask, so that it can go on step by step."""
    length, width = 64, 8
    options = {"output_shape": [length, width], "n_heads": 2, "use_mask": True}
    return options, {
        "input_linear.weights": weight(draw, 3 * width, width, [width, 3 * width]),
        "input_linear.biases": vector(draw, [3 * width]),
    }


LAYERS = [routing_score, routing_mha, routing_mha_proj, speech_mha, causal_mha, relational_mha, causal_steps]
KINDS = {"causal_steps": "causal_mha"}  # of models that are not named after their kind


def safetensors(tensors):
    """The file format: length of the header, header (JSON, padded to 8 bytes), data."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        assert len(values) == math.prod(shape)
        start = len(data)
        data += struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def config(kind, options, has_weights):
    members = {"layer": {"kind": kind, **options}}
    if has_weights:
        members["weights"] = {"file": "model.safetensors"}
    members["empty_rows"] = "zero"
    lines = ["    %s: %s" % (json.dumps(key), json.dumps(value)) for key, value in members.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def files():
    """All files of the repository: path -> bytes."""
    result = {}
    for seed, layer in enumerate(LAYERS):
        name = layer.__name__
        options, tensors = layer(random.Random(seed))
        result[name + "/config.json"] = config(KINDS.get(name, name), options, bool(tensors))
        if tensors:
            result[name + "/1/model.safetensors"] = safetensors(tensors)
    return result


def differs(path, data):
    try:
        with open(path, "rb") as file:
            return file.read() != data
    except FileNotFoundError:
        return True


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("folder", nargs="?", metavar="FOLDER",
                        default=os.path.join(here, "..", "..", "config", "models"))
    arguments = parser.parse_args()

    n_different = 0
    for name, data in files().items():
        path = os.path.join(arguments.folder, name)
        if arguments.check:
            if differs(path, data):
                print("%s: not what make_demo_models.py writes" % os.path.normpath(path))
                n_different += 1
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
