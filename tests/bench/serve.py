#!/usr/bin/env python3
"""Measures the daemon over HTTP beside its peers, small requests beside a large one, sequences, and the wire.

    serve.py DAEMON LOAD ECHO ONNXRUNTIME     our daemon, our load generator, the HTTP library alone, where npm put
                                              onnxruntime-node

Servers run at once, each is loaded in its turn, and rounds go over all of them, so what is compared was
measured within seconds. Nothing is written but the tables. Settings come from the environment, see
README.md.
"""
import re
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
import serve_mixed  # noqa: E402
import serve_models  # noqa: E402
import serve_peers  # noqa: E402
import serve_sequences  # noqa: E402
import serve_wire  # noqa: E402
from serve_process import (Cell, Request, count, daemon, draw, floats, machine, measure, megabytes,  # noqa: E402
                           message, milliseconds, ratio, setting, table)

SECONDS = setting("BENCH_SECONDS", "3")
PASSES = int(setting("BENCH_PASSES", "2"))
CLIENTS = [int(n) for n in setting("BENCH_CLIENTS", "1 16 64").split()]
ONLY = re.compile(setting("BENCH_ONLY", "."))
STARTS = 5
TOLERANCE = 1e-4
AIMS = {("small", "json"): ">= 5", ("medium", "json"): ">= 8"}  # of requests a second

# Ours: what a row is called, and the model that it asks.
VARIANTS = {"ours": "{}", "ours, batching off": "{}-alone", "ours, one input": "{}-one"}


def volume(shape):
    length, width, _ = serve_models.SHAPES[shape]
    return length * width


def axes(shape):
    length, width, _ = serve_models.SHAPES[shape]
    return [1, length, width]


def speech_request(model, shape, content):
    return Request(model, [(name, axes(shape), content) for name in "kvq"])


def our_words(variant, shape, form):
    names = "q" if variant == "ours, one input" else "kvq"
    words = [f"--input={name}:FP32:" + "x".join(map(str, axes(shape))) for name in names]
    return [f"--model={VARIANTS[variant].format(shape)}", *words] + (["--json"] if form == "json" else [])


class Bench:
    def __init__(self, program, load, onnxruntime, scratch):
        self.program, self.load, self.scratch = program, load, scratch
        self.samples = {shape: draw(volume(shape)) for shape in serve_models.SHAPES}
        self.bodies = serve_peers.write_bodies(scratch, self.samples)
        serve_models.write_shapes(f"{scratch}/models")
        serve_models.write_plain(f"{scratch}/plain")
        self.peers = serve_peers.find(f"{scratch}/plain", onnxruntime, scratch)
        self.ours = daemon(program, f"{scratch}/models", log=f"{scratch}/ours.log")
        self.cells, self.starts = {}, {}

    def probe(self, connection):
        return speech_request("small", "small", self.samples["small"]).send(connection)[0] == 200

    def probe_peer(self, peer):
        content = self.samples["small"]
        return lambda connection: len(peer.ask(connection, "small", "binary", content)) == volume("small")

    # ---- starts ----

    def measure_starts(self):
        """Cold starts and idle memory of ours and of each peer, with the same two layers."""
        plain = daemon(self.program, f"{self.scratch}/plain", log=f"{self.scratch}/ours.log")
        for server, probe in [(plain, self.probe)] + [(peer, self.probe_peer(peer)) for peer in self.peers]:
            seconds = []
            for _ in range(STARTS):
                server.stop()
                seconds.append(server.start(probe))
            time.sleep(0.5)
            self.starts[server.name] = sorted(seconds), server.memory()
            server.stop()

    # ---- loads ----

    def start_all(self):
        self.ours.start(self.probe)
        for peer in list(self.peers):
            peer.start(self.probe_peer(peer))
            self.check(peer)

    def check(self, peer):
        """Peers must compute what we do; one that does not is left out."""
        for shape, content in self.samples.items():
            status, answer = speech_request(shape, shape, content).send(self.ours.connect())
            if status != 200:
                sys.exit(f"bench: '{shape}': {answer}")
            expected = floats(answer)
            largest = max(abs(x) for x in expected)
            for form in serve_peers.TYPES:
                with open(self.bodies[shape, form], "rb") as file:
                    found = peer.ask(peer.connect(), shape, form, file.read())
                off = max(abs(x - y) for x, y in zip(expected, found)) / largest
                if len(found) != len(expected) or off > TOLERANCE:
                    message(f"bench: {peer.name} left out: {shape}, {form} is wrong by {off:.1e}")
                    self.peers.remove(peer)
                    peer.stop()
                    return

    def variants(self):
        """Those that this daemon serves."""
        found = []
        for variant, model in VARIANTS.items():
            connection = self.ours.connect()
            connection.request("GET", f"/v2/models/{model.format('small')}/ready")
            reply = connection.getresponse()
            reply.read()
            if reply.status == 200:
                found.append(variant)
            else:
                message(f"bench: '{variant}' left out: the daemon does not load {model.format('small')}")
        return found

    def measure(self, server, words, key):
        measure(self.load, server, SECONDS, key[2], words, self.cells.setdefault(key, Cell()))

    def measure_loads(self, wanted):
        variants = self.variants()
        for _ in range(PASSES):
            for shape, form, clients in wanted:
                for variant in variants:
                    self.measure(self.ours, our_words(variant, shape, form), (shape, form, clients, variant))
                for peer in self.peers:
                    words = peer.load_words(shape, form, self.bodies)
                    self.measure(peer, words, (shape, form, clients, peer.name))

    def stop(self):
        for server in [self.ours, *self.peers]:
            server.stop()


