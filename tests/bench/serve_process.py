"""Servers that the HTTP bench starts, what they weigh, and the load generator. Standard library only."""
import array
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time

PATIENCE = 60  # seconds that a start or a stop may take


def setting(name, default):
    return os.environ.get(name) or default


def message(text):
    print(text, file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


# ---- requests ----------------------------------------------------------------------------------


def draw(n):
    """n floats as little-endian bytes; the same each time."""
    rng = random.Random(2)
    numbers = array.array("f", (rng.uniform(-1, 1) for _ in range(n)))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def floats(content):
    numbers = array.array("f", content)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def ask(connection, path, body=b"", headers=None, verb="POST"):
    """(status, headers, body); the connection stays open."""
    connection.request(verb, path, body, headers or {})
    reply = connection.getresponse()
    return reply.status, reply.headers, reply.read()


class Request:
    """An infer request with binary tensors: inputs are (name, shape, bytes)."""

    def __init__(self, model, inputs, parameters=None):
        described = [{"name": name, "datatype": "FP32", "shape": shape,
                      "parameters": {"binary_data_size": len(content)}} for name, shape, content in inputs]
        parameters = dict({"binary_data_output": True}, **(parameters or {}))
        text = json.dumps({"parameters": parameters, "inputs": described}).encode()
        self.path = f"/v2/models/{model}/infer"
        self.headers = {"Content-Type": "application/octet-stream",
                        "Inference-Header-Content-Length": str(len(text))}
        self.body = text + b"".join(content for _, _, content in inputs)

    def send(self, connection):
        """(status, the only output's bytes, or the error's text)."""
        status, headers, body = ask(connection, self.path, self.body, self.headers)
        if status != 200:
            return status, body.decode()
        return status, body[int(headers.get("Inference-Header-Content-Length", 0)):]


# ---- servers -----------------------------------------------------------------------------------


def tree(pid):
    """A process and all that came from it."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


class Server:
    """A server process. command: its words, PORT standing for the port."""

    def __init__(self, name, command, environment=None, log=None):
        self.name, self.command, self.log = name, command, log
        self.environment = dict(os.environ, **(environment or {}))
        self.process, self.port = None, None

    def start(self, probe):
        """Start, and ask until probe(connection) is true. Returns the seconds that took."""
        self.port = free_port()
        words = [str(word).replace("PORT", str(self.port)) for word in self.command]
        output = open(self.log, "a") if self.log else subprocess.DEVNULL
        begin = time.perf_counter()
        self.process = subprocess.Popen(words, env=self.environment, stdout=output, stderr=output)
        while not self.answers(probe):
            if self.process.poll() is not None or time.perf_counter() - begin > PATIENCE:
                self.stop()
                raise RuntimeError(f"{self.name} did not start" + (f", see {self.log}" if self.log else ""))
            time.sleep(0.0005)
        return time.perf_counter() - begin

    def answers(self, probe):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE):
                pass
            connection = self.connect()
            try:
                return probe(connection)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def stop(self):
        """End it and all that came from it; True when it ended by itself once it was asked to."""
        process, self.process = self.process, None
        if not process or process.poll() is not None:
            return False
        family = tree(process.pid)
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            for pid in family:
                os.kill(pid, signal.SIGKILL)
            process.wait()
            return False
        return True

    def cpu_seconds(self):
        """Processor time so far, of the whole tree."""
        ticks = 0
        for pid in tree(self.process.pid):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """(resident, its share of what processes have in common), bytes, of the whole tree."""
        sums = {"Rss": 0, "Pss": 0}
        for pid in tree(self.process.pid):
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            for name in sums:
                sums[name] += 1024 * int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1))
        return sums["Rss"], sums["Pss"]


def daemon(program, repository, *words, name="attentiond", log=None):
    return Server(name, [program, "--model-repository", repository, "--http-port", "PORT", *words], log=log)


# ---- the load generator ------------------------------------------------------------------------


class Load:
    """A run of the load generator; iterate over its lines as they come."""

    def __init__(self, program, server, *words):
        words = [str(word) for word in words]
        self.process = subprocess.Popen([str(program), "--json-lines", *words, f"127.0.0.1:{server.port}"],
                                        stdout=subprocess.PIPE, text=True)

    def __iter__(self):
        for line in self.process.stdout:
            yield json.loads(line)
        if self.process.wait() != 0:
            raise RuntimeError("the load generator failed")


def run_load(program, server, *words):
    """The lines of one run: its parts and kinds, then the totals."""
    return list(Load(program, server, *words))


class Cell:
    """The best of each figure over all rounds."""

    def __init__(self):
        self.rps, self.failed = 0, 0
        self.turns = []  # requests a second of each round
        self.p50 = self.p99 = self.cpu = float("inf")

    def add(self, part, cpu):
        """cpu: seconds of the server for each request."""
        self.failed += part["failed"]
        self.turns.append(part["rps"])
        if part["good"] > 0:
            self.rps = max(self.rps, part["rps"])
            self.p50, self.p99 = min(self.p50, part["p50_us"]), min(self.p99, part["p99_us"])
            self.cpu = min(self.cpu, 1e6 * cpu)


def measure(program, server, seconds, clients, words, cell):
    """One run of the load generator into a cell."""
    timing = f"--seconds={seconds}", "--warm=0.5", f"--connections={clients}"
    before = server.cpu_seconds()
    part, total = run_load(program, server, *timing, *words)
    cell.add(part, (server.cpu_seconds() - before) / max(total["replies"], 1))


# ---- printing ----------------------------------------------------------------------------------


def table(rows):
    """Columns as wide as they need to be; the first is text, the others stand to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip(), flush=True)


def milliseconds(us):
    return f"{us / 1e3:.3f}" if us < 1e4 else f"{us / 1e3:.1f}"


def count(n):
    return f"{n:,.0f}" if n >= 100 else f"{n:.1f}"


def ratio(above, below):
    return f"{above / below:.2f}" if below and above != float("inf") else "-"


def megabytes(n):
    return f"{n / 2 ** 20:.1f}"


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return os.uname().machine


def machine():
    return f"{processor()}, {len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}"
