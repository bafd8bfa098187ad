#!/usr/bin/env python3
"""Serve every golden case with a real daemon and compare what comes back.

Usage: over_http.py DAEMON FOLDER [-v] [NAME_PART]

Each case becomes a model of a scratch repository. One daemon serves them all; every case is sent to
/infer and, where it has backward passes, to /gradient, in several forms over a connection that is kept
open, refusals included. Standard library only.
"""
import array
import http.client
import json
import math
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

WIRE_TYPES = {"F32": "FP32", "F64": "FP64", "I64": "INT64", "BOOL": "BOOL"}
ARRAY_CODES = {"F32": "f", "F64": "d", "I64": "q", "BOOL": "b"}
PRESETS = {
    ("routing", "AttentionScore"): "routing_score",
    ("routing", "MultiHeadAttention"): "routing_mha",
    ("routing", "MultiHeadAttentionProj"): "routing_mha_proj",
    ("speech", "MultiHeadedAttention"): "speech_mha",
    ("causal", "MultiHeadAttention"): "causal_mha",
    ("relational", "RelationalMultiheadAttention"): "relational_mha",
}
FORMS = ("JSON", "binary", "mixed")


class Wrong(Exception):
    """The daemon did not do what the case asks for."""


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, shape, data

    def values(self):
        numbers = array.array(ARRAY_CODES[self.dtype], self.data)
        return [bool(n) for n in numbers] if self.dtype == "BOOL" else list(numbers)

    def finite(self):
        return all(math.isfinite(v) for v in self.values())


class Case:
    def __init__(self, path):
        self.about = json.loads(path.read_text())
        self.name = self.about["name"]
        self.file = path.with_suffix(".safetensors")
        self.tensors = self.read_tensors(self.file.read_bytes())
        self.call = self.about["call"]

    @staticmethod
    def read_tensors(content):
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        header.pop("__metadata__", None)
        return {
            name: Tensor(t["dtype"], t["shape"], content[start:][slice(*t["data_offsets"])])
            for name, t in header.items()
        }

    def config(self):
        layer = {"kind": PRESETS[self.about["layer"], self.about["module"]], **self.about["options"]}
        if "input_shape" in self.about:
            layer["input_shape"] = self.about["input_shape"]
        config = {"layer": layer, "empty_rows": self.about.get("empty_rows", "nan")}
        if any(n.startswith("weights.") for n in self.tensors):
            config["weights"] = {"file": "model.safetensors", "prefix": "weights."}
        return config

    def requests(self):
        """What is asked of it; a case refused in its backward pass says nothing about a forward one."""
        backward = self.call.get("backward_calls", 0) > 0
        if self.about["expect"] == "ok" or self.about.get("serves") or not backward:
            yield Request(self, "infer")
        if backward:
            yield Request(self, "gradient")

    def is_shorter_input(self):
        options = self.about["options"]
        if self.about["layer"] != "causal" or options.get("normalisation"):
            return False
        shape, (length, *width) = self.tensors["inputs.input"].shape, options["output_shape"]
        return len(shape) == 3 and shape[1] < length and shape[2:] == width


class Request:
    """A case on one route: what goes in, and what has to come out."""

    def __init__(self, case, route):
        self.case, self.name, self.route = case, "%s %s" % (case.name, route), route
        gradient = route == "gradient"
        self.inputs = self.group("inputs.", lambda n: gradient or n != "grad_output")
        self.outputs = self.group("outputs.", self.is_wanted)
        self.parameters = {}
        if case.call.get("training"):
            self.parameters["training"] = True
        if gradient and case.about.get("gradient_reduction"):
            self.parameters["gradient_reduction"] = case.about["gradient_reduction"]

    def group(self, prefix, wanted):
        tensors = self.case.tensors
        names = (n.removeprefix(prefix) for n in sorted(tensors) if n.startswith(prefix))
        return {n: tensors[prefix + n] for n in names if wanted(n)}

    def is_wanted(self, output):
        """The original adds up the gradients of parameters over its backward passes; here each is new."""
        if output.endswith(".f64"):
            return False
        if self.route == "infer":
            return not output.startswith("grad")
        return self.case.call["backward_calls"] == 1 or not output.startswith("grad.")

    def is_served(self):
        about, name = self.case.about, self.case.name
        if name == "relational-negative-index":
            return False
        if name in ("causal-err-batchnorm-one-sample", "causal-err-back-after-eval-dropout"):
            return True
        return about["expect"] == "ok" or about.get("serves") or self.case.is_shorter_input()

    def expected(self, output):
        return self.case.tensors.get("outputs.%s.f64" % output, self.outputs[output])

    def tolerance(self, output):
        given = self.case.about["tolerance"].get(output, {})
        return given.get("atol", 1e-6), given.get("rtol", 1e-4)


