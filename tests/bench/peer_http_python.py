#!/usr/bin/env python3
"""PyTorch behind a Python web server: peer_http_python.py fastapi|aiohttp PORT PROCESSES REPOSITORY

POST /small or /medium: a body of type application/octet-stream is one sample as little-endian floats,
and so is the answer; any other is {"inputs": [[[...]]]}, answered by {"outputs": [[[...]]]}. Tuned: no
validation, a fast JSON parser, uvloop, the layer traced and optimised, one thread of arithmetic a process.
Processes share the port, and the kernel deals out connections.
"""
import json
import math
import os
import pathlib
import signal
import socket
import sys

KIND, PORT, PROCESSES, REPOSITORY = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])


def spread():
    """From here on there are so many processes, and one more that ends them."""
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            return
        children.append(child)

    def stop(*_):
        for child in children:
            os.kill(child, signal.SIGTERM)
    signal.signal(signal.SIGTERM, stop)
    for child in children:
        os.waitpid(child, 0)
    sys.exit(0)


if PROCESSES > 1:
    spread()

import torch  # noqa: E402
import ujson  # noqa: E402
import uvloop  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


class Layer(nn.Module):
    """Self attention, with one product for all three projections."""

    def __init__(self, heads, weights):
        super().__init__()
        width = weights["q_layer.bias"].shape[0]
        self.heads, self.scale = heads, 1 / math.sqrt(width // heads)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        with torch.no_grad():
            for part in "weight", "bias":
                joined = torch.cat([weights[f"{name}_layer.{part}"] for name in "qkv"])
                getattr(self.qkv, part).copy_(joined)
                getattr(self.out, part).copy_(weights[f"output_layer.{part}"])

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = self.qkv(x).view(samples, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * self.scale, -1)
        return self.out(torch.matmul(p, v).transpose(1, 2).reshape(x.shape))


def read_weights(path):
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    found = {}
    for name, entry in json.loads(content[8:start]).items():
        first, last = (start + offset for offset in entry["data_offsets"])
        found[name] = torch.frombuffer(content[first:last], dtype=torch.float32).view(entry["shape"]).clone()
    return found


def load(folder):
    heads = json.loads((folder / "config.json").read_text())["layer"]["num_heads"]
    layer = Layer(heads, read_weights(folder / "1" / "model.safetensors")).eval()
    length = int((folder / "length").read_text())
    width = layer.out.bias.shape[0]
    with torch.inference_mode():
        traced = torch.jit.optimize_for_inference(torch.jit.trace(layer, torch.randn(1, length, width)))
        for _ in range(3):
            traced(torch.randn(1, length, width))
    return traced, (1, length, width)


LAYERS = {folder.name: load(folder) for folder in sorted(REPOSITORY.iterdir())}


def answer(name, body, binary):
    layer, shape = LAYERS[name]
    if binary:
        x = torch.frombuffer(bytearray(body), dtype=torch.float32).view(shape)
    else:
        x = torch.tensor(ujson.loads(body)["inputs"])
    with torch.inference_mode():
        y = layer(x)
    return y.numpy().tobytes() if binary else ujson.dumps({"outputs": y.tolist()})


def listen():
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", PORT))
    return sock


BINARY = "application/octet-stream"


def serve_aiohttp():
    from aiohttp import web

    async def handle(request):
        binary = request.content_type == BINARY
        result = answer(request.match_info["name"], await request.read(), binary)
        if binary:
            return web.Response(body=result, content_type=BINARY)
        return web.Response(text=result, content_type="application/json")

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{name}", handle)
    uvloop.install()
    web.run_app(app, sock=listen(), print=None, access_log=None)


def serve_fastapi():
    import uvicorn
    from fastapi import FastAPI, Request, Response

    app = FastAPI()

    @app.post("/{name}")
    async def handle(name: str, request: Request):
        binary = request.headers.get("content-type") == BINARY
        result = answer(name, await request.body(), binary)
        return Response(result, media_type=BINARY if binary else "application/json")

    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listen()])


{"fastapi": serve_fastapi, "aiohttp": serve_aiohttp}[KIND]()
