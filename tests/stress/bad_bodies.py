"""Faults in bodies of requests that compute: in their JSON, their bytes, their packing. Standard library only.

A fault is a function of a generator that gives a Bad: the request, the statuses that are right, and what the text of the
error must name. Where chance decides whether anything is wrong at all, as with bytes that are changed at random, the
right answer is worked out from the body itself (see `meant`)."""
import copy
import gzip
import json
import math
import struct
import zlib

import scaled
from talk import message

HUGE = (1 << 62, (1 << 63) - 1, 1 << 63, 10 ** 30)
OUTPUT = {"mha": "out", "tour": "out", "speech": "output", "steps": "output", "graph": "output", "score": "logits"}
FAULTS = []


class Bad:
    """kind: a row of the table; words: texts that the error must have; ends: the connection may end with it;
    meant: the JSON as it was sent, from which the answer is worked out; keyless: it is sent without a good key."""

    __slots__ = ("kind", "content", "statuses", "words", "ends", "meant", "keyless")

    def __init__(self, content, statuses=(400,), words=(), ends=False, meant=None):
        self.content, self.statuses, self.words, self.ends, self.meant = content, statuses, words, ends, meant
        self.kind, self.keyless = "", False


def fault(kind, weight=1):
    def keep(function):
        FAULTS.append((kind, weight, function))
        return function
    return keep


# ---- a request that is right --------------------------------------------------------------------


def tensor(rng, name, datatype, *shape):
    n = math.prod(shape)
    numbers = [rng.random() < 0.3 for _ in range(n)] if datatype == "BOOL" else [rng.randint(-8, 8) / 4 for _ in range(n)]
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": numbers}


def inputs_of(rng, model):
    rows, keys = rng.randint(1, 3), rng.randint(1, 4)

    def floats(name, n, *more):
        return tensor(rng, name, "FP32", 1, n, *(more or (4,)))

    if model == "mha":
        found = [floats("query", rows), floats("key", keys), floats("value", keys)]
        return found + ([tensor(rng, "mask", "BOOL", 1, 1, keys)] if rng.random() < 0.3 else [])
    if model == "tour":
        return [floats("q", rows), floats("h", keys)]
    if model == "speech":
        return [floats("k", keys), floats("v", keys), floats("q", rows)]
    if model == "steps":
        return [floats("input", rows)]
    if model == "score":
        return [floats("query", rows), floats("key", keys)]
    found = [floats("queries", rows, 1, 2), floats("keys", keys, 1, 2), floats("values", keys, 1, 2)]
    edges = [[0, rng.randrange(rows), rng.randrange(keys)] for _ in range(2)]
    return found + [{"name": "edges", "datatype": "INT64", "shape": [2, 3], "data": sum(edges, [])},
                    {"name": "edge_types", "datatype": "INT64", "shape": [2], "data": [0, 1]}]


class Request:
    """A right one; faults change its parts before it is written."""

    def __init__(self, rng, model=None, what=None):
        self.model = model or rng.choice(("mha", "mha", "tour", "speech", "steps", "graph", "score"))
        self.what = what or rng.choice(("infer", "infer", "infer", "gradient"))
        self.json = {"inputs": inputs_of(rng, self.model)}
        if self.what == "gradient":
            self.json["inputs"].append(self.gradient(rng))
        if rng.random() < 0.3:
            self.json["id"] = "bad-1"
        version = "/versions/1" if rng.random() < 0.2 else ""
        self.path = f"/v2/models/{self.model}{version}/{self.what}"

    def gradient(self, rng):
        shapes = {one["name"]: one["shape"] for one in self.json["inputs"]}
        first = next(iter(shapes.values()))
        if self.model == "graph":
            return tensor(rng, "grad_output", "FP32", 1, first[1], 2)
        if self.model == "score":
            return tensor(rng, "grad_output", "FP32", 1, first[1], shapes["key"][1])
        return tensor(rng, "grad_output", "FP32", 1, shapes["q"][1] if self.model == "speech" else first[1], 4)

    def pick(self, rng):
        return rng.choice(self.json["inputs"])

    def text(self):
        return json.dumps(self.json).encode()

    def send(self, body=None, headers=()):
        return message("POST", self.path, self.text() if body is None else body, headers)

    def bad(self, *words, statuses=(400,), body=None, headers=()):
        return Bad(self.send(body, headers), statuses, words)


