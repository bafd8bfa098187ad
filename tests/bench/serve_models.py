"""The models that the HTTP bench serves, written by hand in the safetensors format.

Standard library only. Weights are drawn from a fixed seed, uniform within +-1/sqrt(width), as a layer is
before it is trained; two models with the same layer have the same weights.
"""
import array
import json
import pathlib
import random
import struct
import sys

# name: (length, width, heads): one sample of such a layer is a request
SHAPES = {"small": (16, 128, 8), "medium": (128, 512, 8)}
TINY_WIDTH = 8   # of the smallest layer: one position, one head
STEPS = 2048     # of the growing sequence
NODES = 100      # of the routing instance
ALONE = {"dynamic_batching": {"max_batch_requests": 1}}  # nothing is joined


def speech(width, heads):
    sizes = [(f"{name}_layer.{part}", [width] * axes) for name in ("k", "v", "q", "output")
             for part, axes in (("weight", 2), ("bias", 1))]
    return {"kind": "speech_mha", "num_heads": heads, "d_model": width, "scale_dp_by_head": True}, sizes


def routing(width, heads):
    names = "queryEncoder.weight", "keyEncoder.weight", "valueEncoder.weight", "MHA.project_out.weight"
    return {"kind": "routing_mha_proj", "embedding_dim": width, "n_heads": heads}, [(n, [width] * 2) for n in names]


def causal(length, width, heads):
    sizes = [("input_linear.weights", [width, 3 * width]), ("input_linear.biases", [3 * width])]
    return {"kind": "causal_mha", "output_shape": [length, width], "n_heads": heads}, sizes


def volume(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def floats(n, limit, rng):
    numbers = array.array("f", (rng.uniform(-limit, limit) for _ in range(n)))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def safetensors(sizes, width):
    rng, header, data = random.Random(1), {}, []
    at = 0
    for name, shape in sizes:
        data.append(floats(volume(shape), width ** -0.5, rng))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def write(repository, name, layer, width, more=None):
    """One model; returns its folder."""
    options, sizes = layer
    folder = pathlib.Path(repository) / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(dict({"layer": options}, **(more or {}))))
    (folder / "1" / "model.safetensors").write_bytes(safetensors(sizes, width))
    return folder


def write_shapes(repository):
    """For each shape the layer under its name, with batching off, and the one that takes one input."""
    for name, (_, width, heads) in SHAPES.items():
        write(repository, name, speech(width, heads), width)
        write(repository, f"{name}-alone", speech(width, heads), width, ALONE)
        write(repository, f"{name}-one", routing(width, heads), width)


def write_plain(repository):
    """Only what peers serve too: for them, and for memory and cold start. They are told the length."""
    for name, (length, width, heads) in SHAPES.items():
        folder = write(repository, name, speech(width, heads), width)
        (folder / "length").write_text(str(length))


def write_wire(repository):
    """The smallest layer, the medium one with three inputs and with one, and one that needs next to no scratch."""
    _, width, heads = SHAPES["medium"]
    write(repository, "tiny", routing(TINY_WIDTH, 1), TINY_WIDTH)
    write(repository, "medium", speech(width, heads), width)
    write(repository, "medium-one", routing(width, heads), width)
    scores = pathlib.Path(repository) / "scores"
    scores.mkdir()
    (scores / "config.json").write_text(json.dumps({"layer": {"kind": "routing_score"}}))


def write_sequences(repository):
    write(repository, "growing", causal(STEPS, 128, 8), 128)
    write(repository, "routing", routing(128, 8), 128)


def weight_bytes(repository):
    return sum(path.stat().st_size for path in pathlib.Path(repository).glob("*/*/model.safetensors"))
