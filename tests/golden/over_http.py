#!/usr/bin/env python3
"""Serve every golden case with a real daemon and compare what comes back.

Usage: over_http.py DAEMON FOLDER [-v] [NAME_PART]

Each case becomes a model of a scratch repository. One daemon serves them all; every case is sent in
several forms over a connection that is kept open, refusals included. Standard library only.
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
        self.inputs = self.group("inputs.", lambda n: n != "grad_output")
        self.outputs = self.group(
            "outputs.", lambda n: not n.endswith(".f64") and not n.startswith(("grad", "state."))
        )

    @staticmethod
    def read_tensors(content):
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        header.pop("__metadata__", None)
        return {
            name: Tensor(t["dtype"], t["shape"], content[start:][slice(*t["data_offsets"])])
            for name, t in header.items()
        }

    def group(self, prefix, wanted):
        names = (n.removeprefix(prefix) for n in sorted(self.tensors) if n.startswith(prefix))
        return {n: self.tensors[prefix + n] for n in names if wanted(n)}

    def config(self):
        layer = {"kind": PRESETS[self.about["layer"], self.about["module"]], **self.about["options"]}
        if "input_shape" in self.about:
            layer["input_shape"] = self.about["input_shape"]
        config = {"layer": layer, "empty_rows": self.about.get("empty_rows", "nan")}
        if any(n.startswith("weights.") for n in self.tensors):
            config["weights"] = {"file": "model.safetensors", "prefix": "weights."}
        return config

    def has_forward(self):
        """False where the case says nothing about a forward pass."""
        call = self.about["call"]
        refused_backward = self.about["expect"] == "error" and call.get("backward_calls")
        return not call.get("training") and (self.about.get("serves") or not refused_backward)

    def is_served(self):
        if self.name == "relational-negative-index":
            return False
        if self.about.get("serves") or self.name == "causal-err-batchnorm-one-sample":
            return True
        return self.about["expect"] == "ok" or self.is_shorter_input()

    def is_shorter_input(self):
        options = self.about["options"]
        if self.about["layer"] != "causal" or options.get("normalisation"):
            return False
        shape, (length, *width) = self.inputs["input"].shape, options["output_shape"]
        return len(shape) == 3 and shape[1] < length and shape[2:] == width

    def expected(self, output):
        return self.tensors.get("outputs.%s.f64" % output, self.outputs[output])

    def tolerance(self, output):
        given = self.about["tolerance"].get(output, {})
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


def build_request(case, form, parameters):
    """The body of the case in this form, and its headers."""
    entries, blobs = [], []
    for index, (name, tensor) in enumerate(case.inputs.items()):
        entry = {"name": name, "datatype": WIRE_TYPES[tensor.dtype], "shape": tensor.shape}
        if is_binary(form, index) or (form == "mixed" and not tensor.finite()):
            entry["parameters"] = {"binary_data_size": len(tensor.data)}
            blobs.append(tensor.data)
        else:
            entry["data"] = tensor.values()
        entries.append(entry)
    request = {"id": "%s %s" % (case.name, form), "inputs": entries}
    parameters = dict(parameters)
    if form == "mixed":  # the second output, if there is one, says for itself how it wants to go
        parameters["binary_data_output"] = True
        request["outputs"] = [
            {"name": n, "parameters": {"binary_data": False}} if i % 2 else {"name": n}
            for i, n in enumerate(case.outputs)
        ]
    else:
        parameters["binary_data_output"] = form == "binary"
        request["outputs"] = [{"name": n} for n in case.outputs]
    request["parameters"] = parameters
    text = json.dumps(request).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if blobs else {}
    return text + b"".join(blobs), headers


def read_reply(headers, body, form, literal):
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
        wanted = form == "binary" or (form == "mixed" and index % 2 == 0)
        if (size is not None) != wanted:
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


def check_output(case, name, shape, values):
    expected = case.expected(name)
    if shape != expected.shape:
        raise Wrong("%s has shape %s, expected %s" % (name, shape, expected.shape))
    wanted = expected.values()
    if len(values) != len(wanted):
        raise Wrong("%s has %d values, expected %d" % (name, len(values), len(wanted)))
    atol, rtol = case.tolerance(name)
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


def check_refused(daemon, case, status, headers, body):
    """The request is at fault (4xx), or the model could not be built (then it is not ready either)."""
    ready = daemon.request("GET", "/v2/models/%s/ready" % case.name)[0]
    if status not in ((400, 422) if ready == 200 else (503,)):
        raise Wrong("status %d for a case that must be refused: %r" % (status, body[:200]))
    return check_error(headers, body)


def check_case(daemon, case, form, nonfinite=None):
    parameters = {"nonfinite": nonfinite} if nonfinite else {}
    request, headers = build_request(case, form, parameters)
    status, headers, body = daemon.request("POST", "/v2/models/%s/infer" % case.name, request, headers)
    if not case.is_served():
        return check_refused(daemon, case, status, headers, body)
    refusal = None
    if form == "JSON" and not all(t.finite() for t in case.inputs.values()):
        refusal = 400
    elif not nonfinite and form != "binary":
        as_json = [n for i, n in enumerate(case.outputs) if form == "JSON" or i % 2]
        refusal = 422 if not all(case.expected(n).finite() for n in as_json) else None
    if refusal:
        if status != refusal:
            raise Wrong("status %d for NaN or infinity in JSON, expected %d" % (status, refusal))
        return check_error(headers, body)
    if status != 200:
        raise Wrong("status %d: %s" % (status, body[:300].decode("utf-8", "replace")))
    head, outputs = read_reply(headers, body, form, nonfinite == "literal")
    echoed = head.get("id"), head.get("model_name"), head.get("model_version")
    if echoed != ("%s %s" % (case.name, form), case.name, "1"):
        raise Wrong("id, model_name, model_version are %r" % (echoed,))
    if case.outputs and list(outputs) != list(case.outputs):
        raise Wrong("outputs %s, expected %s" % (list(outputs), list(case.outputs)))
    for name in case.outputs:
        check_output(case, name, *outputs[name])
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


def run_case(daemon, case, tally):
    results = {}
    for form in FORMS:
        what = "%s (%s)" % (case.name, form)
        results[form] = tally.run(what, check_case, daemon, case, form)
        if results[form] is None:
            daemon.connection.close()
    if isinstance(results["JSON"], dict) and isinstance(results["binary"], dict):
        if not same_values(results["JSON"], results["binary"]):
            tally.failed += 1
            print("%s: JSON and binary give different floats" % case.name)
    if case.is_served() and all(t.finite() for t in case.inputs.values()):
        if not all(case.expected(n).finite() for n in case.outputs):
            for nonfinite in ("literal", "null"):
                what = "%s (JSON, nonfinite %s)" % (case.name, nonfinite)
                tally.run(what, check_case, daemon, case, "JSON", nonfinite)


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
    cases = [case for case in map(Case, wanted) if case.has_forward()]
    tally = Tally(verbose)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="golden-"))
    build_repository(scratch / "models", cases)
    with open(scratch / "log", "w") as log:
        daemon = Daemon(program, scratch / "models", log)
        try:
            daemon.wait_until_live()
            for case in cases:
                run_case(daemon, case, tally)
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
