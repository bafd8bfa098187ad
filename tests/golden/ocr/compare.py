"""Ask a daemon for the blocks of extract.py and compare with the recogniser itself, in double precision.

Usage: compare.py FILE.onnx URL. The recogniser reads made-up line images of several widths; what then
reaches a block in it is what the daemon is sent. Closes with the number of comparisons.
"""
import json
import sys
import urllib.request

import numpy as np
import onnx

import graph
from extract import find_blocks

# Sums of 120 and of up to `length` products in single precision, each at most a few units large: the
# error seen is below 3e-6. A wrong scale, head or bias is off by 1e-2 and more.
TOLERANCE = 2e-5
# (lines, width in pixels): the blocks see one position for each eight pixels.
IMAGES = ((1, 320), (3, 160), (1, 48), (2, 640))


def line_images(n, width, seed):
    """Dark strokes on light paper, as [n, 3, 48, width] between -1 and 1."""
    random = np.random.RandomState(seed)
    paper = np.full((n, 48, width), 0.9) + random.normal(0, 0.02, (n, 48, width))
    for image in paper:
        for left in range(4, width - 16, 20):
            for _ in range(3):
                x, y = left + random.randint(0, 12), random.randint(6, 36)
                if random.rand() < 0.5:
                    image[y : y + 3, x : x + random.randint(4, 12)] = 0.1
                else:
                    image[y : y + random.randint(4, 12), x : x + 3] = 0.1
    return np.repeat(np.clip(paper * 2 - 1, -1, 1)[:, None], 3, axis=1)


def ask(url, block, x, binary):
    """The outputs of a block, by name, for x as keys, values and queries."""
    data = x.astype("<f4").tobytes()
    content = {"parameters": {"binary_data_size": len(data)}} if binary else {"data": x.ravel().tolist()}
    inputs = [{"name": n, "datatype": "FP32", "shape": x.shape, **content} for n in ("k", "v", "q")]
    request = {
        "inputs": inputs,
        "outputs": [{"name": "output"}, {"name": "attention"}],
        "parameters": {"binary_data_output": binary},
    }
    text = json.dumps(request).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if binary else {}
    body = text + 3 * data if binary else text
    question = urllib.request.Request("%s/v2/models/%s/infer" % (url, block.name), body, headers)
    with urllib.request.urlopen(question, timeout=120) as reply:
        answer = reply.read()
        n_json = int(reply.headers.get("Inference-Header-Content-Length", len(answer)))
    outputs, rest = {}, answer[n_json:]
    for output in json.loads(answer[:n_json])["outputs"]:
        if binary:
            size = output["parameters"]["binary_data_size"]
            values, rest = np.frombuffer(rest[:size], "<f4"), rest[size:]
        else:
            values = np.array(output["data"])
        outputs[output["name"]] = values.reshape(output["shape"]).astype(np.float64)
    return outputs


def main(path, url):
    model = onnx.load(path).graph
    blocks = find_blocks(model)
    passed = failed = 0
    if len(blocks) != 2:
        print("%d blocks found, expected 2" % len(blocks))
        failed += 1
    for seed, (n, width) in enumerate(IMAGES):
        feeds = {model.input[0].name: line_images(n, width, seed)}
        values = graph.run(model, feeds, rounded=[block.input for block in blocks])
        for block in blocks:
            x = values[block.input]
            for binary in (False, True):
                got = ask(url, block, x, binary)
                for name, expected in (("output", values[block.output]), ("attention", values[block.attention])):
                    error = np.abs(got[name] - expected).max() if got[name].shape == expected.shape else np.inf
                    good = error <= TOLERANCE * max(1, np.abs(expected).max())
                    passed, failed = passed + good, failed + (not good)
                    form = "bytes" if binary else "JSON"
                    print(
                        "  %s %s, x %s as %s: largest value %.3f, largest error %.1e%s"
                        % (block.name, name, list(x.shape), form, np.abs(expected).max(), error, "" if good else " WRONG")
                    )
    print("ocr: %d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
