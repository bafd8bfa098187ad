#!/usr/bin/env python3
"""Long runs of the daemon under load: soak.py reload|timeouts|unload DAEMON LOAD

reload: a model is loaded again every 100 ms while it is asked; no request may fail.
timeouts: more requests than the daemon can answer, each with a deadline; for ten minutes.
unload: 200 times load, ask, unload.
Each tenth of the run is a line. Ends with status 1 if what must hold does not. BENCH_SECONDS sets how long.
"""
import json
import re
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
import serve_models  # noqa: E402
from serve_process import (Load, Request, ask, count, daemon, draw, machine, megabytes, milliseconds,  # noqa: E402
                           run_load, setting, table)

PARTS = 10
RELOAD_SECONDS = 0.1
CYCLES = 200
TIMEOUT_US = 100_000
OVERLOAD = 1.5  # times what the daemon can answer
GROWTH = 1.05   # of memory, from the second tenth to the last, that counts as flat
SLACK = 2 << 20


def words_of(shape):
    length, width, _ = serve_models.SHAPES[shape]
    return [f"--model={shape}"] + [f"--input={name}:FP32:1x{length}x{width}" for name in "kvq"]


def request_of(shape):
    length, width, _ = serve_models.SHAPES[shape]
    content = draw(length * width)
    return Request(shape, [(name, [1, length, width], content) for name in "kvq"])


def control(connection, model, what):
    """Load or unload; None, or what went wrong."""
    status, _, body = ask(connection, f"/v2/repository/models/{model}/{what}", b"", {"Content-Length": "0"})
    return None if status == 200 else f"{what} {model}: {status} {body[:300].decode(errors='replace')}"


def gauges(connection):
    """Series of /metrics that are gauges: {series: value}."""
    status, _, body = ask(connection, "/metrics", verb="GET")
    if status != 200:
        return {}
    text = body.decode()
    names = set(re.findall(r"^# TYPE (\S+) gauge$", text, re.M))
    found = {}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if series.split("{")[0] in names:
            found[series] = value
    return found


def print_gauges(found):
    if found:
        texts = (f"{series.removeprefix('attentiond_')} {value}" for series, value in found.items())
        print("    " + ", ".join(texts), flush=True)


class Verdict:
    """What must hold; a line for each."""

    def __init__(self):
        self.failed = 0

    def expect(self, holds, text):
        self.failed += not holds
        print(f"{'holds' if holds else 'FAILS'}: {text}")

    def expect_flat(self, sizes):
        first, last = sizes[1], sizes[-1]
        self.expect(last <= first * GROWTH + SLACK,
                    f"memory is flat: {megabytes(first)} MB after the second tenth, {megabytes(last)} MB at the end")


class Steady:
    """Prints the parts of a load as they come, with the daemon's memory."""

    def __init__(self, server):
        self.server, self.sizes = server, []
        self.connection = server.connect()

    def memory(self):
        self.sizes.append(self.server.memory()[0])
        return f"{megabytes(self.sizes[-1])} MB"

    def line(self, part, n):
        statuses = ", ".join(f"{code}: {times}" for code, times in part["statuses"].items())
        p50, p99, refused = (milliseconds(part[name]) for name in ("p50_us", "p99_us", "refused_p99_us"))
        print(f"{n:3}  {part['label']:8} {count(part['rps']):>8} req/s  p50 {p50:>7} ms  p99 {p99:>7} ms  "
              f"refused p99 {refused:>7} ms  {self.memory()}  {statuses}"
              + (f", behind {part['behind']}" if part["behind"] else ""), flush=True)


def check_totals(verdict, parts, totals):
    verdict.expect(all(part["wrong"] == part["broken"] == 0 for part in parts), "no reply was wrong or cut off")
    texts = ", ".join(f"{total['label']} {total['replies']} of {total['sent']}" for total in totals)
    verdict.expect(all(total["sent"] == total["replies"] for total in totals), f"every request was answered: {texts}")


def faults_text(faults):
    return f"; {len(faults)} failed, first: {faults[0]}" if faults else ""


# ---- reload ------------------------------------------------------------------------------------


class Reloader(threading.Thread):
    def __init__(self, server, model):
        super().__init__(daemon=True)
        self.server, self.model, self.faults, self.seconds = server, model, [], []
        self.done = threading.Event()

    def run(self):
        connection, due = self.server.connect(), time.monotonic()
        while not self.done.is_set():
            begin = time.monotonic()
            try:
                fault = control(connection, self.model, "load")
            except OSError as error:
                fault = str(error)
            self.seconds.append(time.monotonic() - begin)
            if fault:
                self.faults.append(fault)
            due = max(due + RELOAD_SECONDS, time.monotonic())
            self.done.wait(due - time.monotonic())


