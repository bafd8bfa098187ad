"""Small requests while large ones are computed: how long does one wait for the other?"""
from serve_process import count, milliseconds, run_load, table

SMALL = ["--model=small-one", "--input=q:FP32:1x16x128", "--connections=16"]
LARGE = ["--model=medium-one", "--input=q:FP32:1x8192x512"]
RATE = 1000  # of small ones, well below what the daemon can do


def measure(load, server, seconds, *kinds):
    words = []
    for kind in kinds:
        words += (["--and"] if words else []) + kind
    return run_load(load, server, f"--seconds={seconds}", "--warm=1", *words)[:len(kinds)]


def line(name, small, large):
    cells = [name]
    if small:
        cells += [count(small["rps"])] + [milliseconds(small[figure]) for figure in ("p50_us", "p99_us", "p999_us", "max_us")]
    else:
        cells += [""] * 5
    return cells + ([f"{large['rps']:.2f}", milliseconds(large["p50_us"])] if large else ["", ""])


def run(load, server, seconds):
    seconds = max(float(seconds), 5)  # a large one takes up to a second
    print(f"\n16 connections of small requests beside one of 8,192 tokens, 512 wide; 'at a rate': {RATE} small ones a second,\n"
          "each timed from when it was due; a large one carries 16 MB each way\n")
    rows = [["", "small req/s", "p50 ms", "p99 ms", "p999 ms", "max ms", "large req/s", "p50 ms"]]
    rated = SMALL + [f"--rate={RATE}"]
    rows.append(line("small alone, at a rate", *measure(load, server, seconds, rated), None))
    rows.append(line("both, at a rate", *measure(load, server, seconds, rated, LARGE)))
    rows.append(line("small alone, as fast as they go", *measure(load, server, seconds, SMALL), None))
    rows.append(line("both, as fast as they go", *measure(load, server, seconds, SMALL, LARGE)))
    rows.append(line("large alone", None, *measure(load, server, seconds, LARGE)))
    table(rows)
