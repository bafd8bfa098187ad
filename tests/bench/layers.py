#!/usr/bin/env python3
"""Times every case of cases.txt, by the library and by its peers, and prints tables.

    layers.py PROGRAMS ONNXRUNTIME     folders: our built programs; where npm put onnxruntime-node

Needs nothing but Python's own modules; the peers run in processes of their own. Each case is measured
by all of them one after the other before the next case starts, so what is compared was measured within
seconds. Nothing is written but the tables. Settings come from the environment, see README.md.
"""
import glob
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
import cases  # noqa: E402

HERE = pathlib.Path(__file__).parent
PYTHON = "/usr/bin/python3"  # the one that Debian's packages of the peers belong to

# Freed memory is kept and made of large pages: fresh and small ones cost more than the arithmetic on
# some machines. The library asks for large pages by itself; this gives them to its peers.
KEEP = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2 ** 62), "MALLOC_TOP_PAD_": str(2 ** 26)}


def setting(name, default):
    return os.environ.get(name) or default


SECONDS = setting("BENCH_SECONDS", "0.3")
PASSES = int(setting("BENCH_PASSES", "1"))
ONLY = re.compile(setting("BENCH_ONLY", "."))
THREADS = [int(n) for n in setting("BENCH_THREADS", "1 2").split()]

# What gradients are held against: the part after their forward may take so many times the forward, where
# that has at least so many operations to do; and they should take a share of PyTorch's time.
BACKWARD_BAR, BAR_FLOP = 2.6, 1e8
TORCH_AIM = 2
LENGTHS = 1024, 8192, 65536  # at which scratch is asked for


def environment(blas, threads=1):
    """For a process whose OpenBLAS picks its own kernels, or is told as our environment has it."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads),
               PYTHONDONTWRITEBYTECODE="1", **KEEP)
    if blas == "auto":
        env.pop("OPENBLAS_CORETYPE", None)
        env.pop("OPENBLAS_L2_SIZE", None)
    return env


def message(text):
    print(text, file=sys.stderr, flush=True)


class Process:
    """A program that answers each line with JSON objects and "end"."""

    def __init__(self, command, env):
        self.command = command
        self.process = subprocess.Popen([str(word) for word in command], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        answers = []
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            for answer in self.process.stdout:
                if answer == "end\n":
                    return answers
                answers.append(json.loads(answer))
        except BrokenPipeError:
            pass
        sys.exit(f"bench: '{self.command[0]}' ended while measuring '{line}'")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0


def find_onnxruntime(folder):
    """The library, or None: by ORT_LIBRARY, else where npm put it."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, "none")
    pattern = f"{folder}/node_modules/onnxruntime-node/bin/napi-v*/linux/{machine}/libonnxruntime.so.1"
    found = [setting("ORT_LIBRARY", "")] + sorted(glob.glob(pattern))
    has_onnx = subprocess.run([PYTHON, "-c", "import onnx, numpy"], stderr=subprocess.DEVNULL).returncode == 0
    found = [path for path in found if path and os.path.exists(path)]
    return os.path.abspath(found[0]) if found and has_onnx else None


class OnnxRuntime:
    """Models of each case are written once, and each is timed in a process of its own."""

    def __init__(self, programs, library, scratch):
        self.program, self.runtime, self.scratch = programs / "peer_onnxruntime", library, scratch
        self.models, self.version = {}, "?"

    def write(self, c):
        if c.id not in self.models:
            made = subprocess.run([PYTHON, str(HERE / "peer_onnx_models.py"), self.scratch, c.id],
                                  env=environment("auto", 2), stdout=subprocess.PIPE, text=True)
            self.models[c.id] = made.stdout.split()
            if made.returncode:
                message(f"bench: {c.id}: no ONNX model")
        return self.models[c.id]

    def measure(self, c, threads):
        answers = []
        for folder in [] if c.relational else self.write(c):
            done = subprocess.run([self.program, self.runtime, f"{self.scratch}/{folder}", str(threads), SECONDS],
                                  env=environment("auto"), stdout=subprocess.PIPE, text=True)
            if done.returncode:
                continue  # it has said why
            answer = json.loads("{" + done.stdout + "}")
            self.version = answer.pop("version")
            if answer["error"] > 1e-3:
                message(f"bench: {folder} is wrong by {answer['error']:g}, not counted")
                continue
            answers.append(dict(answer, case=c.id, peer="onnxruntime", threads=threads,
                                variant=folder[len(c.id) + 1:]))
        return answers


# ---- measuring ---------------------------------------------------------------------------------


def gradient(c):
    """The id of a case's gradients."""
    return f"gradient {c.id}"


