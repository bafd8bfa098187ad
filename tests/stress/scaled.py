"""Models whose versions tell by their answers which weights served, and what they should answer. Standard library only.

The layers are those of tests/integration/models.py, projections the identity, with the last one times a factor. Each
version has two factors of its own: an answer is lawful with either, since a reload may come at any moment, and with no
other."""
import base64
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration"))
import models  # noqa: E402

FACTORS = {"1": (1, 2), "2": (3, 5)}
STEPS = 12  # positions of the layers that grow

# name: kind, versions, options beside the layer's own, members beside `layer`
MODELS = {
    "mha": ("routing_mha", ("1", "2"), {}, {}),
    "narrow": ("routing_mha", ("1",), {}, {"queue_policy": {
        "max_queue_size": 2, "priority_levels": 3, "default_timeout_microseconds": 400_000}}),
    "tour": ("routing_mha_proj", ("1", "2"), {}, {}),
    "speech": ("speech_mha", ("1",), {"dropout": 0.5}, {}),
    "steps": ("causal_mha", ("1", "2"), {"output_shape": [STEPS, 4], "dropout": 0.25},
              {"dynamic_batching": {"max_queue_delay_microseconds": 300}}),
    "graph": ("relational_mha", ("1",), {}, {}),
    "score": ("routing_score", (), {}, {}),
    "fresh": ("routing_mha", ("1",), {}, {}),
}
LAST = {"routing_mha": "project_out.weight", "routing_mha_proj": "MHA.project_out.weight",
        "speech_mha": "output_layer.weight", "relational_mha": "_out_proj.weight",
        "causal_mha": "input_linear.weights"}


def config(name):
    kind, _, options, members = MODELS[name]
    return {"layer": {"kind": kind, **models.LAYERS[kind][0], **options}, **members}


def weights(name, factor):
    """The bytes of a weights file."""
    kind = MODELS[name][0]
    tensors = dict(models.LAYERS[kind][1])
    dtype, shape, numbers = tensors[LAST[kind]]
    if kind == "causal_mha":  # the third part of a row makes the values
        numbers = [n * factor if i % 12 >= 8 else n for i, n in enumerate(numbers)]
    else:
        numbers = [n * factor for n in numbers]
    tensors[LAST[kind]] = (dtype, shape, numbers)
    return models.safetensors(tensors)


def put(path, content):
    """Replace a file at once, as who changes what is served should."""
    aside = path.with_name(path.name + ".new")
    aside.write_bytes(content)
    aside.replace(path)


class Repository:
    """The folder of all models."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def write(self):
        for name, (_, versions, _, _) in MODELS.items():
            (self.root / name).mkdir(parents=True)
            self.configure(name)
            for version in versions:
                (self.root / name / version).mkdir()
                self.scale(name, version, 0)

    def configure(self, name):
        put(self.root / name / "config.json", json.dumps(config(name)).encode())

    def spoil(self, name):
        put(self.root / name / "config.json", b'{"layer": {"kind": "routing_mha", "heads": 2}}')

    def scale(self, name, version, which):
        """Give a version the first or the second of its factors."""
        put(self.root / name / version / "model.safetensors", weights(name, FACTORS[version][which]))


def brought(name, which):
    """The body of a load that brings configuration and weights."""
    content = weights(name, FACTORS["1"][which])
    parameters = {"config": json.dumps(config(name)), "file:1/model.safetensors": base64.b64encode(content).decode()}
    return json.dumps({"parameters": parameters}).encode()


# ---- what they should answer, in double precision -----------------------------------------------


def attention(queries, keys, values, heads, over, blocked):
    """One sample; rows of numbers. Scores are divided by the root of `over`; blocked(i, j): query i does not see key j."""
    out = [[] for _ in queries]
    width, depth = len(queries[0]) // heads, len(values[0]) // heads
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        for i, query in enumerate(queries):
            scores = [sum(a * b for a, b in zip(query[part], key[part])) / math.sqrt(over) for key in keys]
            top = max((s for j, s in enumerate(scores) if not blocked(i, j)), default=0.0)
            seen = [math.exp(s - top) if not blocked(i, j) else 0.0 for j, s in enumerate(scores)]
            total = sum(seen) or 1.0
            out[i] += [sum(p * value[h * depth + c] for p, value in zip(seen, values)) / total for c in range(depth)]
    return out


def expected(name, factor, inputs):
    """The layer's first output, flat, for {input: rows of each sample}; None: not worked out here."""
    kind = MODELS[name][0]
    names = {"routing_mha": ("query", "key", "value"), "speech_mha": ("q", "k", "v"), "routing_mha_proj": ("q", "h", "h"),
             "causal_mha": ("input",) * 3}.get(kind)
    if not names or "mask" in inputs:
        return None
    queries, keys, values = (inputs.get(n) or inputs["q"] for n in names)
    causal = kind == "causal_mha"
    numbers = []
    for q, k, v in zip(queries, keys, values):
        for row in attention(q, k, v, 2, 4 if causal or kind == "speech_mha" else 2, lambda i, j: causal and j > i):
            numbers += [factor * n for n in row]
    return numbers
