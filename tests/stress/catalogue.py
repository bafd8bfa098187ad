"""Requests of every form, and the answers that they may get. Standard library only; zstd bodies come from the program.

Answers are taken down from a daemon that does nothing else, once with each version's first and once with its second
weights, and compared with what scaled.py works out. From then on the very bytes count: what shares a pass, a queue or a
processor with others is answered as if it were alone."""
import gzip
import json
import math
import random
import re
import struct
import subprocess
import zlib

import scaled
from talk import Talk, message

TOLERANCE = 1e-4


def draw(rng, samples, rows, width):
    return [[[rng.randint(-8, 8) / 4 for _ in range(width)] for _ in range(rows)] for _ in range(samples)]


def flat(nested):
    return sum(map(flat, nested), []) if isinstance(nested, list) else [nested]


def shape_of(nested):
    return [len(nested), *shape_of(nested[0])] if isinstance(nested, list) and nested else [0] if nested == [] else []


def pack(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def zstd(body):
    return subprocess.run(["zstd", "-q", "-c"], input=body, stdout=subprocess.PIPE, check=True).stdout


class Case:
    """A request; `lawful` has the bodies that answer it, with the (version, which weights) of each."""

    def __init__(self, name, model, route, verb, path, body, headers=(), inputs=None, refusals=(), like=None):
        self.name, self.model, self.route, self.verb, self.inputs = name, model, route, verb, inputs
        self.content = message(verb, path, body, headers)
        self.path, self.body, self.headers = path, body, headers
        self.refusals = set(refusals)
        self.like = like  # a case with the same answers; this one is not asked for its own
        self.lawful = like.lawful if like else {}

    def learn(self, reply, version, which):
        if reply.status != 200:
            raise AssertionError(f"{self.name}: {reply!r}")
        known = self.lawful.setdefault(reply.body, set())
        known.add((version, which))

    def chunked(self, rng):
        """The same in chunks."""
        lines = [f"{self.verb} {self.path} HTTP/1.1", "Host: test", "Transfer-Encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        at, pieces = 0, ["\r\n".join(lines).encode() + b"\r\n\r\n"]
        while at < len(self.body):
            n = rng.randint(1, len(self.body))
            piece = self.body[at : at + n]
            pieces.append(b"%x\r\n%s\r\n" % (len(piece), piece))
            at += n
        return b"".join(pieces) + b"0\r\n\r\n"


# ---- bodies ------------------------------------------------------------------------------------


def tensors(inputs, binary=(), nested=False):
    """`inputs` of a request and the bytes behind it; binary: names of those that go there."""
    listed, tail = [], b""
    for name, values in inputs.items():
        numbers = flat(values)
        kind = "BOOL" if name == "mask" else "INT64" if name.startswith("edge") else "FP32"
        tensor = {"name": name, "datatype": kind, "shape": shape_of(values)}
        if name in binary:
            content = bytes(map(int, numbers)) if kind == "BOOL" else pack(numbers)
            tensor["parameters"] = {"binary_data_size": len(content)}
            tail += content
        else:
            tensor["data"] = values if nested else numbers
        listed.append(tensor)
    return listed, tail


def infer_body(inputs, parameters=None, outputs=None, binary=(), nested=False):
    """(body, headers)."""
    listed, tail = tensors(inputs, binary, nested)
    request = {"id": "a-1", "inputs": listed}
    if parameters:
        request["parameters"] = parameters
    if outputs:
        request["outputs"] = outputs
    text = json.dumps(request).encode()
    headers = [("Inference-Header-Content-Length", len(text))] if tail else []
    return text + tail, headers


ID = "sequence-id-00"  # stands in the place of those that are used, which are as long


class Script:
    """A sequence: its start and its steps, as (content, {body: which weights})."""

    def __init__(self, model, version, starts, steps):
        self.model, self.version, self.steps = model, version, []
        for i, inputs in enumerate([starts, *steps]):
            parameters = {"sequence_id": ID, **({"sequence_start": True} if i == 0 else {})}
            body, headers = infer_body(inputs, parameters)
            self.steps.append((message("POST", f"/v2/models/{model}/versions/{version}/infer", body, headers), {}))
        self.place = f"/v2/models/{model}/versions/{version}/sequences/"

    def step(self, i, name):
        return self.steps[i][0].replace(ID.encode(), name.encode())

    def last(self, name):
        """The last step, which lets the sequence go."""
        content = self.step(-1, name)
        head, body = content.split(b"\r\n\r\n", 1)
        begun = body.replace(b'"sequence_id":', b'"sequence_end": true, "sequence_id":')
        return re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(begun), head) + b"\r\n\r\n" + begun

    def fork(self, name, other):
        """Begin as another sequence is, and go on with the second step."""
        head, body = self.step(1, name).split(b"\r\n\r\n", 1)
        begun = body.replace(b'"sequence_id":', b'"sequence_start": true, "sequence_fork": "%s", "sequence_id":' % other.encode())
        return re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(begun), head) + b"\r\n\r\n" + begun

    def learn(self, talk, which):
        for i, (_, lawful) in enumerate(self.steps):
            reply = talk.ask(self.step(i, ID))
            assert reply.status == 200, (self.model, i, reply)
            lawful[reply.body] = which


