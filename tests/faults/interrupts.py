"""Calls that a signal interrupts, and calls that move fewer bytes than they were asked to: nobody is to notice."""
import json
import random
import socket

import asked
from control import Control, Daemon
from scene import Scene, make_repository, start

EINTR = 4
# Kind, whether it may also move fewer bytes. What goes through sockets is not interrupted while it is sent, since the
# system interrupts nothing that does not wait; nor moved in part, since the HTTP library takes it then that a buffer is
# full, or empty, and waits until that changes. Instead buffers are made small.
KINDS = [("receive", False), ("read", True), ("write", True), ("wait", False), ("accept", False),
         ("open", False), ("random", True)]
RATE = 0.4


def ask_all(scene, kind, what, requests):
    """Each over a fresh connection, then all over one."""
    for connection in (None, scene.daemon.connect()):
        for name, request in requests.items():
            why = ""
            try:
                answer = scene.ask(request, connection)
                if not scene.is_right(request, answer):
                    why = scene.fault_of(request, answer) or "answered %s" % (answer,)
            except TimeoutError:
                why = "no answer in time"
            scene.bench.point("interrupts: " + kind, "%s, %s" % (what, name), not why, why)
            if scene.daemon.ended():
                return


def requests(bench):
    scene = Scene(bench, "interrupts", "--log-level=debug", "--trace-rate=1",
                  "--trace-file=%s/interrupts-traces" % bench.root)
    everything = {**asked.INFERENCES, **asked.READS, "speech": asked.SPEECH, "load": asked.LOAD}
    for request in everything.values():
        scene.learn(request)
    for seed in range(bench.seed, bench.seed + (1 if bench.quick else 20)):
        scene.control.watch(scene.repository, seed)
        for kind, shorter in KINDS:
            scene.control.arm(kind, EINTR, rate=RATE, shorten=shorter)
            ask_all(scene, kind, "seed %d" % seed, everything)
            scene.control.disarm()
            bench.n_calls += scene.control.hits(kind)
    scene.end("after interrupts")


def small_buffers(bench):
    """A client takes a long answer in small pieces, and sends a long request in such."""
    scene = Scene(bench, "pieces")
    n = 3000
    query = [{"name": "query", "datatype": "FP32", "shape": [1, n, 4], "data": [i % 17 / 4 for i in range(4 * n)]}]
    body = json.dumps({"inputs": query + asked.tensors()[1:]}).encode()
    request = "POST", "/v2/models/mha/infer", body, {}
    scene.learn(request)
    head = "POST %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (request[1], len(body))
    for seed in range(bench.seed, bench.seed + (2 if bench.quick else 20)):
        chance = random.Random(seed)
        with socket.socket() as client:
            for what in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                client.setsockopt(socket.SOL_SOCKET, what, 2048)
            client.connect(("127.0.0.1", scene.daemon.port))
            content, answer = head.encode() + body, b""
            while content:
                size = chance.randint(1, 20000)
                client.sendall(content[:size])
                content = content[size:]
            while piece := client.recv(chance.randint(1, 3000)):
                answer += piece
        right = answer.startswith(b"HTTP/1.1 200 ") and (200, answer.split(b"\r\n\r\n", 1)[1]) == scene.right[request[1:3]]
        bench.point("interrupts: small pieces", "seed %d" % seed, right, answer[:300])
    scene.end("after small pieces")


def starts(bench):
    root = make_repository(bench, "interrupted-starts")
    for seed in range(bench.seed, bench.seed + (1 if bench.quick else 10)):
        for kind, shorter in KINDS:
            control = Control(bench.root)
            control.watch(root, seed)
            control.arm(kind, EINTR, rate=RATE, shorten=shorter)
            daemon = Daemon(bench.program, bench.injection, bench.root, "--model-repository=%s" % root, control=control)
            start(bench, daemon, "interrupts: start", "%s, seed %d" % (kind, seed))


def run(bench):
    requests(bench)
    small_buffers(bench)
    starts(bench)