def other_kinds(rng, but):
    """A JSON value of another kind than these."""
    values = {"object": {"x": 1}, "list": [[]], "string": "x", "integer": 3, "real": 1.5, "true": True, "null": None}
    return values[rng.choice([kind for kind in values if kind not in but])]


def with_text(text, old, new):
    assert old in text, (old, text)
    return text.replace(old, new, 1)


# ---- JSON as such -------------------------------------------------------------------------------


@fault("json: no JSON")
def no_json(rng):
    junk = rng.choice((b"", b"   ", b"hello", b"{", b"[", b'"', b"{'inputs': []}", b"\0", b"\xff\xfe", b"[" * rng.randint(1, 5000),
                       rng.randbytes(rng.randint(1, 300)).replace(b"{", b"x")))
    return Request(rng).bad(body=junk)


@fault("json: no object")
def no_object(rng):
    return Request(rng).bad("object", body=json.dumps(other_kinds(rng, ("object",))).encode())


@fault("json: cut off", 3)
def cut_off(rng):
    request = Request(rng)
    text = request.text()
    return request.bad(body=text[: rng.randrange(len(text))])


@fault("json: something behind it")
def behind(rng):
    request = Request(rng)
    return request.bad(body=request.text() + rng.choice((b"}", b"]", b"x", b"\0", b" {}", b",", request.text())))


@fault("json: broken strings")
def strings(rng):
    request = Request(rng)
    word = rng.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\\x", b"\\ud800", b"a\tb", b"a\nb", b"\\u12", b"\xe2\x82"))
    return request.bad(body=b'{"id": "' + word + b'", ' + request.text()[1:])


@fault("json: a byte dropped, changed or put in", 12)
def random_bytes(rng):
    request = Request(rng, rng.choice(("mha", "tour", "speech", "steps")), "infer")
    text = bytearray(request.text())
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, how = rng.randrange(len(text)), rng.randrange(4)
        if how == 0:
            del text[at]
        elif how == 1:
            text[at] = rng.randrange(256)
        elif how == 2:
            text[at] = rng.choice(b'0123456789-+.eE[]{}",: \\truefalsn')
        else:
            text.insert(at, rng.choice(b'0123456789-+.eE[]{}",: \\'))
    version = "1" if "/versions/" in request.path or len(scaled.MODELS[request.model][1]) == 1 else "2"
    return Bad(request.send(bytes(text)), (200, 400, 413, 422), meant=(request.model, version, bytes(text)))


NAMES = {"mha": {"query", "key", "value"}, "tour": {"q", "h"}, "speech": {"k", "v", "q"}, "steps": {"input"}}
OPTIONAL = {"mha": {"mask"}, "tour": {"h", "mask"}, "speech": {"mask"}, "steps": set()}
LARGEST = 3.4028235677973366e38  # what rounds to infinity is too large for a float


def meant(model, version, text):
    """The numbers that a changed request should be answered with; ValueError and the like: it has no right to an answer;
    None: not worked out here."""
    said = json.loads(text.decode(), object_pairs_hook=once, parse_constant=no_constant)
    if said.get("parameters") or "outputs" in said or not isinstance(said.get("id", ""), (str, type(None))):
        return None
    inputs = {}
    for one in said["inputs"]:
        if "parameters" in one:
            return None
        name = one["name"]
        if name in inputs or name not in NAMES[model] | OPTIONAL[model]:
            raise ValueError("an input that is none, or twice")
        if name == "mask" or one["datatype"] in ("FP64", "INT32", "INT64", "FP16", "BF16"):
            return None
        inputs[name] = rows(one["datatype"], one["shape"], flatten(one["data"]))
    if not NAMES[model] - OPTIONAL[model] <= set(inputs):
        raise ValueError("an input is missing")
    n = max(map(len, inputs.values()))  # one sample does for all of the others
    if any(len(samples) not in (1, n) for samples in inputs.values()):
        raise ValueError("another number of samples")
    if any(len(samples[0]) == 0 or len(samples[0][0]) != 4 for samples in inputs.values()):
        return None  # widths and rows that are none: the layer may take them
    if any(abs(number) > 1e18 for samples in inputs.values() for number in sum(sum(samples, []), [])):
        return None  # a product of two may be infinite, and the answer NaN
    inputs = {name: samples * (n if len(samples) == 1 else 1) for name, samples in inputs.items()}
    return scaled.expected(model, scaled.FACTORS[version][0], inputs)


