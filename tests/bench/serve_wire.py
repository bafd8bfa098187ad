"""What the wire costs: cheap requests beside the HTTP library alone, and the hand-over to a worker.

The smallest layer there is computes next to nothing, so a request to it is HTTP, JSON and the way to a
worker and back. The yardstick is echo.c. Those that are compared take turns, and keep the best of all.
"""
import json
import statistics

import serve_forms
import serve_models
from serve_process import (Cell, Request, Server, ask, count, daemon, draw, measure, milliseconds, ratio, run_load,
                           table)

CLIENTS = 1, 16
ROUNDS = 3        # for each pass
RATE = 500        # a second: workers fall asleep in between
TRACE_RATE = 16   # one request in so many is traced
AIM_RATE, AIM_HAND_OVER_US = 0.8, 15
TINY = ["--model=tiny", f"--input=q:FP32:1x1x{serve_models.TINY_WIDTH}"]
PATH = "/v2/models/tiny/infer"
ROUTES = {"health": "/v2/health/ready", "metadata": "/v2/models/tiny", "metrics": "/metrics"}
OWN = {"date", "content-length", "connection"}  # headers that the library writes


class Wire:
    def __init__(self, program, load, echo, scratch, seconds, passes):
        self.program, self.load, self.echo, self.scratch = program, load, echo, scratch
        self.seconds, self.rounds = float(seconds) / ROUNDS, ROUNDS * passes
        self.faults = []
        serve_models.write_wire(f"{scratch}/wire")

    def start(self, *words):
        """A daemon of its own for each section: what one did does not count for the next."""
        server = daemon(self.program, f"{self.scratch}/wire", *words, log=f"{self.scratch}/wire.log")
        server.start(lambda connection: tiny().send(connection)[0] == 200)
        return server

    def start_echo(self, headers, body):
        """An echo server whose replies are like this one."""
        words = [f"{name}: {value}" for name, value in headers.items() if name.lower() not in OWN]
        server = Server("echo", [self.echo, "PORT", len(body), *words], log=f"{self.scratch}/wire.log")
        server.start(lambda connection: ask(connection, "/direct")[0] == 200)
        _, found, content = ask(server.connect(), "/direct")
        if len(content) != len(body) or len(str(found)) != len(str(headers)):
            server.stop()
            raise RuntimeError(f"the echo server answers {found}, and not {headers}")
        return server

    def note(self, name, failed):
        if failed:
            self.faults.append(f"{name}: {failed} requests failed or were answered wrongly")

    def load_once(self, server, words):
        part = run_load(self.load, server, *words)[0]
        self.note(words[0], part["failed"])
        return part

    def take_turns(self, plan):
        """plan: {key: (server, clients, words)}; returns {key: cell}."""
        cells = {key: Cell() for key in plan}
        for _ in range(self.rounds):
            for key, (server, clients, words) in plan.items():
                measure(self.load, server, self.seconds, clients, words, cells[key])
        for key, cell in cells.items():
            self.note(key, cell.failed)
        return cells


def tiny():
    width = serve_models.TINY_WIDTH
    return Request("tiny", [("q", [1, 1, width], draw(width))])


def figures(cell):
    return [count(cell.rps), milliseconds(cell.p50), milliseconds(cell.p99), count(cell.cpu)]


# ---- the smallest layer ------------------------------------------------------------------------


def like_ours(word):
    """The path of a request to the echo server, as long as ours is."""
    return word + "-" * (len(PATH) - len(word))


def smallest(wire):
    server = wire.start()
    _, headers, body = ask(server.connect(), PATH, tiny().body, tiny().headers)
    echo = wire.start_echo(headers, body)
    plan = {}
    for clients in CLIENTS:
        plan["ours", clients] = server, clients, TINY
        for word in "/worker", "/direct":
            words = [f"--path={like_ours(word)}", TINY[1]]
            plan[word, clients] = echo, clients, words
    try:
        cells = wire.take_turns(plan)
    finally:
        server.stop()
        echo.stop()
    print(f"\na binary request to the smallest layer (1 position of width {serve_models.TINY_WIDTH}, 1 head: a body of "
          f"{len(tiny().body)} bytes,\na reply of {len(body)}) beside the HTTP library alone with the same bytes: through "
          "a worker, and on its I/O thread\n")
    titles = "req/s", "p50 ms", "p99 ms", "cpu us"
    rows = [["clients", *titles, "worker " + titles[0], *titles[1:], "direct " + titles[0], *titles[1:], "x worker", "aim",
             "by turns", "x direct"]]
    for clients in CLIENTS:
        ours, worker, direct = (cells[name, clients] for name in ("ours", "/worker", "/direct"))
        turns = statistics.median(x / max(y, 1) for x, y in zip(ours.turns, worker.turns))
        rows.append([str(clients), *figures(ours), *figures(worker), *figures(direct), ratio(ours.rps, worker.rps),
                     f">= {AIM_RATE}", f"{turns:.2f}", ratio(ours.rps, direct.rps)])
    table(rows)