class Daemon:
    def __init__(self, program, repository, log):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [program, "--model-repository=%s" % repository, "--http-port=%d" % self.port],
            stdout=log,
            stderr=log,
        )
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(self, verb, path, body=None, headers=None):
        self.connection.request(verb, path, body, headers or {})
        reply = self.connection.getresponse()
        return reply.status, reply.headers, reply.read()

    def wait_until_live(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.request("GET", "/v2/health/live")[0] == 200:
                    return
            except OSError:
                self.connection.close()
            time.sleep(0.05)
        raise Wrong("the daemon does not answer")

    def stop(self):
        """SIGTERM; the exit status, or what went wrong instead."""
        self.connection.close()
        if self.process.poll() is not None:
            return "ended by itself with status %d" % self.process.returncode
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "still running 30 s after SIGTERM"


def parse(text):
    """JSON, without the literals that Python adds to it."""

    def refuse(literal):
        raise Wrong("%s in a JSON reply" % literal)

    return json.loads(text, parse_constant=refuse)


def is_binary(form, index):
    return form == "binary" or (form == "mixed" and index % 2 == 1)


def is_binary_output(request, form, index):
    """The second output, if there is one, says for itself how it wants to go."""
    return form == "binary" or (form == "mixed" and (index % 2 == 0 or not request.outputs))


def build_body(request, form, parameters):
    """The request in this form, and its headers."""
    entries, blobs = [], []
    for index, (name, tensor) in enumerate(request.inputs.items()):
        entry = {"name": name, "datatype": WIRE_TYPES[tensor.dtype], "shape": tensor.shape}
        if is_binary(form, index) or (form == "mixed" and not tensor.finite()):
            entry["parameters"] = {"binary_data_size": len(tensor.data)}
            blobs.append(tensor.data)
        else:
            entry["data"] = tensor.values()
        entries.append(entry)
    parameters = {**request.parameters, **parameters, "binary_data_output": form != "JSON"}
    outputs = [{"name": name} for name in request.outputs]
    if form == "mixed":
        for output in outputs[1::2]:
            output["parameters"] = {"binary_data": False}
    body = {"id": "%s %s" % (request.name, form), "inputs": entries, "outputs": outputs}
    text = json.dumps({**body, "parameters": parameters}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if blobs else {}
    return text + b"".join(blobs), headers


def read_reply(request, headers, body, form, literal):
    """The head of a reply and its outputs as lists of floats."""
    n_json = int(headers.get("Inference-Header-Content-Length", len(body)))
    text, rest = body[:n_json].decode(), body[n_json:]
    head = json.loads(text) if literal else parse(text)
    content_type = headers.get("Content-Type")
    if content_type != ("application/octet-stream" if rest else "application/json"):
        raise Wrong("Content-Type %s" % content_type)
    outputs = {}
    for index, output in enumerate(head["outputs"]):
        name = output["name"]
        size = output.get("parameters", {}).get("binary_data_size")
        if output["datatype"] != "FP32":
            raise Wrong("%s has datatype %s" % (name, output["datatype"]))
        if (size is not None) != is_binary_output(request, form, index):
            raise Wrong("%s is %sbinary" % (name, "not " if size is None else ""))
        if size is None:
            outputs[name] = output["shape"], output["data"]
        else:
            outputs[name] = output["shape"], list(array.array("f", rest[:size]))
            rest = rest[size:]
    if rest:
        raise Wrong("%d bytes more than the outputs have" % len(rest))
    return head, outputs


def agree(got, expected, atol, rtol):
    if got is None:  # null stands for what JSON cannot carry
        return not math.isfinite(expected)
    if math.isnan(expected) or not math.isfinite(got):
        return got == expected or (math.isnan(got) and math.isnan(expected))
    return abs(got - expected) <= atol + rtol * abs(expected)


def check_output(request, name, shape, values):
    expected = request.expected(name)
    if shape != expected.shape:
        raise Wrong("%s has shape %s, expected %s" % (name, shape, expected.shape))
    wanted = expected.values()
    if len(values) != len(wanted):
        raise Wrong("%s has %d values, expected %d" % (name, len(values), len(wanted)))
    atol, rtol = request.tolerance(name)
    for index, (got, want) in enumerate(zip(values, wanted)):
        if not agree(got, want, atol, rtol):
            raise Wrong("%s[%d] is %r, expected %r" % (name, index, got, want))


def check_error(headers, body):
    if headers.get("Content-Type") != "application/json":
        raise Wrong("an error of Content-Type %s" % headers.get("Content-Type"))
    text = parse(body).get("error")
    if not isinstance(text, str) or not text or "\n" in text:
        raise Wrong("no error text of one line in %r" % body[:200])
    return text


def check_refused(daemon, request, status, headers, body):
    """The request is at fault (4xx), or the model could not be built (then it is not ready either)."""
    ready = daemon.request("GET", "/v2/models/%s/ready" % request.case.name)[0]
    if status not in ((400, 422) if ready == 200 else (503,)):
        raise Wrong("status %d for a case that must be refused: %r" % (status, body[:200]))
    return check_error(headers, body)


def check_head(request, form, head):
    echoed = head.get("id"), head.get("model_name"), head.get("model_version")
    if echoed != ("%s %s" % (request.name, form), request.case.name, "1"):
        raise Wrong("id, model_name, model_version are %r" % (echoed,))
    seed = head.get("parameters", {}).get("seed")
    if not request.parameters.get("training"):
        if "parameters" in head:
            raise Wrong("parameters %r" % (head["parameters"],))
    elif type(seed) is not int or not 0 <= seed < 2**53:
        raise Wrong("the seed of the draws is %r" % (seed,))


def check_case(daemon, request, form, nonfinite=None):
    parameters = {"nonfinite": nonfinite} if nonfinite else {}
    body, headers = build_body(request, form, parameters)
    path = "/v2/models/%s/%s" % (request.case.name, request.route)
    status, headers, body = daemon.request("POST", path, body, headers)
    if not request.is_served():
        return check_refused(daemon, request, status, headers, body)
    refusal = None
    if form == "JSON" and not all(t.finite() for t in request.inputs.values()):
        refusal = 400
    elif not nonfinite:
        as_json = [n for i, n in enumerate(request.outputs) if not is_binary_output(request, form, i)]
        refusal = 422 if not all(request.expected(n).finite() for n in as_json) else None
    if refusal:
        if status != refusal:
            raise Wrong("status %d for NaN or infinity in JSON, expected %d" % (status, refusal))
        return check_error(headers, body)
    if status != 200:
        raise Wrong("status %d: %s" % (status, body[:300].decode("utf-8", "replace")))
    head, outputs = read_reply(request, headers, body, form, nonfinite == "literal")
    check_head(request, form, head)
    if request.outputs and list(outputs) != list(request.outputs):
        raise Wrong("outputs %s, expected %s" % (list(outputs), list(request.outputs)))
    for name in request.outputs:
        check_output(request, name, *outputs[name])
    return outputs


def same_values(a, b):
    """JSON carries the very floats that the bytes are."""
    return all(
        array.array("f", a[name][1]).tobytes() == array.array("f", b[name][1]).tobytes() for name in a
    )


class Tally:
    def __init__(self, verbose):
        self.passed, self.failed, self.verbose = 0, 0, verbose

    def run(self, what, test, *arguments):
        try:
            result = test(*arguments)
        except (Wrong, OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            self.failed += 1
            print("%s: %s" % (what, error if isinstance(error, Wrong) else repr(error)))
            return None
        self.passed += 1
        if self.verbose:
            print("%s: %s" % (what, result if isinstance(result, str) else "holds"))
        return result


def run_request(daemon, request, tally):
    results = {}
    for form in FORMS:
        what = "%s (%s)" % (request.name, form)
        results[form] = tally.run(what, check_case, daemon, request, form)
        if results[form] is None:
            daemon.connection.close()
    if isinstance(results["JSON"], dict) and isinstance(results["binary"], dict):
        if not same_values(results["JSON"], results["binary"]):
            tally.failed += 1
            print("%s: JSON and binary give different floats" % request.name)
    if request.is_served() and all(t.finite() for t in request.inputs.values()):
        if not all(request.expected(n).finite() for n in request.outputs):
            for nonfinite in ("literal", "null"):
                what = "%s (JSON, nonfinite %s)" % (request.name, nonfinite)
                tally.run(what, check_case, daemon, request, "JSON", nonfinite)


def build_repository(root, cases):
    for case in cases:
        version = root / case.name / "1"
        version.mkdir(parents=True)
        shutil.copy(case.file, version / "model.safetensors")
        (root / case.name / "config.json").write_text(json.dumps(case.config()))


def main(arguments):
    verbose = "-v" in arguments
    program, folder, *name_part = [a for a in arguments if a != "-v"]
    paths = sorted(pathlib.Path(folder).glob("*.json"))
    wanted = (path for path in paths if "".join(name_part) in path.stem)
    cases = [Case(path) for path in wanted]
    tally = Tally(verbose)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="golden-"))
    build_repository(scratch / "models", cases)
    with open(scratch / "log", "w") as log:
        daemon = Daemon(program, scratch / "models", log)
        try:
            daemon.wait_until_live()
            for case in cases:
                for request in case.requests():
                    run_request(daemon, request, tally)
        except Wrong as error:
            tally.failed += 1
            print(error)
        finally:
            ended = daemon.stop()
    if ended != 0:
        tally.failed += 1
        print("the daemon: %s" % (ended if isinstance(ended, str) else "exit status %d" % ended))
    if tally.failed:
        print("log and repository are in %s" % scratch)
    else:
        shutil.rmtree(scratch)
    print("golden over HTTP: %d passed, %d failed" % (tally.passed, tally.failed))
    return 0 if tally.passed and not tally.failed else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
