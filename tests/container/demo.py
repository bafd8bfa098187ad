#!/usr/bin/env python3
"""Ask every model that a daemon serves for the same numbers each time: demo.py PORT FILE

Writes the answers to FILE, in the order of the models' names. Inputs come from the models' own
description and a fixed seed, so that two daemons with the same models must write the same bytes.
"""
import http.client
import json
import math
import random
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
    connection.request(verb, path, json.dumps(content) if content is not None else None)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit("%s: %d %s" % (path, answer.status, body[:300].decode()))
    return body


def main():
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
    index = json.loads(ask(connection, "POST", "/v2/repository/index", {}))
    names = sorted(model["name"] for model in index)
    if not names:
        sys.exit("no models")
    with open(sys.argv[2], "wb") as file:
        for name in names:
            about = json.loads(ask(connection, "GET", "/v2/models/" + name))
            file.write(ask(connection, "POST", "/v2/models/%s/infer" % name, request(about)) + b"\n")


main()