# ---- printing ----------------------------------------------------------------------------------


def best(bench, place):
    """Of the peers at (shape, form, clients): the best of each figure, and who has the most requests."""
    cells = {peer.name: bench.cells[(*place, peer.name)] for peer in bench.peers}
    cells = {name: cell for name, cell in cells.items() if cell.rps > 0}
    if not cells:
        return None, "-"
    result = Cell()
    result.rps = max(cell.rps for cell in cells.values())
    for name in "p50", "p99", "cpu":
        setattr(result, name, min(getattr(cell, name) for cell in cells.values()))
    return result, max(cells, key=lambda name: cells[name].rps)


def figures(cell):
    if cell.rps == 0:
        return ["-"] * 4
    return [count(cell.rps), milliseconds(cell.p50), milliseconds(cell.p99), count(cell.cpu)]


def print_ratios(bench, wanted):
    print("\nratios to the best peer of the same run, above 1: ours is better; cpu: of the server, for a request\n")
    rows = [["request", "clients", "req/s", "p50 ms", "p99 ms", "cpu us", "x req/s", "aim", "x p50", "x p99", "x cpu",
             "one input x req/s", "x cpu", "on / off", "best peer", "req/s", "p50 ms", "p99 ms", "cpu us"]]
    for place in wanted:
        ours, (peer, name) = bench.cells[(*place, "ours")], best(bench, place)
        one, alone = bench.cells[(*place, "ours, one input")], bench.cells.get((*place, "ours, batching off"))
        row = [f"{place[1]} {place[0]}", str(place[2]), *figures(ours)]
        row += [ratio(ours.rps, peer.rps), AIMS.get(place[:2], "-"), *(ratio(getattr(peer, f), getattr(ours, f)) for f in ("p50", "p99", "cpu")),
                ratio(one.rps, peer.rps), ratio(peer.cpu, one.cpu)] if peer else ["-"] * 7
        row.append(ratio(ours.rps, alone.rps) if alone else "-")
        rows.append(row + [name, *(figures(peer) if peer else ["-"] * 4)])
    table(rows)


def print_all(bench, wanted):
    print("\neverything that was measured: req/s, p50 ms, p99 ms, cpu us\n")
    names = [*VARIANTS, *(peer.name for peer in bench.peers)]
    rows = [["request", "clients"] + names]
    for place in wanted:
        cells = [bench.cells.get((*place, name)) for name in names]
        texts = [" ".join(figures(cell)) if cell else "-" for cell in cells]
        rows.append([f"{place[1]} {place[0]}", str(place[2])] + texts)
    table(rows)
    for (shape, form, clients, name), cell in bench.cells.items():
        if cell.failed:
            print(f"{name}, {form} {shape}, {clients} clients: {cell.failed} requests failed")


def print_starts(bench):
    weights = serve_models.weight_bytes(f"{bench.scratch}/plain")
    print(f"\nfrom exec to the first answer, best and median of {STARTS}; memory when idle, beyond {megabytes(weights)} MB"
          " of weights\n")
    rows = [["server", "ms", "median", "x ours", "resident MB", "x ours", "of its own MB", "x ours"]]
    (ours, (our_rss, our_pss)) = bench.starts["attentiond"]
    for name, (seconds, (rss, pss)) in bench.starts.items():
        rows.append([name, f"{1e3 * seconds[0]:.1f}", f"{1e3 * seconds[len(seconds) // 2]:.1f}", ratio(seconds[0], ours[0]),
                     megabytes(rss - weights), ratio(rss - weights, our_rss - weights),
                     megabytes(pss - weights), ratio(pss - weights, our_pss - weights)])
    table(rows)


def wanted_loads():
    return [(shape, form, clients) for form in serve_peers.TYPES for shape in serve_models.SHAPES
            for clients in CLIENTS if ONLY.search(f"{form} {shape} {clients}")]


def beside_peers(program, load, onnxruntime, scratch, loads):
    """Everything that the peers and our daemon with their layers are for. Returns what was wrong."""
    bench = Bench(program, load, onnxruntime, scratch)
    try:
        if ONLY.search("start"):
            bench.measure_starts()
            print_starts(bench)
        if loads or ONLY.search("mixed"):
            bench.start_all()
        if loads:
            bench.measure_loads(loads)
            print_ratios(bench, loads)
            print_all(bench, loads)
        if ONLY.search("mixed"):
            serve_mixed.run(load, bench.ours, SECONDS)
    finally:
        bench.stop()
    return [f"{key}: {cell.failed} requests failed" for key, cell in bench.cells.items()
            if key[3] in VARIANTS and cell.failed]


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: serve.py DAEMON LOAD ECHO ONNXRUNTIME")
    program, load, echo, onnxruntime = sys.argv[1:]
    loads, sections, faults = wanted_loads(), serve_wire.wanted(ONLY), []
    with tempfile.TemporaryDirectory(prefix="attentiond-bench.") as scratch:
        print(f"machine: {machine()}; each figure: best of {PASSES} rounds of {SECONDS} s", flush=True)
        if loads or ONLY.search("start") or ONLY.search("mixed"):
            faults += beside_peers(program, load, onnxruntime, scratch, loads)
        if ONLY.search("sequences"):
            serve_sequences.run(program, load, scratch, SECONDS)
        if sections:
            faults += serve_wire.run(sections, program, load, echo, scratch, SECONDS, PASSES)
    print(f"\nat the end: {machine()}")
    for fault in faults:
        print(f"WRONG: {fault}")
    sys.exit(1 if faults else 0)


main()
