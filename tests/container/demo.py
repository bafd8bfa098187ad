#!/usr/bin/env python3
"""Ask every model that a daemon serves for the same numbers each time: demo.py PORT FILE [OTHER]

Writes the answers to FILE, every bit of them, in the order of the models' names. Inputs come from the
models' own description and a fixed seed, so that two daemons with the same models and kernels must write
the same file. With OTHER, a file of another daemon's, the numbers must be close to those in it.
"""
import http.client
import json
import math
import random
import struct
import sys

BATCH, LENGTH = 2, 4  # for the dimensions that a model leaves open


def values(datatype, count, draw):
    if datatype == "BOOL":
        return [draw.random() < 0.2 for _ in range(count)]
    if datatype == "INT64":
        return [draw.randrange(BATCH) for _ in range(count)]
    return [round(draw.uniform(-1, 1), 4) for _ in range(count)]


def request(about):
    draw = random.Random(about["name"])
    inputs = []
    for port in about["inputs"]:
        first, *rest = port["shape"]
        shape = [BATCH if first < 0 else first] + [LENGTH if n < 0 else n for n in rest]
        data = values(port["datatype"], math.prod(shape), draw)
        inputs.append({"name": port["name"], "datatype": port["datatype"], "shape": shape, "data": data})
    return {"inputs": inputs, "parameters": {"binary_data_output": True}}


def ask(connection, verb, path, content=None):
    """What comes before the bytes of tensors, and these."""
    connection.request(verb, path, json.dumps(content) if content is not None else None)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit("%s: %d %s" % (path, answer.status, body[:300].decode()))
    n = int(answer.headers.get("Inference-Header-Content-Length", len(body)))
    return json.loads(body[:n]), body[n:]


def lines(connection):
    index, _ = ask(connection, "POST", "/v2/repository/index", {})
    for name in sorted(model["name"] for model in index):
        about, _ = ask(connection, "GET", "/v2/models/" + name)
        head, tail = ask(connection, "POST", "/v2/models/%s/infer" % name, request(about))
        for output in head["outputs"]:
            n = output["parameters"]["binary_data_size"]
            numbers = struct.unpack("<%df" % (n // 4), tail[:n])
            tail = tail[n:]
            yield " ".join([name, output["name"], str(output["shape"]), *map(float.hex, numbers)])


def is_close(a, b):
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5)


def compare(got, other):
    """As texts they may differ, as numbers hardly."""
    for ours, theirs in zip(got, other, strict=True):
        for a, b in zip(ours.split(), theirs.split(), strict=True):
            if a != b and not ("0x" in a + b and is_close(float.fromhex(a), float.fromhex(b))):
                sys.exit("%s: %s, expected %s" % (ours.split()[:2], a, b))


def main():
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    got = list(lines(connection))
    if not got:
        sys.exit("no models")
    with open(sys.argv[2], "w", encoding="ascii") as file:
        file.write("\n".join(got) + "\n")
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="ascii") as file:
            compare(got, file.read().splitlines())


main()