def once(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a member twice")
    return dict(pairs)


def no_constant(word):
    raise ValueError(word)


def flatten(data):
    return sum(map(flatten, data), []) if isinstance(data, list) else [data]


def rows(datatype, shape, numbers):
    """Flat numbers as [batch][row][column]."""
    if datatype != "FP32" or any(type(n) is not int for n in shape) or any(type(n) not in (int, float) for n in numbers):
        raise ValueError("another kind")
    batch, n, width = shape
    if min(shape) < 0 or len(numbers) != batch * n * width:
        raise ValueError("a shape that its data do not fill")
    if any(not abs(number) < LARGEST for number in numbers):
        raise ValueError("too large for a float")
    return [[numbers[(b * n + i) * width : (b * n + i + 1) * width] for i in range(n)] for b in range(batch)]


# ---- members ------------------------------------------------------------------------------------


@fault("member: of the request, wrong kind", 2)
def request_member(rng):
    request = Request(rng)
    name, kinds = rng.choice((("inputs", ("list",)), ("outputs", ("list", "null")), ("parameters", ("object", "null")), ("id", ("string", "null"))))
    request.json[name] = other_kinds(rng, kinds)
    return request.bad(name)


@fault("member: no inputs")
def no_inputs(rng):
    request = Request(rng)
    request.json = rng.choice(({}, {"id": "x"}, {"inputs": None}, {"input": request.json["inputs"]}))
    return request.bad("inputs")


@fault("member: of an input, missing", 2)
def input_member_missing(rng):
    request = Request(rng)
    victim, name = request.pick(rng), rng.choice(("name", "datatype", "shape", "data"))
    del victim[name]
    return request.bad(*([name] if name == "name" else [victim["name"]]))


@fault("member: of an input, wrong kind", 2)
def input_member_kind(rng):
    request = Request(rng)
    victim, name = request.pick(rng), rng.choice(("name", "datatype", "shape", "data", "parameters"))
    known = victim["name"]
    kinds = {"name": ("string",), "datatype": ("string",), "shape": ("list",), "data": ("list",), "parameters": ("object", "null")}
    victim[name] = other_kinds(rng, kinds[name])
    if name == "parameters":
        return request.bad("parameters")
    return request.bad(*(["name"] if name == "name" else [known]))


@fault("member: an input that is no object")
def no_input(rng):
    request = Request(rng)
    request.json["inputs"][rng.randrange(len(request.json["inputs"]))] = other_kinds(rng, ("object",))
    return request.bad("inputs[")


@fault("member: given twice")
def twice(rng):
    request = Request(rng)
    name = rng.choice(("inputs", "name", "datatype", "shape", "data"))
    text = request.text()
    value = {"inputs": b"[]", "name": b'"x"', "datatype": b'"FP32"', "shape": b"[1]", "data": b"[1]"}[name]
    return request.bad(body=with_text(text, b'"%s":' % name.encode(), b'"%s": %s, "%s":' % (name.encode(), value, name.encode())))


@fault("input: missing, another, or twice", 2)
def input_set(rng):
    request = Request(rng, rng.choice(("mha", "speech", "score", "graph")))
    inputs, how = request.json["inputs"], rng.randrange(4)
    if how == 0:  # the first three are required of these (two of score)
        victim = inputs.pop(rng.randrange(2))
        return request.bad(victim["name"])
    if how == 1:
        inputs.append({**copy.deepcopy(inputs[0]), "name": "stranger"})
        return request.bad("stranger")
    if how == 2:
        inputs.insert(rng.randrange(len(inputs)), copy.deepcopy(inputs[0]))
        return request.bad(inputs[0]["name"])
    inputs[0]["name"] = rng.choice((inputs[0]["name"].upper(), inputs[0]["name"] + " ", "", "n" * 5000))
    return request.bad()


# ---- tensors ------------------------------------------------------------------------------------


@fault("datatype: another, or none", 2)
def datatype(rng):
    request = Request(rng)
    victim = request.pick(rng)
    wrong = {"FP32": ("BOOL", "INT64", "INT32"), "BOOL": ("FP32", "INT64", "UINT8"), "INT64": ("FP32", "BOOL", "UINT64")}
    victim["datatype"] = rng.choice((*wrong[victim["datatype"]], "BYTES", "fp32", "", "FP31", "F" * 500))
    return request.bad(victim["name"])


@fault("shape: a bad dimension", 3)
def dimension(rng):
    request = Request(rng)
    victim = request.pick(rng)
    bad = rng.choice((-1, -(1 << 63), 1.5, "4", None, True, [], {}, *HUGE, 1e30))
    victim["shape"][rng.randrange(len(victim["shape"]))] = bad
    at_syntax = isinstance(bad, int) and bad >= 1 << 63  # then the place is told by its path
    return request.bad(*([] if at_syntax else [victim["name"]]))


@fault("shape: another rank")
def rank(rng):
    request = Request(rng, rng.choice(("mha", "tour", "speech", "steps", "graph")))  # scores may have heads or none
    victim = request.pick(rng)
    shape = victim["shape"]
    choices = [shape + [1], [1] + shape, [], [1] * 20 + shape]
    if victim["name"] == "mask":
        choices = [[1] * 20 + shape]  # fewer dimensions are spread over those that it lacks
    victim["shape"] = rng.choice(choices)
    return request.bad(victim["name"])


@fault("shape: not what the data fill", 2)
def unfilled(rng):
    request = Request(rng)
    victim = request.pick(rng)
    victim["shape"][rng.randrange(len(victim["shape"]))] += rng.randint(1, 3)
    return request.bad(victim["name"])


@fault("shape: does not fit the layer", 2)
def unfit(rng):
    request = Request(rng, rng.choice(("mha", "tour", "speech", "steps")))
    first, second = request.json["inputs"][0], request.json["inputs"][1 if request.model != "steps" else 0]
    if request.model != "steps" and rng.random() < 0.5:
        first["shape"][0], second["shape"][0] = 2, 3  # one of them alone would do for all samples
    else:
        second["shape"][2] += rng.randint(1, 3)
    for one in (first, second):
        one["data"] = [0.5] * math.prod(one["shape"])
    return request.bad()


@fault("data: too few or too many", 2)
def amount(rng):
    request = Request(rng)
    victim = request.pick(rng)
    n = rng.choice((-1, 1, 2, 100))
    victim["data"] = victim["data"][:n] if n < 0 else victim["data"] + [victim["data"][0]] * n
    return request.bad(victim["name"])


@fault("data: nested otherwise than its shape")
def nested(rng):
    request = Request(rng)
    victim = request.pick(rng)
    data = victim["data"]
    victim["data"] = rng.choice(([data, data], [[data]] if len(victim["shape"]) != 2 and victim["shape"][0] != 1 else [data, 1],
                                 [data[0], [data[0]]], [[], data]))
    return request.bad(victim["name"])


@fault("data: no number", 5)
def no_number(rng):
    request = Request(rng)
    victim = request.pick(rng)
    mark = 987654
    victim["data"][rng.randrange(len(victim["data"]))] = mark
    word = rng.choice(("NaN", "Infinity", "-Infinity", "nan", "1e39", "-3.5e38", "1e999999999999", "0x10", "01", "+1", ".5", "1.", "1e",
                       "1.2.3", "-", "1_0", "null", '"1"', "{}", "0 0", "", ",", "1e+", "--1", "tru", "truee", "''", "9" * 400))
    if victim["datatype"] == "FP32" and rng.random() < 0.2:
        word = "true"
    return request.bad(victim["name"], body=with_text(request.text(), b"987654", word.encode()))


@fault("data: a number that is no index")
def no_index(rng):
    request = Request(rng, "graph")
    victim = request.json["inputs"][rng.choice((3, 4))]
    victim["data"][rng.randrange(len(victim["data"]))] = rng.choice((-1, 99, (1 << 63) - 1, 1 << 63, -(1 << 63), 1.5))
    return request.bad(victim["name"])


# ---- parameters and outputs ---------------------------------------------------------------------

# name: kinds that it takes, values that it does not
PARAMETERS = {
    "binary_data_output": (("true",), ()),
    "nonfinite": (("string",), ("", "zero", "Error", "n" * 2000)),
    "training": (("true",), ()),
    "samples": (("integer",), (0, -1, 1025, 1 << 62)),
    "seed": (("integer",), (-1, -(1 << 63))),
    "gradient_reduction": (("string",), ("", "max", "Mean")),
    "timeout": (("integer",), (-1, -(1 << 63))),
    "priority": (("integer",), (-1,)),
    "sequence_id": (("integer", "string"), (-1, "n" * 257, "a\0b")),
    "sequence_fork": (("integer", "string"), (-1, "n" * 257)),
    "sequence_start": (("true",), ()),
    "sequence_end": (("true",), ()),
}


@fault("parameter: wrong kind", 3)
def parameter_kind(rng):
    request = Request(rng)
    name = rng.choice(list(PARAMETERS))
    request.json["parameters"] = {name: other_kinds(rng, PARAMETERS[name][0])}
    return request.bad(name)


@fault("parameter: out of range", 2)
def parameter_range(rng):
    request = Request(rng)
    name = rng.choice([name for name, (_, values) in PARAMETERS.items() if values])
    request.json["parameters"] = {name: rng.choice(PARAMETERS[name][1])}
    return request.bad(name)


@fault("parameter: beyond 64 bits")
def parameter_huge(rng):
    request = Request(rng)
    name = rng.choice(("samples", "seed", "timeout", "priority", "sequence_id"))
    request.json["parameters"] = {name: rng.choice((1 << 63, 10 ** 30, -(10 ** 30)))}
    return request.bad(name)


@fault("parameter: those of sequences, alone")
def sequence_parameters(rng):
    request = Request(rng, None, "infer")
    request.json["parameters"] = rng.choice(({"sequence_start": True}, {"sequence_end": True}, {"sequence_fork": "x"},
                                             {"sequence_id": "", "sequence_start": True}))
    return request.bad("sequence")


@fault("outputs: unknown, twice, nameless", 2)
def outputs(rng):
    request = Request(rng)
    name = OUTPUT[request.model]
    listed, words = rng.choice((([{"name": "nonsense"}], ["nonsense"]), ([{"name": name}, {"name": name}], [name]), ([{}], ["name"]),
                                ([name], ["outputs"]), ([{"name": 3}], ["name"]), ([None], ["outputs"]),
                                ([{"name": name, "parameters": {"binary_data": 1}}], ["binary_data"]),
                                ([{"name": name, "parameters": [1]}], ["parameters"])))
    request.json["outputs"] = listed
    return request.bad(*words)


@fault("gradient: nothing to go back from")
def no_gradient(rng):
    request = Request(rng, None, "gradient")
    last = request.json["inputs"][-1]
    if rng.random() < 0.5:
        request.json["inputs"].pop()
        return request.bad("grad_output")
    last["shape"][1] += 1
    last["data"] = [0.0] * math.prod(last["shape"])
    return request.bad("grad_output")


# ---- bytes behind the JSON ----------------------------------------------------------------------


def in_bytes(rng, request, declared=None, sent=None, header=None, content=None):
    """One input as bytes, of which so many are declared and sent."""
    victim = request.pick(rng)
    numbers = victim.pop("data")
    if content is None:
        code = {"BOOL": "?", "FP32": "f", "INT64": "q"}[victim["datatype"]]
        content = struct.pack(f"<{len(numbers)}{code}", *numbers)
    n = len(content)
    victim["parameters"] = {"binary_data_size": declared(n) if declared else n}
    text = request.text()
    tail = content + bytes(1000)
    body = text + tail[: sent(n) if sent else n]
    return victim["name"], body, [("Inference-Header-Content-Length", header(len(text), n) if header else len(text))]


@fault("bytes: not as many as declared", 3)
def bytes_sent(rng):
    request = Request(rng)
    more = rng.choice((-1, -3, 1, 4, 100))
    _, body, headers = in_bytes(rng, request, sent=lambda n: max(n + more, 0))
    return request.bad(body=body, headers=headers)


@fault("bytes: not as many as the shape needs", 3)
def bytes_declared(rng):
    request = Request(rng)
    more = rng.choice((-1, 1, 4, 100))
    name, body, headers = in_bytes(rng, request, declared=lambda n: n + more, sent=lambda n: n + more)
    return request.bad(name, body=body, headers=headers)


@fault("bytes: a size that is none", 2)
def bytes_size(rng):
    request = Request(rng)
    size = rng.choice((-1, "16", 16.5, None, True, [], (1 << 63) - 1, 1 << 63, 10 ** 30))
    _, body, headers = in_bytes(rng, request, declared=lambda n: size)
    return request.bad(body=body, headers=headers)


@fault("bytes: a length of the JSON that is none", 3)
def bytes_header(rng):
    request = Request(rng)
    wrong = rng.choice(("", "x", "-1", "1.5", "0x10", "1e2", "99999999999999999999", "1 2", "+5"))
    _, body, headers = in_bytes(rng, request, header=lambda n_json, n: wrong)
    return request.bad("Inference-Header-Content-Length", body=body, headers=headers)


@fault("bytes: another length of the JSON", 2)
def bytes_elsewhere(rng):
    request = Request(rng)
    _, body, headers = in_bytes(rng, request, header=lambda n_json, n: rng.choice((n_json - 1, n_json - 20, n_json + n + 1, 1, 1 << 40)))
    return request.bad(body=body, headers=headers)


@fault("bytes: a boolean of 2")
def bytes_boolean(rng):
    request = Request(rng, "mha", "infer")
    keys = request.json["inputs"][1]["shape"][1]
    request.json["inputs"] = request.json["inputs"][:3] + [
        {"name": "mask", "datatype": "BOOL", "shape": [1, 1, keys], "parameters": {"binary_data_size": keys}}]
    text = request.text()
    return request.bad("mask", body=text + bytes([2]) * keys, headers=[("Inference-Header-Content-Length", len(text))])


@fault("bytes: raw, and not a row's")
def bytes_raw(rng):
    request = Request(rng, rng.choice(("mha", "steps")), "infer")
    n = 64 if request.model == "mha" else rng.randint(1, 200) * 16 + rng.choice((1, 4, 7))
    return request.bad(body=bytes(n), headers=[("Inference-Header-Content-Length", 0)])


# ---- packed bodies ------------------------------------------------------------------------------


@fault("packed: damaged", 3)
def damaged(rng):
    request = Request(rng)
    coding = rng.choice(("gzip", "deflate"))
    packed = bytearray({"gzip": gzip.compress, "deflate": zlib.compress}[coding](request.text()))
    how = rng.randrange(5)
    if how == 0:
        packed = packed[: rng.randrange(1, len(packed))]
    elif how == 1:
        packed += rng.randbytes(rng.randint(1, 20))
    elif how == 2:
        packed[-1 - rng.randrange(4)] ^= 1 << rng.randrange(8)  # checksum, or size
    elif how == 3:
        packed[:2] = b"xx"
    else:
        packed = bytearray(rng.randbytes(50))
    return request.bad(coding, body=bytes(packed), headers=[("Content-Encoding", coding)])


@fault("packed: called something else")
def miscalled(rng):
    request = Request(rng)
    called, body = rng.choice((("gzip", zlib.compress(request.text())), ("deflate", gzip.compress(request.text())),
                               ("zstd", gzip.compress(request.text())), ("gzip", request.text()), ("identity", gzip.compress(request.text()))))
    return request.bad(body=body, headers=[("Content-Encoding", called)])


@fault("packed: codings that are not offered")
def coding_unknown(rng):
    request = Request(rng)
    word = rng.choice(("br", "compress", "gzip, gzip", "x", "gzip;q=1", "gzip,br", "*"))
    return request.bad(statuses=(415,), headers=[("Content-Encoding", word)])


BOMB = gzip.compress(b" " * (4 << 20), 9)


@fault("packed: more than the limit when unpacked")
def bomb(rng):
    return Request(rng).bad("http-max-input-size", statuses=(413,), body=BOMB, headers=[("Content-Encoding", "gzip")])


# ---- v1 -----------------------------------------------------------------------------------------


@fault("predict: instances that are none", 2)
def predict(rng):
    row = [[0.5, 1, 2, 3]]
    body = rng.choice(({}, {"instances": 1}, {"instances": []}, {"instances": {}}, {"instances": [1]}, {"instances": [row, [[1]]]},
                       {"instances": [{"stranger": row}]}, {"instances": [None]}, {"instances": [row, {"input": row}]},
                       {"instances": [[["x"] * 4]]}, {"instances": [[[1e39] * 4]]}, [], 1, None))
    return Bad(message("POST", "/v1/models/steps:predict", json.dumps(body).encode()), (400,))