def is_timed(what):
    return what in ("time", "both")


def is_weighed(what):
    return what in ("memory", "both")


def on(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


class Bench:
    def __init__(self, programs, onnxruntime_folder, scratch):
        self.programs = programs
        known = cases.read().values()
        self.cases = {c.id: c for c in known if ONLY.search(c.id)}
        self.gradients = {c.id: c for c in known if c.gradients != "none" and ONLY.search(gradient(c))}
        self.best = {}  # (case, threads, peer, variant): fields
        self.limits = {}  # threads: fields
        self.torch_version = None
        self.torch = has_torch()
        library = find_onnxruntime(onnxruntime_folder)
        self.onnxruntime = OnnxRuntime(programs, library, scratch) if library else None
        if not self.torch:
            message("bench: PyTorch is skipped, it is not installed (make bench-peers)")
        if not self.onnxruntime:
            message("bench: ONNX Runtime is skipped, it is not installed (make bench-peers)")

    def layers(self, threads, blas, *what):
        return Process([self.programs / "layers", cases.FILE, threads, SECONDS, *what], environment(blas))

    def start(self, threads):
        """The processes that take turns; the first is ours."""
        started = [self.layers(threads, "auto", "ours", "yardstick")]
        if "OPENBLAS_CORETYPE" in os.environ:
            started.append(self.layers(threads, "as told", "yardstick"))
        if self.torch:
            command = [PYTHON, HERE / "peer_torch.py", threads, SECONDS]
            started.append(Process(command, environment("auto", threads)))
            self.torch_version = started[-1].ask("version")[0]["version"]
            openmp = setting("OPENMP_BLAS", "")
            if openmp and threads > 1:
                env = dict(environment("auto", threads), LD_LIBRARY_PATH=openmp)
                started.append(Process(command + ["openmp"], env))
        return started

    def keep(self, answer):
        """The lowest minimum of all passes, with the median of that pass."""
        key = answer["case"], answer["threads"], answer["peer"], answer["variant"]
        old = self.best.get(key)
        if old is None or answer["min_us"] < old["min_us"]:
            self.best[key] = answer

    def time(self, threads):
        started = self.start(threads)
        limit = started[0].ask("machine")[0]
        old = self.limits.setdefault(threads, limit)
        old["flops"] = max(old["flops"], limit["flops"])
        for c in self.cases.values():
            if is_timed(c.what):
                self.take_turns(started, c.id, threads)
                for answer in self.onnxruntime.measure(c, threads) if self.onnxruntime else []:
                    self.keep(answer)
        for c in self.gradients.values():
            if is_timed(c.gradients):
                self.take_turns(started, gradient(c), threads)
        for process in started:
            process.close()

    def take_turns(self, started, name, threads):
        message(f"bench: {name}, {on(threads)}")
        for process in started:
            for answer in process.ask(name):
                self.keep(answer)

    def memory(self, threads):
        answers = []
        names = [c.id for c in self.cases.values() if is_weighed(c.what)]
        names += [gradient(c) for c in self.gradients.values() if is_weighed(c.gradients)]
        for name in names:
            message(f"bench: memory of {name}, {on(threads)}")
            process = self.layers(threads, "auto", "ours")
            answers += [dict(answer, case=name) for answer in process.ask(f"memory {name}")]
            process.close()
        return answers

    def scratch(self, threads):
        """What one sample needs at several lengths, by layer: cases that differ in size alone are one."""
        found = {}
        process = self.layers(threads, "auto", "ours")
        for c in self.gradients.values():
            layer = c.layer, c.D, c.H, c.mode, c.mask
            if c.Q == c.K and layer not in found:
                message(f"bench: scratch of {gradient(c)}, {on(threads)}")
                found[layer] = [process.ask(f"scratch {c.id} {length}")[0] for length in LENGTHS]
        process.close()
        return list(found.values())

    def projections(self):
        """By (width, rows): ours, and BLAS in each of its settings."""
        found = {}
        for blas in ["auto"] + (["as told"] if "OPENBLAS_CORETYPE" in os.environ else []):
            for _ in range(PASSES):
                done = subprocess.run([self.programs / "projections", SECONDS], env=environment(blas),
                                      stdout=subprocess.PIPE, text=True, check=True)
                for line in done.stdout.splitlines():
                    row = json.loads(line)
                    old = found.setdefault((row["width"], row["rows"]), dict(row, others={}))
                    for field in ("min_us", "bf16_min_us"):
                        old[field] = min(old[field], row[field])
                    for field in ("bandwidth", "bf16_bandwidth", "error", "bf16_error", "limit"):
                        old[field] = max(old[field], row[field])
                    others = old["others"]
                    others[row["blas"]] = min(others.get(row["blas"], math.inf), row["blas_min_us"])
        return found

    def fastest(self, case, threads, peer):
        found = [a for (c, t, p, _), a in self.best.items() if (c, t, p) == (case, threads, peer)]
        return min(found, key=lambda a: a["min_us"]) if found else None


# ---- printing ----------------------------------------------------------------------------------


def table(rows):
    """Columns as wide as they need to be; the first is text, the others stand to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def microseconds(us):
    return f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def error_text(answer):
    return "NaN!" if answer["error"] is None else f"{answer['error']:.0e}"


def times(ours, other):
    return f"{other['min_us'] / ours['min_us']:.2f}" if other else "-"


def mean(seen):
    """The geometric one, of pairs (ratio, id)."""
    return math.exp(sum(math.log(ratio) for ratio, _ in seen) / len(seen))


def print_cases(bench, threads):
    limit = bench.limits[threads]["flops"]
    print(f"\n{on(threads)}: the limit is {limit / 1e9:.0f} GFLOP/s of multiply-adds\n")
    rows = [["case", "us", "median", "GFLOP/s", "limit %", "read %", "x cblas", "x PyTorch", "x ONNX Rt", "error",
             "plan us", "bf16 us", "bf16 error"]]
    ratios = {"cblas": [], "torch": [], "onnxruntime": []}
    for c in bench.cases.values():
        ours = bench.fastest(c.id, threads, "ours")
        if not ours:
            continue
        flops = cases.flop(c) / ours["min_us"] * 1e6
        cells = [c.id, microseconds(ours["min_us"]), microseconds(ours["median_us"]), f"{flops / 1e9:.1f}",
                 f"{100 * flops / ours['limit']:.0f}", f"{100 * ours['read_us'] / ours['min_us']:.0f}" if threads == 1 else "-"]
        for peer, seen in ratios.items():
            other = bench.fastest(c.id, threads, peer)
            cells.append(times(ours, other))
            if other:
                seen.append((other["min_us"] / ours["min_us"], c.id))
        bf16 = bench.fastest(c.id, threads, "ours-bf16")
        cells += [error_text(ours), f"{ours['plan_us']:.2f}"]
        rows.append(cells + ([microseconds(bf16["min_us"]), error_text(bf16)] if bf16 else ["", ""]))
    table(rows)
    print()
    for peer, seen in ratios.items():
        if seen:
            print(f"against {peer}: geometric mean {mean(seen):.2f}, least {min(seen)[0]:.2f} ({min(seen)[1]})")
    for c in bench.cases.values():
        dense, causal = (bench.fastest(i, threads, "ours") for i in (c.id, c.id.replace("core-", "core-causal-")))
        if dense and causal and dense is not causal:
            print(f"{c.id}: causal is {dense['min_us'] / causal['min_us']:.2f} times as fast as dense")


def print_gradients(bench, threads):
    print(f"\n{on(threads)}: all gradients of inputs and parameters; 'us' includes a forward, 'backward' is what"
          " is left of it\n")
    rows = [["case", "us", "median", "limit %", "forward us", "x forward", "backward / forward", "PyTorch us", "x PyTorch",
             "error"]]
    backwards, ratios = [], []
    for c in bench.gradients.values():
        ours, forward, torch = (bench.fastest(gradient(c), threads, peer) for peer in ("ours", "ours-forward", "torch"))
        if not ours:
            continue
        whole = ours["min_us"] / forward["min_us"]
        rate = 3 * cases.flop(c) / ours["min_us"] * 1e6
        rows.append([c.id, microseconds(ours["min_us"]), microseconds(ours["median_us"]), f"{100 * rate / ours['limit']:.0f}",
                     microseconds(forward["min_us"]), f"{whole:.2f}", f"{whole - 1:.2f}",
                     microseconds(torch["min_us"]) if torch else "-", times(ours, torch), error_text(ours)])
        if cases.flop(c) >= BAR_FLOP:
            backwards.append((whole - 1, c.id))
        if torch:
            ratios.append((torch["min_us"] / ours["min_us"], c.id))
    table(rows)
    print()
    if backwards:
        print(f"backward / forward, from {BAR_FLOP / 1e9:g} GFLOP on: most {max(backwards)[0]:.2f} ({max(backwards)[1]}), "
              f"bar {BACKWARD_BAR}")
    if ratios:
        print(f"against torch: geometric mean {mean(ratios):.2f}, least {min(ratios)[0]:.2f} ({min(ratios)[1]}), "
              f"aim {TORCH_AIM}")


def print_scratch(threads, found):
    print(f"\n{on(threads)}: scratch of one sample, MB (2^20), and of each of its positions, bytes\n")
    rows = [["layer of", "of"] + [f"{n} long" for n in LENGTHS] + [f"a position of {n}" for n in LENGTHS]]
    for answers in found:
        for what in "forward", "gradients":
            rows.append([answers[0]["case"], what] + [f"{a[what] / 2 ** 20:.2f}" for a in answers] +
                        [f"{a[what] / a['length']:.0f}" for a in answers])
    table(rows)


def print_peers(bench, threads):
    print(f"\n{on(threads)}: every way to run the peers, microseconds, fastest first\n")
    for name in [*bench.cases, *map(gradient, bench.gradients.values())]:
        found = sorted((a["min_us"], f"{peer} {variant}") for (i, t, peer, variant), a in bench.best.items()
                       if (i, t) == (name, threads))
        if found:
            print(f"{name}: " + ", ".join(f"{name} {microseconds(us)}" for us, name in found))


def print_projections(found):
    names = sorted({name for row in found.values() for name in row["others"]})
    print("\nprojections of m rows, k = n, 1 thread, GFLOP/s; with one row also the share of the speed at which\n"
          "a buffer of the weight's size is read\n")
    rows = [["k = n", "m", "us", "GFLOP/s", "limit %", "error"] + [f"cblas {name}" for name in names] +
            ["GB/s", "read GB/s", "share %", "bf16 GFLOP/s", "x float32", "error"]]
    for (width, m), row in found.items():
        flop = 2 * m * width ** 2
        flops, speed = flop / row["min_us"] * 1e6, 4 * width ** 2 / row["min_us"] * 1e6
        cells = [str(width), str(m), microseconds(row["min_us"]), f"{flops / 1e9:.1f}", f"{100 * flops / row['limit']:.0f}"]
        cells += [f"{row['error']:.0e}"] + [f"{flop / row['others'][name] / 1e3:.1f}" for name in names]
        cells += [f"{speed / 1e9:.0f}", f"{row['bandwidth'] / 1e9:.0f}", f"{100 * speed / row['bandwidth']:.0f}"] \
            if m == 1 else [""] * 3
        cells += [f"{flop / row['bf16_min_us'] / 1e3:.1f}", f"{row['min_us'] / row['bf16_min_us']:.2f}",
                  f"{row['bf16_error']:.0e}"]
        rows.append(cells)
    table(rows)


def print_memory(answers):
    print("\nmemory of one run beyond inputs, weights and outputs, MB (2^20)\n")
    rows = [["case", "threads", "scratch asked for", "peak growth", "seconds"]]
    for a in answers:
        rows.append([a["case"], str(a["threads"]), f"{a['scratch'] / 2 ** 20:.1f}", f"{a['peak'] / 2 ** 20:.1f}",
                     f"{a['seconds']:.2f}"])
    table(rows)


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return os.uname().machine


def print_head(bench):
    limit = bench.limits[THREADS[0]]
    told = os.environ.get("OPENBLAS_CORETYPE")
    print(f"machine: {processor()}, {len(os.sched_getaffinity(0))} processors, "
          f"load {os.getloadavg()[0]:.1f} at the end")
    print(f"ours: kernels {limit['kernels']}; cblas: OpenBLAS, {limit['blas']} by its own choice"
          + (f", and {told} as the environment says" if told else ""))
    print(f"PyTorch: {bench.torch_version or 'skipped'}; "
          f"ONNX Runtime: {bench.onnxruntime.version if bench.onnxruntime else 'skipped'}")
    print(f"each figure: the fastest of at least 3 runs in {SECONDS} s, best of {PASSES}; 'x': how many times as long\n"
          "the fastest form of that peer takes; 'error': largest difference from cblas, as a share of the largest number")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: layers.py PROGRAMS ONNXRUNTIME")
    with tempfile.TemporaryDirectory(prefix="attentiond-bench.") as scratch:
        bench = Bench(pathlib.Path(sys.argv[1]), sys.argv[2], scratch)
        for _ in range(PASSES):
            for threads in THREADS:
                bench.time(threads)
        projections = bench.projections() if ONLY.search("projections") and 1 in THREADS else {}
        memory = [answer for threads in THREADS for answer in bench.memory(threads)]
        scratches = {threads: bench.scratch(threads) for threads in THREADS} if bench.gradients else {}
    print_head(bench)
    for threads in THREADS:
        if bench.cases:
            print_cases(bench, threads)
        if bench.gradients:
            print_gradients(bench, threads)
    if projections:
        print_projections(projections)
    if memory:
        print_memory(memory)
    for threads, found in scratches.items():
        print_scratch(threads, found)
    for threads in THREADS:
        print_peers(bench, threads)


main()