def reload(server, load, verdict):
    seconds = setting("BENCH_SECONDS", "60")
    steady, parts, totals = Steady(server), [], []
    reloader = Reloader(server, "small")
    reloader.start()
    words = ["--connections=16", f"--seconds={seconds}", f"--parts={PARTS}"]
    for line in Load(load, server, *words_of("small"), *words):
        if "sent" in line:
            totals.append(line)
            continue
        parts.append(line)
        steady.line(line, len(parts))
    reloader.done.set()
    reloader.join()
    longest = 1e3 * max(reloader.seconds)
    verdict.expect(not reloader.faults, f"{len(reloader.seconds)} times loaded again, the longest took {longest:.0f} ms"
                   + faults_text(reloader.faults))
    failed, good = (sum(part[name] for part in parts) for name in ("failed", "good"))
    verdict.expect(failed == 0, f"{failed} of {failed + good} requests failed")
    check_totals(verdict, parts, totals)
    verdict.expect_flat(steady.sizes)


# ---- timeouts ----------------------------------------------------------------------------------


def timeouts(server, load, verdict):
    seconds = setting("BENCH_SECONDS", "600")
    capacity = run_load(load, server, *words_of("medium"), "--connections=16", "--seconds=3")[0]["rps"]
    rate = OVERLOAD * capacity
    connections = min(1024, max(16, int(2.5 * rate * TIMEOUT_US * 1e-6)))
    timeout = f"--parameter=timeout={TIMEOUT_US}"
    print(f"medium: the daemon answers {count(capacity)} a second; {count(rate)} come, over {connections} connections, "
          f"each with a deadline of {TIMEOUT_US // 1000} ms; small: 200 a second\n")
    steady, parts, totals = Steady(server), {"medium": [], "small": []}, []
    words = [*words_of("medium"), timeout, f"--rate={rate}", f"--connections={connections}", "--and",
             *words_of("small"), timeout, "--rate=200", "--connections=32"]
    for line in Load(load, server, *words, f"--seconds={seconds}", f"--parts={PARTS}"):
        if "sent" in line:
            totals.append(line)
            continue
        parts[line["label"]].append(line)
        steady.line(line, len(parts[line["label"]]))
        if line["label"] == "small":
            print_gauges(gauges(steady.connection))
    rates = [part["rps"] for part in parts["medium"]]
    print(f"\nmedium, answered a second: first half {count(sum(rates[:5]) / 5)}, second half {count(sum(rates[5:]) / 5)}")
    check_totals(verdict, parts["medium"] + parts["small"], totals)
    verdict.expect_flat(steady.sizes[1::2])


# ---- unload ------------------------------------------------------------------------------------


def is_unloaded(connection, model):
    """Unloading may still go on when its request is answered."""
    for _ in range(1000):
        _, _, body = ask(connection, "/v2/repository/index")
        states = [entry.get("state", "") for entry in json.loads(body) if entry["name"] == model]
        if not any(state in ("READY", "UNLOADING") for state in states):
            return True
        time.sleep(0.005)
    return False


def cycle(connection, expected):
    """Load, ask and unload both models; None, or what went wrong."""
    for model, answer in expected.items():
        fault = control(connection, model, "load")
        if fault:
            return fault
        status, found = request_of(model).send(connection)
        if status != 200 or found != answer:
            return f"{model}: {status}, {'another answer' if status == 200 else found}"
        fault = control(connection, model, "unload")
        if fault or not is_unloaded(connection, model):
            return fault or f"{model} was not unloaded in 5 s"
    return None


def unload(server, load, verdict):
    connection, expected, sizes, faults = server.connect(), {}, [], []
    for model in serve_models.SHAPES:
        control(connection, model, "load")
        expected[model] = request_of(model).send(connection)[1]
    rows = [["cycles", "resident MB", "ms a cycle"]]
    for part in range(PARTS):
        begin = time.monotonic()
        for _ in range(CYCLES // PARTS):
            fault = cycle(connection, expected)
            if fault:
                faults.append(fault)
        sizes.append(server.memory()[0])
        milli = 1e3 * (time.monotonic() - begin) * PARTS / CYCLES
        rows.append([str((part + 1) * CYCLES // PARTS), megabytes(sizes[-1]), f"{milli:.1f}"])
    table(rows)
    print()
    verdict.expect(not faults, f"{CYCLES} cycles of load, infer and unload" + faults_text(faults))
    verdict.expect_flat(sizes)


def main():
    runs = {"reload": reload, "timeouts": timeouts, "unload": unload}
    if len(sys.argv) != 4 or sys.argv[1] not in runs:
        sys.exit("usage: soak.py reload|timeouts|unload DAEMON LOAD")
    name, program, load = sys.argv[1:]
    verdict = Verdict()
    with tempfile.TemporaryDirectory(prefix="attentiond-bench.") as scratch:
        serve_models.write_plain(f"{scratch}/models")
        words = [] if name == "unload" else ["--load-model", "small,medium"]
        words += ["--model-control-mode", "explicit"]
        server = daemon(program, f"{scratch}/models", *words, log=f"{scratch}/log")
        print(f"machine: {machine()}\n", flush=True)
        try:
            server.start(lambda connection: ask(connection, "/v2/health/live", verb="GET")[0] == 200)
            runs[name](server, load, verdict)
        except RuntimeError as error:
            with open(f"{scratch}/log") as log:
                sys.exit(f"soak: {error}\n{log.read()[-2000:]}")
        finally:
            stopped = server.stop()
        verdict.expect(stopped, "the daemon ended when it was asked to")
    sys.exit(1 if verdict.failed else 0)


main()
