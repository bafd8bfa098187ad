#!/usr/bin/env python3
"""Do a daemon's gradients agree with the differences of its own answers?

    differences.py PORT

The demo models are asked for the gradients of random inputs. Moving one element of an input by a small step to
either side must change sum(grad_output * output) by what its gradient says, as far as float32 can tell."""
import http.client
import json
import random
import sys

STEP, TOLERANCE = 1e-2, 5e-3
# model -> the shapes of its inputs, all floats
MODELS = {
    "routing_score": {"query": [2, 3, 4], "key": [2, 5, 4]},
    "routing_mha": {"query": [2, 3, 8], "key": [2, 5, 8], "value": [2, 5, 8]},
    "routing_mha_proj": {"q": [2, 3, 8], "h": [2, 5, 8]},
    "speech_mha": {"k": [2, 5, 8], "v": [2, 5, 8], "q": [2, 3, 8]},
    "causal_mha": {"input": [2, 6, 8]},
    "relational_mha": {
        "queries": [2, 3, 2, 4],
        "keys": [2, 5, 2, 4],
        "values": [2, 5, 2, 4],
        "dense_relations_kq": [2, 3, 5, 2],
        "dense_relations_kv": [2, 3, 5, 2, 4],
    },
}


class Model:
    def __init__(self, connection, name, shapes, others):
        self.connection, self.name, self.shapes, self.others = connection, name, shapes, others

    def ask(self, route, inputs, **more):
        tensors = [
            {"name": n, "datatype": "FP32", "shape": self.shapes[n], "data": data} for n, data in inputs.items()
        ]
        body = json.dumps({"inputs": tensors + self.others, **more})
        self.connection.request("POST", "/v2/models/%s/%s" % (self.name, route), body)
        reply = json.loads(self.connection.getresponse().read())
        if "error" in reply:
            sys.exit("%s: %s" % (self.name, reply["error"]))
        return reply["outputs"]

    def loss(self, inputs, cotangent):
        (output,) = self.ask("infer", inputs)
        return sum(a * b for a, b in zip(output["data"], cotangent))

    def check(self, draw):
        inputs = {n: draw(shape) for n, shape in self.shapes.items()}
        (output,) = self.ask("infer", inputs)
        cotangent = draw(output["shape"])
        self.shapes["grad_output"] = output["shape"]
        names = [{"name": "grad_" + n} for n in inputs]
        gradients = self.ask("gradient", {**inputs, "grad_output": cotangent}, outputs=names)
        for (name, data), gradient in zip(inputs.items(), gradients):
            if gradient["shape"] != self.shapes[name]:
                sys.exit("%s: grad_%s has shape %s" % (self.name, name, gradient["shape"]))
            for index in random.sample(range(len(data)), 6):
                losses = []
                for step in (STEP, -STEP):
                    moved = data[:index] + [data[index] + step] + data[index + 1 :]
                    losses.append(self.loss({**inputs, name: moved}, cotangent))
                slope = (losses[0] - losses[1]) / (2 * STEP)
                if abs(slope - gradient["data"][index]) > TOLERANCE * (1 + abs(slope)):
                    message = "%s: grad_%s[%d] is %r, by differences %r"
                    sys.exit(message % (self.name, name, index, gradient["data"][index], slope))


def draw(shape):
    n = 1
    for axis in shape:
        n *= axis
    return [random.uniform(-1, 1) for _ in range(n)]


def main():
    random.seed(4)
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
    edges = [
        {"name": "edges", "datatype": "INT64", "shape": [3, 3], "data": [0, 1, 2, 1, 0, 4, 0, 1, 2]},
        {"name": "edge_types", "datatype": "INT64", "shape": [3], "data": [0, 2, 1]},
    ]
    for name, shapes in MODELS.items():
        Model(connection, name, shapes, edges if name == "relational_mha" else []).check(draw)


main()