# ---- which requests there are ------------------------------------------------------------------


class Catalogue:
    def __init__(self):
        self.cases, self.rng = [], random.Random(1)
        for name in ("mha", "narrow", "tour", "speech", "steps"):
            self.add_forms(name)
        self.add_others()
        self.scripts = [self.script(name, version) for name in ("steps", "tour") for version in ("1", "2")]
        self.by_model = {}
        for case in self.cases:
            self.by_model.setdefault(case.model, []).append(case)

    def inputs(self, name, samples, rows, keys):
        if name in ("mha", "narrow", "fresh"):
            return {"query": draw(self.rng, samples, rows, 4), "key": draw(self.rng, samples, keys, 4),
                    "value": draw(self.rng, samples, keys, 4)}
        if name == "tour":
            return {"q": draw(self.rng, samples, rows, 4), "h": draw(self.rng, samples, keys, 4)}
        if name == "speech":
            return {"k": draw(self.rng, samples, keys, 4), "v": draw(self.rng, samples, keys, 4),
                    "q": draw(self.rng, samples, rows, 4)}
        return {"input": draw(self.rng, samples, min(rows, scaled.STEPS), 4)}

    def script(self, name, version):
        if name == "steps":
            rows = [{"input": draw(self.rng, 1, n, 4)} for n in (3, 1, 2, 1)]
        else:
            rows = [self.inputs(name, 1, 2, 5)] + [{"q": draw(self.rng, 1, 1, 4)} for _ in range(3)]
        return Script(name, version, rows[0], rows[1:])

    def add(self, form, model, body, headers=(), version=None, what="infer", **more):
        where = f"/versions/{version}" if version else ""
        pattern = f"/v2/models/{{model}}{'/versions/{version}' if version else ''}/{what}"
        refusals = more.pop("refusals", ())
        if model == "narrow":
            refusals = {*refusals, "queue_full", "timeout"}
        self.cases.append(Case(f"{model}{where} {form}", model, pattern, "POST", f"/v2/models/{model}{where}/{what}",
                               body, headers, refusals=refusals, **more))
        return self.cases[-1]

    def add_forms(self, name):
        versions = scaled.MODELS[name][1]
        masked = {"mha": "mask", "tour": "mask"}.get(name)
        for version in (None, *versions):
            small = self.inputs(name, 1, 1, 3)
            self.add("small", name, *infer_body(small), version=version, inputs=small)
            two = self.inputs(name, 2, 3, 4)
            self.add("nested", name, *infer_body(two, nested=True), version=version, inputs=two)
            both = {"binary_data_output": True}
            self.add("bytes", name, *infer_body(two, both, binary=set(two)), version=version)
            self.add("bytes out", name, *infer_body(small, both), version=version)
        first = next(iter(two))
        self.add("mixed", name, *infer_body(two, binary=[first]), inputs=two)
        if masked:
            blocked = {**two, "mask": [[[False, True, False, False]]] * 2}
            self.add("masked", name, *infer_body(blocked))
        large = self.inputs(name, 4, 24, 30)
        body, _ = infer_body(large)
        self.add("large", name, body, inputs=large)
        self.add("gzip", name, gzip.compress(body), [("Content-Encoding", "gzip")])
        self.add("deflate", name, zlib.compress(body), [("Content-Encoding", "deflate"), ("Accept-Encoding", "gzip")])
        self.add("zstd", name, zstd(body), [("Content-Encoding", "zstd"), ("Accept-Encoding", "zstd, gzip;q=0.5")])
        plain = self.add("plain", name, *infer_body(small), inputs=small)
        for level in (1, 2):
            self.add("urgent", name, *infer_body(small, {"priority": level}), like=plain)
        for us in (1, 300, 5000):
            self.add(f"{us} us", name, *infer_body(small, {"timeout": us}), like=plain, refusals=["timeout"])
        self.add_gradient(name)

    def add_gradient(self, name):
        inputs = self.inputs(name, 2, 3, 4)
        rows = len(next(iter(inputs.values()))[0]) if name != "speech" else 3
        inputs["grad_output"] = draw(self.rng, 2, rows, 4)
        for reduction in ("sum", "mean"):
            self.add(f"gradient {reduction}", name, *infer_body(inputs, {"gradient_reduction": reduction}), what="gradient")
        self.add("gradient bytes", name, *infer_body(inputs, {"binary_data_output": True}, binary=set(inputs)),
                 version="1", what="gradient")

    def add_others(self):
        for seed in (1, 2 ** 62):
            for name in ("speech", "steps"):
                inputs = self.inputs(name, 2, 3, 4)
                self.add(f"seed {seed}", name, *infer_body(inputs, {"training": True, "seed": seed}))
                self.add(f"samples of {seed}", name, *infer_body(inputs, {"training": True, "seed": seed, "samples": 5}))
        rows = draw(self.rng, 1, 5, 4)
        self.add("raw", "steps", pack(flat(rows)), [("Inference-Header-Content-Length", 0)])
        graph = {"queries": [draw(self.rng, 1, 2, 2)[0] and [[[1.0, 0.5]], [[0.0, 1.0]]]], "keys": [[[[1.0, 0.0]], [[0.5, 2.0]]]],
                 "values": [[[[1.0, 2.0]], [[3.0, 4.0]]]], "edges": [[0, 0, 1], [0, 1, 0]], "edge_types": [0, 1]}
        self.add("edges", "graph", *infer_body(graph))
        score = {"query": draw(self.rng, 2, 2, 3), "key": draw(self.rng, 2, 4, 3)}
        self.add("scores", "score", *infer_body(score))
        fresh = self.inputs("fresh", 1, 2, 3)
        self.add("small", "fresh", *infer_body(fresh), inputs=fresh)
        for name, values in (("mha", self.inputs("mha", 2, 1, 3)), ("steps", self.inputs("steps", 2, 3, 0))):
            only = next(iter(values.values()))
            samples = only if len(values) == 1 else [{n: t[i] for n, t in values.items()} for i in range(2)]
            self.cases.append(Case(f"{name} instances", name, "/v1/models/{model}:predict", "POST",
                                   f"/v1/models/{name}:predict", json.dumps({"instances": samples}).encode()))

    # ---- their answers ------------------------------------------------------------------------

    def learn(self, port, repository):
        """Take the answers down from a daemon in mode explicit that nobody else asks."""
        with Talk(port) as talk:
            for which in (0, 1):
                for name, (_, versions, _, _) in scaled.MODELS.items():
                    for version in versions:
                        repository.scale(name, version, which)
                    reply = talk.ask(message("POST", f"/v2/repository/models/{name}/load", b""))
                    assert reply.status == 200, (name, reply)
                for case in self.cases:
                    if case.like:
                        continue
                    version = served(case)
                    reply = talk.ask(case.content)
                    case.learn(reply, version, which)
                    check(case, reply, version, which)
                for script in self.scripts:
                    script.learn(talk, which)
        if any(len(case.lawful) != 2 for case in self.cases if case.model != "score"):
            raise AssertionError("other weights gave the same answer")


def served(case):
    """The version that answers a case while all are loaded."""
    if "/versions/" in case.path:
        return case.path.split("/versions/")[1].split("/")[0]
    return (scaled.MODELS[case.model][1] or ("1",))[-1]


def check(case, reply, version, which):
    """Is it what the layer should give?"""
    if not case.inputs:
        return
    wanted = scaled.expected(case.model, scaled.FACTORS[version][which], case.inputs)
    if wanted is None:
        return
    answer = json.loads(reply.body)
    assert answer["model_version"] == version, answer
    numbers = answer["outputs"][0]["data"]
    close = len(numbers) == len(wanted) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in zip(numbers, wanted))
    assert close, f"{case.name}: {numbers[:8]}, expected {wanted[:8]}"