# ---- the hand-over -----------------------------------------------------------------------------


def read_trace(path):
    """(push to decoding, encoded to replied) of each traced request, microseconds; the first ones left out."""
    found = []
    for line in open(path):
        spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        begun = {span["name"]: int(span["startTimeUnixNano"]) for span in spans}
        ended = {span["name"]: int(span["endTimeUnixNano"]) for span in spans}
        replied = int(spans[0]["endTimeUnixNano"])
        found.append((1e-3 * (ended["queue"] - begun["queue"]), 1e-3 * (replied - ended["encode"])))
    return found[len(found) // 5:]


def hand_over(wire):
    print(f"\nthe hand-over of such a request, one connection, us: from the push to its decoding, and from its encoding to "
          "the\nI/O thread (median of the traced requests); beside it how much longer the library alone takes through a "
          "worker\n")
    rows = [["", "there", "back", "both", "p90", "traced", "aim", "library alone, p50", "through a worker", "more"]]
    for name, more in ("as fast as it goes", []), (f"{RATE} a second", [f"--rate={RATE}"]):
        path = f"{wire.scratch}/trace.{len(more)}"
        timing = [f"--seconds={2 * wire.seconds}", "--warm=0.5", *more]
        server = wire.start("--trace-file", path, "--trace-rate", 1 if more else TRACE_RATE)
        _, headers, body = ask(server.connect(), PATH, tiny().body, tiny().headers)
        echo = wire.start_echo(headers, body)
        try:
            wire.load_once(server, [*TINY, *timing])
            p50 = [wire.load_once(echo, [f"--path={word}", TINY[1], *timing])["p50_us"] for word in ("/direct", "/worker")]
        finally:
            server.stop()
            echo.stop()
        there, back = zip(*read_trace(path))
        both = sorted(x + y for x, y in zip(there, back))
        rows.append([name, *(f"{statistics.median(x):.1f}" for x in (there, back, both)), f"{both[9 * len(both) // 10]:.1f}",
                     str(len(both)), f"< {AIM_HAND_OVER_US}", f"{p50[0]:.1f}", f"{p50[1]:.1f}", f"{p50[1] - p50[0]:.1f}"])
    table(rows)


# ---- what no worker answers --------------------------------------------------------------------


def routes(wire):
    server, echoes, plan, sizes = wire.start(), {}, {}, {}
    try:
        for name, path in ROUTES.items():
            _, headers, body = ask(server.connect(), path, verb="GET")
            echoes[name], sizes[name] = wire.start_echo(headers, body), len(body)
            for clients in CLIENTS:
                plan[name, clients] = server, clients, [f"--path={path}", "--get", "--varied"]
                plan[name, clients, "echo"] = echoes[name], clients, [f"--path=/direct{'-' * len(path)}", "--get"]
        cells = wire.take_turns(plan)
    finally:
        for each in [server, *echoes.values()]:
            each.stop()
    print("\nwhat the I/O thread answers, beside the HTTP library alone with the same bytes\n")
    rows = [["GET", "bytes", "clients", "req/s", "p50 ms", "p99 ms", "cpu us", "library req/s", "p50 ms", "p99 ms",
             "cpu us", "x library"]]
    for name, path in ROUTES.items():
        for clients in CLIENTS:
            ours, echo = cells[name, clients], cells[name, clients, "echo"]
            rows.append([path, f"{sizes[name]:,}", str(clients), *figures(ours), *figures(echo), ratio(ours.rps, echo.rps)])
    table(rows)


SECTIONS = {"echo": smallest, "hand-over": hand_over, "routes": routes, "json": serve_forms.twins,
            "memory": serve_forms.memory, "compression": serve_forms.compression}


def wanted(only):
    return [section for name, section in SECTIONS.items() if only.search(f"wire {name}")]


def run(sections, *words):
    """Returns what was wrong."""
    wire = Wire(*words)
    for section in sections:
        section(wire)
    return wire.faults
