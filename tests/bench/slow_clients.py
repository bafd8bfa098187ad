#!/usr/bin/env python3
"""A healthy client beside slow ones: slow_clients.py DAEMON LOAD

So many connections (BENCH_SLOW, 1000) to the daemon on this machine send their headers a byte at a time, or a body, or
take nothing of what they asked for; those that are cut come again. Meanwhile one healthy client asks the smallest
layer. Its times are printed without the attack, with the same attack on another daemon of this machine (what the slow
clients themselves take of its processors), and with it, in turns (BENCH_PASSES, 3), for BENCH_SECONDS (10) each.
"""
import os
import pathlib
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
import serve_models  # noqa: E402
from serve_process import Request, ask, count, daemon, draw, machine, milliseconds, run_load, setting, table  # noqa: E402

PAUSE = 1.0  # seconds between two bytes of a connection
SMALL_BUFFER = 4096
HEAD = b"POST /v2/models/small/infer HTTP/1.1\r\nHost: bench\r\n"
LENGTH = 256  # of queries and keys whose scores a reader asks for: 8 KB in, 256 KB out


def large_request():
    """Bytes of a request that is cheap to answer, with much."""
    request = Request("score", [(name, [1, LENGTH, 4], draw(4 * LENGTH)) for name in ("query", "key")])
    headers = dict(request.headers, Host="bench", **{"Content-Length": len(request.body)})
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {request.path} HTTP/1.1\r\n{head}\r\n".encode() + request.body


# ---- the slow ones, in a process of their own --------------------------------------------------


class Slow:
    """A connection that is slow in one way: what it says at once, and what it says byte by byte."""

    kinds = {"headers": (b"GET /v2 HTTP/1.1\r\nHost: ", b"x"),
             "body": (HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
             "reader": (large_request() * 4, b"")}

    def __init__(self, kind, port, due):
        self.kind, self.port, self.due, self.socket = kind, port, due, None

    def open(self):
        self.socket = socket.socket()
        if self.kind == "reader":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        self.socket.setblocking(False)
        self.socket.connect_ex(("127.0.0.1", self.port))
        self.said = False

    def step(self):
        """Say a little more. False: the daemon has hung up."""
        first, more = self.kinds[self.kind]
        try:
            self.socket.send(more if self.said else first)
            self.said = True
            if self.kind == "reader":
                return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            return self.socket.recv(1) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


def attack(port, n):
    """Until standard input ends. Says when all have connected, and at the end how many were cut."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kinds = list(Slow.kinds)
    now = time.monotonic()
    slow = [Slow(kinds[i % len(kinds)], port, now + PAUSE * i / n) for i in range(n)]
    for one in slow:
        one.open()
    cut, n_steps = dict.fromkeys(kinds, 0), 0
    while True:
        one = slow[n_steps % n]
        if select.select([sys.stdin], [], [], max(0.0, one.due - time.monotonic()))[0]:
            break
        if not one.step():
            cut[one.kind] += 1
            one.socket.close()
            one.open()
        one.due += PAUSE
        n_steps += 1
        if n_steps == 2 * n:
            print("connected", flush=True)
    print(" ".join(f"{kind}:{times}" for kind, times in cut.items()), flush=True)


# ---- the bench ---------------------------------------------------------------------------------


class Attack:
    def __init__(self, port, n):
        self.process = subprocess.Popen([sys.executable, __file__, "attack", str(port), str(n)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "connected\n":
            raise RuntimeError("the attack did not start")

    def end(self):
        said = self.process.communicate(timeout=60)[0]
        return {kind: int(times) for kind, times in (word.split(":") for word in said.split())}


def measure(load, server, seconds):
    length, width, _ = serve_models.SHAPES["small"]
    inputs = [f"--input={name}:FP32:1x{length}x{width}" for name in "kvq"]
    return run_load(load, server, "--model=small", *inputs, "--connections=1", f"--seconds={seconds}")[0]


def metric(server, name):
    connection = server.connect()
    text = ask(connection, "/metrics", verb="GET")[2].decode()
    connection.close()
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line.startswith(name)}


def row(label, part):
    return [label, count(part["rps"]), milliseconds(part["p50_us"]), milliseconds(part["p99_us"]), count(part["failed"])]


def attacked(load, server, target, n, seconds):
    """What the healthy client of server sees while target is attacked; open connections; cut ones, by kind."""
    attacking = Attack(target.port, n)
    seen = measure(load, server, seconds)
    n_open = max(metric(target, "attentiond_connections_open").values())
    return seen, n_open, attacking.end()


def bench(server, other, load):
    n, seconds = int(setting("BENCH_SLOW", "1000")), setting("BENCH_SECONDS", "10")
    rows, ratios = [["", "req/s", "p50 ms", "p99 ms", "failed"]], []
    open_now, cut = 0, dict.fromkeys(Slow.kinds, 0)
    for _ in range(int(setting("BENCH_PASSES", "3"))):
        alone = measure(load, server, seconds)
        elsewhere, _, _ = attacked(load, server, other, n, seconds)
        beside, n_open, times_cut = attacked(load, server, server, n, seconds)
        open_now = max(open_now, n_open)
        for kind, times in times_cut.items():
            cut[kind] += times
        rows += [row("alone", alone), row(f"{n} slow ones at another daemon", elsewhere),
                 row(f"beside {n} slow ones", beside)]
        ratios.append([beside[name] / base[name] for base in (alone, elsewhere) for name in ("p50_us", "p99_us")])
    table(rows)
    middle = [sorted(column)[len(column) // 2] for column in zip(*ratios)]
    print(f"\nmedian of the ratios to alone: p50 {middle[0]:.2f}, p99 {middle[1]:.2f} (aim: within 2); "
          f"to the attack on another daemon: p50 {middle[2]:.2f}, p99 {middle[3]:.2f}")
    print(f"connections open: {open_now:.0f}; cut, as the slow ones saw it: "
          + ", ".join(f"{times} {kind}" for kind, times in cut.items()))
    print("cut, as the daemon counted: " + ", ".join(f"{series.split('=')[1][1:-2]} {times:.0f}"
                                                      for series, times in metric(server, "attentiond_connections_cut").items()))


def main():
    program, load = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="attentiond-bench.") as scratch:
        serve_models.write_plain(f"{scratch}/models")
        os.mkdir(f"{scratch}/models/score")
        pathlib.Path(f"{scratch}/models/score/config.json").write_text('{"layer": {"kind": "routing_score"}}')
        server, other = (daemon(program, f"{scratch}/models", "--http-header-timeout=5", "--http-body-timeout=5",
                                "--http-min-rate=1000000", log=f"{scratch}/log-{name}") for name in ("one", "other"))
        print(f"machine: {machine()}\n", flush=True)
        try:
            for each in (server, other):
                each.start(lambda connection: ask(connection, "/v2/health/live", verb="GET")[0] == 200)
            bench(server, other, load)
        finally:
            server.stop()
            other.stop()


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "attack":
        attack(int(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) == 3:
        main()
    else:
        sys.exit("usage: slow_clients.py DAEMON LOAD")
