#!/usr/bin/env python3
"""Models with random weights, for answers that must be the same and need not be known.

    trained.py FOLDER CONFIG [SEED]   CONFIG is the model's config.json; weights go to version 1 unless a layer has none

The same seed makes the same weights."""
import json
import math
import pathlib
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))  # an isolated interpreter does not look here
from models import safetensors


def causal(layer):
    length, width = layer["output_shape"]
    yield "input_linear.weights", [width, 3 * width]
    yield "input_linear.biases", [3 * width]
    for place in ("normalisation", "activation"):
        kind = (layer.get(place) or {}).get("type", "")
        if kind.endswith("Norm"):
            yield place + ".gamma", [length, width]
            yield place + ".beta", [length, width]
        if kind == "BatchNorm":
            yield place + ".running_mean", [length, width]
            yield place + ".running_var", [length, width]


def relational(layer):
    heads, types, width = layer["num_heads"], layer["num_edge_types"], layer["value_dimension"]
    yield "_out_proj.weight", [layer["output_dimension"], heads * width]
    scalar = layer.get("edge_attention_bias_is_scalar")
    yield "_edge_attention_biases.weight", [types, heads * (1 if scalar else layer["key_query_dimension"])]
    if layer.get("use_edge_value_biases"):
        yield "_edge_value_biases.weight", [types, heads * width]


def square(names, option, biases=False):
    def parameters(layer):
        for name in names:
            yield name + ".weight", [layer[option], layer[option]]
            if biases:
                yield name + ".bias", [layer[option]]

    return parameters


PARAMETERS = {
    "routing_score": lambda layer: (),
    "routing_mha": square(["project_out"], "embedding_dim"),
    "routing_mha_proj": square(["queryEncoder", "keyEncoder", "valueEncoder", "MHA.project_out"], "embedding_dim"),
    "speech_mha": square(["k_layer", "v_layer", "q_layer", "output_layer"], "d_model", biases=True),
    "causal_mha": causal,
    "relational_mha": relational,
}


def draw(name, shape):
    low, high = (0.5, 2.0) if name.endswith("running_var") else (-1.0, 1.0)
    scale = 1.0 if len(shape) == 1 or "norm" in name else math.sqrt(3 / shape[0])
    numbers = [random.uniform(low, high) * scale for _ in range(math.prod(shape))]
    return "F32", shape, numbers


def main(folder, config, seed="1"):
    random.seed(int(seed))
    folder = pathlib.Path(folder)
    layer = json.loads(config)["layer"]
    tensors = {name: draw(name, shape) for name, shape in PARAMETERS[layer["kind"]](layer)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config)
    if tensors:
        (folder / "1").mkdir(exist_ok=True)
        (folder / "1" / "model.safetensors").write_bytes(safetensors(tensors))


if __name__ == "__main__":
    main(*sys.argv[1:])
