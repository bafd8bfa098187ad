"""What the daemon is asked while faults are injected: requests whose answers are known, since each is first asked
without any fault."""
import base64
import gzip
import json
import struct

QUERY, KEY, VALUE = [1, 1, 4], [1, 2, 4], [1, 2, 4]
NUMBERS = {"query": [0.5, 1, 0, 2], "key": [1, 0, 0, 0, 0, 1, 0, 0], "value": [1, 2, 3, 4, 3, 4, 5, 6]}
SHAPES = {"query": QUERY, "key": KEY, "value": VALUE}
LONG = "a longer parameter name than jansson has room for at first, and a number " + "1234567890" * 12


def tensors(extra=None):
    return [{"name": n, "datatype": "FP32", "shape": SHAPES[n], "data": NUMBERS[n]} for n in NUMBERS] + (extra or [])


def as_json(model, verb="infer", extra=None, headers=None, coded=None, **members):
    body = json.dumps({"id": "r1", "inputs": tensors(extra), **members}).encode()
    return "POST", "/v2/models/%s/%s" % (model, verb), coded(body) if coded else body, headers or {}


def as_bytes(model):
    inputs, tail = [], b""
    for name, numbers in NUMBERS.items():
        content = struct.pack("<%df" % len(numbers), *numbers)
        inputs.append({"name": name, "datatype": "FP32", "shape": SHAPES[name],
                       "parameters": {"binary_data_size": len(content)}})
        tail += content
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return "POST", "/v2/models/%s/infer" % model, head + tail, {"Inference-Header-Content-Length": str(len(head))}


def step(parameters, numbers):
    tensor = {"name": "input", "datatype": "FP32", "shape": [1, len(numbers) // 4, 4], "data": numbers}
    body = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
    return "POST", "/v2/models/causal/infer", body, {}


GRADIENT = [{"name": "grad_output", "datatype": "FP32", "shape": QUERY, "data": [1, 2, 3, 4]}]
INFERENCES = {
    "json": as_json("mha"),
    "binary": as_bytes("mha"),
    "gzip": as_json("mha", headers={"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}, coded=gzip.compress),
    "outputs": as_json("mha", outputs=[{"name": "out"}, {"name": "attention"}]),
    "long": as_json("mha", parameters={LONG: 12345678901234567, "x": LONG, "tiny": 1.2345678901234567e-100}),
    "gradient": as_json("mha", "gradient", GRADIENT),
    "sequence": step({"sequence_id": "s", "sequence_start": True, "sequence_end": True}, [1, 0, 0, 0, 0, 1, 0, 0]),
    "predict": ("POST", "/v1/models/mha:predict", json.dumps(
        {"instances": [{n: [NUMBERS[n]] if n == "query" else [NUMBERS[n][:4], NUMBERS[n][4:]]
                        for n in NUMBERS}]}).encode(), {}),
}
KEPT = step({"sequence_id": "kept", "sequence_start": True}, [1, 0, 0, 0, 0, 1, 0, 0])
EXPORT = "GET", "/v2/models/causal/sequences/kept", None, {}


def importing(content):
    return "POST", "/v2/models/causal/sequences/brought", content, {}


def bringing(repository):
    """A load that brings what it loads."""
    folder = repository / "mha"
    weights = base64.b64encode((folder / "1" / "model.safetensors").read_bytes()).decode()
    body = {"parameters": {"config": (folder / "config.json").read_text(), "file:1/model.safetensors": weights}}
    return "POST", "/v2/repository/models/fresh/load", json.dumps(body).encode(), {}


READS = {
    "metadata": ("GET", "/v2/models/mha", None, {}),
    "config": ("GET", "/v2/models/mha/config", None, {}),
    "index": ("POST", "/v2/repository/index", b"{}", {}),
    "ready": ("GET", "/v2/health/ready", None, {}),
}
LOAD = ("POST", "/v2/repository/models/speech/load", b"{}", {})
UNLOAD = ("POST", "/v2/repository/models/speech/unload", b"{}", {})
SPEECH = "POST", "/v2/models/speech/infer", json.dumps({"inputs": [
    {"name": n[0], "datatype": "FP32", "shape": SHAPES[n], "data": NUMBERS[n]} for n in NUMBERS]}).encode(), {}


def content_of(answer):
    """What must be the same each time, of an answer with status 200."""
    status, headers, body = answer
    if headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return status, body
