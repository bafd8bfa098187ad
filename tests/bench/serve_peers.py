"""The peers of the HTTP bench: which there are here, how they are started, what they are sent."""
import array
import json
import os
import pathlib
import subprocess

import serve_models
from serve_process import Server, floats, message

HERE = pathlib.Path(__file__).parent
PYTHON = "/usr/bin/python3"  # the one that Debian's packages belong to

# Freed memory is kept: fresh pages cost more than the arithmetic on some machines.
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2 ** 62), "MALLOC_TOP_PAD_": str(2 ** 24)}
PROCESSES = 2  # of the Python servers
TYPES = {"binary": "application/octet-stream", "json": "application/json"}


def has_modules(*names):
    return subprocess.run([PYTHON, "-c", "import " + ", ".join(names)], stderr=subprocess.DEVNULL).returncode == 0


def has_node(folder):
    try:
        found = subprocess.run(["node", "--version"], stdout=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False
    installed = (pathlib.Path(folder) / "node_modules" / "onnxruntime-node").is_dir()
    return found and installed and has_modules("onnx", "numpy")


class Peer(Server):
    """A server of the peers' own form: POST /NAME, one input, one output."""

    def load_words(self, shape, form, bodies):
        return [f"--path=/{shape}", f"--body={bodies[shape, form]}", f"--header=Content-Type: {TYPES[form]}"]

    def ask(self, connection, shape, form, body):
        connection.request("POST", f"/{shape}", body, {"Content-Type": TYPES[form]})
        reply = connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{self.name}: {shape}, {form}: {reply.status} {content[:200]}")
        if form == "binary":
            return floats(content)
        return [x for row in json.loads(content)["outputs"][0] for x in row]


def python_peers(repository, log):
    environment = dict(KEEP, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    for kind, modules in (("aiohttp", ["aiohttp"]), ("fastapi", ["fastapi", "uvicorn", "httptools"])):
        if has_modules("torch", "ujson", "uvloop", *modules):
            words = [PYTHON, HERE / "peer_http_python.py", kind, "PORT", PROCESSES, repository]
            yield Peer(f"{kind} x{PROCESSES}", words, environment, log)
        else:
            message(f"bench: {kind} left out: it needs PyTorch and {kind} (make bench-peers)")


def node_peers(repository, onnxruntime, scratch, log):
    if not has_node(onnxruntime):
        message("bench: node left out: it needs node, onnxruntime-node and Python's onnx (make bench-peers)")
        return
    models = pathlib.Path(scratch) / "onnx"
    models.mkdir()
    subprocess.run([PYTHON, HERE / "peer_http_onnx.py", repository, models], check=True)
    environment = dict(KEEP, NODE_PATH=os.path.abspath(f"{onnxruntime}/node_modules"))
    for processes, threads in ((1, 1), (1, 2), (2, 1)):
        yield Peer(f"node x{processes}" + (f", {threads} threads" if threads > 1 else ""),
                   ["node", HERE / "peer_http_node.js", "PORT", processes, threads, models], environment, log)


def find(repository, onnxruntime, scratch):
    log = f"{scratch}/peers.log"
    return [*node_peers(repository, onnxruntime, scratch, log), *python_peers(repository, log)]


def decimal(x):
    """The shortest that reads back to the same float."""
    for digits in range(6, 10):
        text = f"{x:.{digits}g}"
        if array.array("f", [float(text)])[0] == x:
            return text
    return repr(x)


def write_bodies(scratch, samples):
    """Files of what peers are sent, by (shape, form). samples: bytes of one sample, by shape."""
    bodies = {}
    for shape, content in samples.items():
        length, width, _ = serve_models.SHAPES[shape]
        for form in TYPES:
            bodies[shape, form] = f"{scratch}/{shape}.{form}"
        pathlib.Path(bodies[shape, "binary"]).write_bytes(content)
        numbers = [decimal(x) for x in floats(content)]
        rows = ",".join("[" + ",".join(numbers[i * width:(i + 1) * width]) + "]" for i in range(length))
        pathlib.Path(bodies[shape, "json"]).write_text('{"inputs":[[' + rows + "]]}")
    return bodies
