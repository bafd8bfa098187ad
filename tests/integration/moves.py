#!/usr/bin/env python3
"""Sequences that go from one daemon to another: moves.py FROM-PORT TO-PORT. Exit status 0 when each step there has the
very bytes of the same step of the sequence that stayed."""
import gzip
import http.client
import json
import math
import random
import struct
import sys
import urllib.parse

PORTS = [int(port) for port in sys.argv[1:3]]
IDS = ["7", "tour 7", "a/b", "..", "ü?&#%\n\"", "sequences", "\x7f"]


def fail(*what):
    sys.exit(" ".join(str(part)[:300] for part in what))


class Daemon:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, verb, path, body=None, headers=None):
        self.connection.request(verb, path, body, headers or {})
        answer = self.connection.getresponse()
        return answer, answer.read()

    def step(self, model, tensors, **parameters):
        """The bytes of the first output."""
        inputs, tail = [], b""
        for name, (shape, data) in tensors.items():
            content = struct.pack("<%df" % len(data), *data)
            inputs.append({"name": name, "datatype": "FP32", "shape": shape,
                           "parameters": {"binary_data_size": len(content)}})
            tail += content
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True, **parameters}}).encode()
        answer, content = self.ask("POST", "/v2/models/%s/infer" % model, head + tail,
                                   {"Inference-Header-Content-Length": str(len(head))})
        if answer.status != 200:
            fail(model, parameters, answer.status, content)
        return content[int(answer.headers["Inference-Header-Content-Length"]):]


def path_of(model, sequence):
    return "/v2/models/%s/sequences/%s" % (model, urllib.parse.quote(sequence, safe=""))


def read_file(content):
    """Metadata and {name: (shape, bytes)} of a safetensors file."""
    n = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + n])
    about = header.pop("__metadata__")
    if (8 + n) % 8 or any(t["dtype"] != "F32" for t in header.values()):
        fail("a file of another form", header)
    data = content[8 + n :]
    tensors = {name: (t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}
    for name, (shape, values) in tensors.items():
        if len(values) != 4 * math.prod(shape):
            fail(name, shape, len(values))
    return about, tensors


def move(daemons, model, sequence, number, packed):
    """Export and import; what the file says."""
    path = path_of(model, sequence)
    answer, content = daemons[0].ask("GET", path, headers={"Accept-Encoding": "gzip"} if packed else {})
    if answer.status != 200 or answer.headers["Content-Type"] != "application/octet-stream":
        fail(path, answer.status, content)
    if answer.headers.get("Content-Encoding") == "gzip":
        content = gzip.decompress(content)
    about, tensors = read_file(content)
    if about["model"] != model or about["positions"] != str(number) or tensors["key"][0][-2] != number:
        fail(path, about, {name: shape for name, (shape, _) in tensors.items()})
    body, headers = (gzip.compress(content), {"Content-Encoding": "gzip"}) if packed else (content, {})
    answer, said = daemons[1].ask("POST", path, body, headers)
    if answer.status != 200 or answer.headers["Content-Type"] != "application/json":
        fail(path, answer.status, said)
    said = json.loads(said)
    if said["id"] != sequence or said["length"] != number or said["bytes"] < len(content) // 64:
        fail(path, said)
    return answer, about


def compare(what, daemons, model, tensors, **parameters):
    got = [daemon.step(model, tensors, **parameters) for daemon in daemons]
    if got[0] != got[1] or not got[0]:
        fail(what, "differs from what stayed")


def draw(*shape):
    return list(shape), [random.uniform(-1, 1) for _ in range(math.prod(shape))]


def grow(daemons, model, width, batch, first, sequence, packed):
    daemons[0].step(model, {"input": draw(batch, first, width)}, sequence_id=sequence, sequence_start=True)
    _, about = move(daemons, model, sequence, first, packed)
    if about["kind"] != "grows":
        fail(model, about)
    for n in (1, 2, 1):
        compare((model, sequence, first, n), daemons, model, {"input": draw(batch, n, width)}, sequence_id=sequence)
    # and back, over what is there, under the same id
    move(daemons[::-1], model, sequence, first + 4, not packed)
    compare((model, "back"), daemons, model, {"input": draw(batch, 3, width)}, sequence_id=sequence)
    compare((model, "a fork"), daemons, model, {"input": draw(batch, 1, width)}, sequence_id="fork",
            sequence_start=True, sequence_fork=sequence, sequence_end=True)
    compare((model, "end"), daemons, model, {"input": draw(batch, 1, width)}, sequence_id=sequence, sequence_end=True)


def stay(daemons, model, first, later, number):
    daemons[0].step(model, first, sequence_id=1, sequence_start=True)
    _, about = move(daemons, model, "1", number, False)
    if about["kind"] != "stays":
        fail(model, about)
    for _ in range(2):
        compare((model, "later"), daemons, model, later(), sequence_id=1)


def zeros(daemons):
    """Floats that shrink go out packed."""
    daemons[0].step("proj", {"q": ([1, 90, 32], [0] * 90 * 32)}, sequence_id=3, sequence_start=True)
    answer, content = daemons[0].ask("GET", path_of("proj", "3"), headers={"Accept-Encoding": "gzip"})
    if answer.headers.get("Content-Encoding") != "gzip" or read_file(gzip.decompress(content))[0]["positions"] != "90":
        fail("not packed", answer.headers)


def main():
    random.seed(1)
    daemons = [Daemon(port) for port in PORTS]
    for index, first in enumerate((1, 3, 63, 64, 65, 127, 130)):
        grow(daemons, "causal", 32, 1 + index % 3, first, IDS[index], index % 2 == 1)
    grow(daemons, "batchnorm", 16, 2, 21, "9", True)
    stay(daemons, "proj", {"q": draw(2, 3, 32), "h": draw(2, 70, 32)}, lambda: {"q": draw(2, 2, 32)}, 70)
    stay(daemons, "proj", {"q": draw(1, 5, 32)}, lambda: {"q": draw(1, 1, 32)}, 5)
    stay(daemons, "given", {"query": draw(3, 1, 20), "key": draw(1, 9, 20), "value": draw(3, 9, 32)},
         lambda: {"query": draw(3, 4, 20)}, 9)
    stay(daemons, "score", {"query": draw(2, 1, 5), "key": draw(3, 2, 7, 5)}, lambda: {"query": draw(1, 4, 5)}, 7)
    stay(daemons, "speech", {"q": draw(2, 1, 32), "k": draw(2, 11, 32), "v": draw(2, 11, 32)},
         lambda: {"q": draw(2, 3, 32)}, 11)
    stay(daemons, "relation", {"queries": draw(2, 1, 2, 4), "keys": draw(2, 6, 2, 4), "values": draw(2, 6, 2, 4)},
         lambda: {"queries": draw(2, 2, 2, 4)}, 6)
    zeros(daemons)


main()
