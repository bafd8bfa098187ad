#!/usr/bin/env python3
"""Models whose answers can be worked out in the head, and bytes for requests. Standard library only.

models.py repository FOLDER         the repository that the suites serve
models.py layer FOLDER KIND [JSON]  one model there, with JSON (if given) in place of its config
models.py weights FILE FAULT        the weights of the `speech` model with one fault (see faults below)
models.py scaled FILE FACTOR        the weights of the `mha` model times FACTOR, put in FILE's place at once
models.py pack DATATYPE NUMBERS...  numbers as little-endian bytes, to standard output
models.py zeros BYTES               zero bytes, to standard output

Every projection is the identity, so that an attention over equal scores is the mean of the values.
"""
import json
import pathlib
import struct
import sys

CODES = {
    "FP32": "f",
    "FP64": "d",
    "FP16": "e",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "BOOL": "?",
    "I64": "q",
    "F32": "f",
    "F64": "d",
    "F16": "e",
}


def pack(datatype, numbers):
    if datatype == "BF16":  # the upper half of a float
        return b"".join(struct.pack("<f", n)[2:] for n in numbers)
    convert = int if datatype.startswith(("I", "U", "BOOL")) else float
    return struct.pack("<%d%s" % (len(numbers), CODES[datatype]), *map(convert, numbers))


def safetensors(tensors):
    """{name: (dtype, shape, numbers)} as the bytes of a file."""
    header, data = {}, b""
    for name, (dtype, shape, numbers) in tensors.items():
        content = pack(dtype, numbers)
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def identity(n, factor=1.0):
    return "F32", [n, n], [factor if i == j else 0.0 for i in range(n) for j in range(n)]


def zeros(*shape):
    n = 1
    for axis in shape:
        n *= axis
    return "F32", list(shape), [0.0] * n


def speech_weights(width=4, prefix=""):
    layers = ("k_layer", "v_layer", "q_layer", "output_layer")
    weights = {}
    for layer in layers:
        weights["%s%s.weight" % (prefix, layer)] = identity(width)
        weights["%s%s.bias" % (prefix, layer)] = zeros(width)
    return weights


def fused(width):
    """[width, 3 width]: queries, keys and values are all the input."""
    row = [[1.0 if i == j % width else 0.0 for j in range(3 * width)] for i in range(width)]
    return "F32", [width, 3 * width], sum(row, [])


# kind -> (options, weights)
LAYERS = {
    "routing_score": ({}, None),
    "routing_mha": ({"embedding_dim": 4, "n_heads": 2}, {"project_out.weight": identity(4)}),
    "routing_mha_proj": (
        {"embedding_dim": 4, "n_heads": 2},
        {
            "queryEncoder.weight": identity(4),
            "keyEncoder.weight": identity(4),
            "valueEncoder.weight": identity(4),
            "MHA.project_out.weight": identity(4),
        },
    ),
    "speech_mha": ({"num_heads": 2, "d_model": 4}, speech_weights()),
    "causal_mha": (
        {"output_shape": [3, 4], "n_heads": 2, "use_mask": True},
        {"input_linear.weights": fused(4)},
    ),
    "relational_mha": (
        {
            "num_heads": 1,
            "num_edge_types": 2,
            "key_query_dimension": 2,
            "value_dimension": 2,
            "output_dimension": 2,
            "dropout_rate": 0.1,
        },
        {
            "_out_proj.weight": identity(2),
            "_edge_attention_biases.weight": ("F32", [2, 2], [0.0, 0.0, 100.0, 0.0]),
        },
    ),
}


def write_model(folder, kind, config=None, weights=None, versions=("1",)):
    options, own_weights = LAYERS[kind]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    layer = {"kind": kind, **options}
    text = config if isinstance(config, str) else json.dumps({"layer": layer, **(config or {})})
    (folder / "config.json").write_text(text)
    if own_weights is None:
        return
    for version in versions:
        (folder / version).mkdir()
        content = safetensors(weights(version) if weights else own_weights)
        (folder / version / "model.safetensors").write_bytes(content)


def write_repository(root):
    root = pathlib.Path(root)
    names = {
        "score": "routing_score",
        "mha": "routing_mha",
        "proj": "routing_mha_proj",
        "speech": "speech_mha",
        "causal": "causal_mha",
        "relational": "relational_mha",
    }
    for name, kind in names.items():
        write_model(root / name, kind)
    write_model(root / "nan", "speech_mha", {"empty_rows": "nan"})
    write_model(
        root / "versions",
        "routing_mha",
        weights=lambda version: {"project_out.weight": identity(4, float(version))},
        versions=("1", "2", "10"),
    )


def converted(weights, dtype):
    return {name: (dtype, shape, numbers) for name, (_, shape, numbers) in weights.items()}


def fault_missing():
    weights = speech_weights()
    del weights["q_layer.bias"]
    return safetensors(weights)


def fault_shape():
    return safetensors({**speech_weights(), "v_layer.weight": identity(3)})


def fault_dtype():
    file = safetensors(speech_weights())
    # the same four bytes an element, called integers
    return file.replace(b'"k_layer.bias": {"dtype": "F32"', b'"k_layer.bias": {"dtype": "I32"')


def fault_overlap():
    file = safetensors(speech_weights())
    return file.replace(b'"data_offsets": [64, 80]', b'"data_offsets": [48, 64]')


def larger_file():
    """Two layers under prefixes, one with a doubled output under another name, and something else."""
    weights = speech_weights(prefix="encoder.0.")
    weights.update(speech_weights(prefix="encoder.1."))
    weights["encoder.1.doubled"] = identity(4, 2.0)
    weights["step"] = ("I64", [], [1200])
    return safetensors(weights)


FAULTS = {
    "none": lambda: safetensors(speech_weights()),
    "missing": fault_missing,
    "shape": fault_shape,
    "dtype": fault_dtype,
    "overlap": fault_overlap,
    "truncated": lambda: safetensors(speech_weights())[:-5],
    "trailing": lambda: safetensors(speech_weights()) + b"\0\0",
    "empty": lambda: b"",
    "huge-header": lambda: struct.pack("<Q", 2**63) + b"{}",
    "no-json": lambda: struct.pack("<Q", 8) + b"notjson!",
    "f16": lambda: safetensors(converted(speech_weights(), "F16")),
    "bf16": lambda: safetensors(converted(speech_weights(), "BF16")),
    "f64": lambda: safetensors(converted(speech_weights(), "F64")),
    "f64-too-large": lambda: safetensors(
        {**speech_weights(), "k_layer.bias": ("F64", [4], [0.0, 0.0, 1e300, 0.0])}
    ),
    "larger": larger_file,
}


def write_scaled(path, factor):
    path = pathlib.Path(path)
    aside = path.with_name(path.name + ".new")
    aside.write_bytes(safetensors({"project_out.weight": identity(4, float(factor))}))
    aside.replace(path)


def main(arguments):
    command, *rest = arguments
    if command == "repository":
        write_repository(rest[0])
    elif command == "layer":
        write_model(rest[0], rest[1], rest[2] if len(rest) > 2 else None)
    elif command == "weights":
        path = pathlib.Path(rest[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FAULTS[rest[1]]())
    elif command == "scaled":
        write_scaled(*rest)
    elif command == "pack":
        sys.stdout.buffer.write(pack(rest[0], [float(n) for n in rest[1:]]))
    elif command == "zeros":
        sys.stdout.buffer.write(bytes(int(rest[0])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:] or [""])
