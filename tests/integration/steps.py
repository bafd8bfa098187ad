#!/usr/bin/env python3
"""Sequences against the same requests without one: steps.py PORT WHAT. Exit status 0 when they agree.

grow MODEL LENGTH WIDTH   the rows of a full forward, position by position, in steps of any size, in several samples
fork MODEL LENGTH WIDTH   sequences that part from each other, each against its own full forward
fixed                     models with a context that stays: each step against resending the context
turns MODEL WIDTH         many clients with a sequence each, who take turns on the same model
"""
import http.client
import json
import math
import random
import struct
import sys
import threading

PORT = int(sys.argv[1])


class Model:
    """One connection to one model."""

    def __init__(self, name):
        self.path = "/v2/models/%s/infer" % name
        self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)

    def ask(self, tensors, header=None, **parameters):
        """The first output of an answer, as bytes; tensors: {name: (shape, numbers or None)}."""
        inputs, tail = [], b""
        for name, (shape, data) in tensors.items():
            kind = "BOOL" if "mask" in name else "INT64" if "edge" in name else "FP32"
            content = struct.pack("<%d%s" % (len(data), {"BOOL": "?", "INT64": "q", "FP32": "f"}[kind]), *data)
            sized = {"binary_data_size": len(content)}
            inputs.append({"name": name, "datatype": kind, "shape": shape, "parameters": sized})
            tail += content
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True, **parameters}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), **(header or {})}
        self.connection.request("POST", self.path, head + tail, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            sys.exit("%s %s: %d %s" % (self.path, parameters, answer.status, content[:300].decode()))
        n = int(answer.headers.get("Inference-Header-Content-Length", len(content)))
        return struct.unpack("<%df" % ((len(content) - n) // 4), content[n:])


def draw(*shape):
    return list(shape), [random.uniform(-1, 1) for _ in range(math.prod(shape))]


def compare(what, got, want):
    same = len(got) == len(want) and all(math.isclose(a, b, rel_tol=2e-4, abs_tol=2e-5) for a, b in zip(got, want))
    if not same:
        sys.exit("%s: %s, expected %s" % (what, got[:6], want[:6]))


def rows(flat, batch, length, width, first, past):
    """Positions first to past of each sample."""
    return [x for b in range(batch) for x in flat[(b * length + first) * width : (b * length + past) * width]]


def step_sizes(length):
    while length > 0:
        n = min(length, random.choice((1, 1, 1, 2, 3, 7, 16)))
        yield n
        length -= n


def grow(name, length, width):
    model = Model(name)
    for batch, number in ((1, 7), (3, "a b c"), (1, "ünïcode")):
        _, numbers = draw(batch, length, width)
        full = model.ask({"input": ([batch, length, width], numbers)})
        done = 0
        for n in step_sizes(length):
            part = rows(numbers, batch, length, width, done, done + n)
            got = model.ask({"input": ([batch, n, width], part)}, sequence_id=number, sequence_start=done == 0)
            compare("positions from %d" % done, got, rows(full, batch, length, width, done, done + n))
            done += n


def fork(name, length, width):
    model = Model(name)
    half = length // 2
    _, shared = draw(1, half, width)
    model.ask({"input": ([1, half, width], shared)}, sequence_id="trunk", sequence_start=True)
    tails, fulls = {}, {}
    for branch in ("one", "two", "three", "trunk"):
        _, tails[branch] = draw(1, length - half, width)
        fulls[branch] = model.ask({"input": ([1, length, width], shared + tails[branch])})

    def go(branch, at, **start):
        token = tails[branch][at * width : (at + 1) * width]
        got = model.ask({"input": ([1, 1, width], token)}, sequence_id=branch, **start)
        compare("%s at %d" % (branch, half + at), got, fulls[branch][(half + at) * width : (half + at + 1) * width])

    # two part from the trunk, one of them is parted from in turn, and the trunk goes on
    for branch in ("one", "two"):
        go(branch, 0, sequence_start=True, sequence_fork="trunk")
    fulls["three"] = model.ask({"input": ([1, length, width], shared + tails["two"][:width] + tails["three"][width:])})
    go("three", 1, sequence_start=True, sequence_fork="two")
    done = {"one": 1, "two": 1, "three": 2, "trunk": 0}
    while any(n < length - half for n in done.values()):
        branch = random.choice([b for b, n in done.items() if n < length - half])
        go(branch, done[branch])
        done[branch] += 1


def mask(*shape):
    return list(shape), [random.random() < 0.6 for _ in range(math.prod(shape))]


def edges(batch, queries, keys):
    n = 2 * queries
    ends = [[random.randrange(batch), random.randrange(queries), random.randrange(keys)] for _ in range(n)]
    return {"edges": ([n, 3], sum(ends, [])), "edge_types": ([n], [random.randrange(3) for _ in range(n)])}


# model -> the tensors of its context, and those that every request brings; of a batch, so many queries and keys
CONTEXTS = {
    "proj": (
        lambda b, k: {"h": draw(b, k, 32)},
        lambda b, q, k: {"q": draw(b, q, 32), "mask": mask(b, 1, k)},
    ),
    "given": (
        lambda b, k: {"key": draw(b, k, 32), "value": draw(b, k, 32)},
        lambda b, q, k: {"query": draw(b, q, 32), "mask": mask(b, q, k)},
    ),
    "score": (
        lambda b, k: {"key": draw(b, k, 8)},
        lambda b, q, k: {"query": draw(b, q, 8)},
    ),
    "speech": (
        lambda b, k: {"k": draw(b, k, 32), "v": draw(b, k, 32)},
        lambda b, q, k: {"q": draw(b, q, 32), "mask": mask(b, 1, k)},
    ),
    "relation": (
        lambda b, k: {"keys": draw(b, k, 2, 4), "values": draw(b, k, 2, 4)},
        lambda b, q, k: {"queries": draw(b, q, 2, 4), **edges(b, q, k)},
    ),
}


def fixed():
    for name, (context, query) in CONTEXTS.items():
        model = Model(name)
        for batch, n_keys in ((1, 5), (3, 70)):
            kept = context(batch, n_keys)
            identity = 1000 + n_keys
            for step in range(8):
                asked = query(batch, random.choice((1, 1, 2, 5)), n_keys)
                sent = {**kept, **asked} if step == 0 else asked
                marks = {"sequence_start": step == 0, "sequence_end": step == 7}
                got = model.ask(sent, {"X-Sequence-Id": str(identity)}, sequence_id=identity, **marks)
                compare("%s, step %d" % (name, step), got, model.ask({**kept, **asked}))


def turns(name, width):
    faults = []

    def client(number):
        try:
            grow_one(Model(name), "client %d" % number, random.Random(number))
        except SystemExit as reason:
            faults.append(reason.code)

    def grow_one(model, number, chance):
        length = 24
        numbers = [chance.uniform(-1, 1) for _ in range(length * width)]
        full = model.ask({"input": ([1, length, width], numbers)})
        for at in range(length):
            token = numbers[at * width : (at + 1) * width]
            got = model.ask({"input": ([1, 1, width], token)}, sequence_id=number, sequence_start=at == 0, sequence_end=at == length - 1)
            compare("%s at %d" % (number, at), got, full[at * width : (at + 1) * width])

    threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        sys.exit(faults[0])


random.seed(5)
arguments = sys.argv[3:]
{"grow": grow, "fork": fork, "fixed": fixed, "turns": turns}[sys.argv[2]](*arguments[:1], *map(int, arguments[1:]))
