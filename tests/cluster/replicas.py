"""Daemons and the HAProxy in front of them, as processes of this machine or, the daemons, as containers.

Every replica has an address of its own on the loopback network and all have the same ports, as containers of
a service do; names.py tells HAProxy their addresses.
"""
import collections
import http.client
import os
import signal
import socket
import subprocess
import time

from names import Names

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CONTAINERS = os.path.join("tests", "container", "lib.sh")
START_SECONDS = 30
STOP_SECONDS = 45
POLL_SECONDS = 0.02
DRAIN_SECONDS = 3  # more than the 1.3 s that docker/haproxy.cfg needs to see it
LINE_WORDS = "client status server retries times bytes end verb path request sequence".split()
Line = collections.namedtuple("Line", "status server retries all_ms end path request sequence")


class Failure(Exception):
    """What a test expected and did not come."""


def wait_until(holds, seconds, what):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Failure("not within %d s: %s" % (seconds, what))
        time.sleep(POLL_SECONDS)


def free_port(addresses):
    """A port that is free at all of these addresses."""
    for _ in range(50):
        with socket.create_server((addresses[0], 0)) as first:
            port = first.getsockname()[1]
        try:
            for address in addresses:
                socket.create_server((address, port)).close()
            return port
        except OSError:
            continue
    raise Failure("no port is free at all of " + " ".join(addresses))


def get(address, port, path, seconds=5):
    """Status and body of a GET; status 0 when nobody answers."""
    connection = http.client.HTTPConnection(address, port, timeout=seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


class Replica:
    """A daemon at an address of its own. Subclasses say how it is run."""

    def __init__(self, cluster, number):
        self.cluster = cluster
        self.number = number
        self.name = "replica%d" % number
        self.address = "127.0.0.%d" % (20 + number)
        self.running = False

    def settings(self):
        return {"HTTP_ADDRESS": self.address, "HTTP_PORT": self.cluster.port, "HTTP_ADMIN_ADDRESS": self.address,
                "HTTP_ADMIN_PORT": self.cluster.admin_port, "DRAIN_SECONDS": self.cluster.drain_seconds,
                "EXIT_TIMEOUT_SECS": 10, "TRUSTED_PROXIES": "127.0.0.0/8", "WORKERS": 1, **self.cluster.settings}

    def environment(self):
        return {"ATTENTIOND_" + name: str(value) for name, value in self.settings().items()}

    def start(self):
        self.launch()
        self.running = True
        self.cluster.names.add(self.address)
        wait_until(lambda: self.is_ready() or not self.is_alive(), START_SECONDS, self.name + " is ready")
        if not self.is_alive():
            raise Failure(self.name + " ended at its start, see " + self.log_path())

    def is_ready(self):
        return get(self.address, self.cluster.port, "/v2/health/ready")[0] == 200

    def log_path(self):
        return os.path.join(self.cluster.scratch, self.name + ".log")

    def metric(self, name):
        """The sum of a metric's samples."""
        page = get(self.address, self.cluster.admin_port, "/metrics")[1].decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines()
                   if line.split("{")[0].split(" ")[0] == name)

    def terminate(self):
        """Stop it as an operator does; it has to end with status 0."""
        self.send(signal.SIGTERM)
        wait_until(lambda: not self.is_alive(), STOP_SECONDS, self.name + " stops")
        self.gone()
        if self.status() != 0:
            raise Failure("%s ended with status %s at SIGTERM, see %s" % (self.name, self.status(), self.log_path()))

    def kill(self):
        self.send(signal.SIGKILL)
        wait_until(lambda: not self.is_alive(), STOP_SECONDS, self.name + " is killed")
        self.gone()

    def gone(self):
        self.running = False
        self.cluster.names.remove(self.address)


class ProcessReplica(Replica):
    def settings(self):
        return {"MODEL_REPOSITORY": os.path.join(ROOT, "config", "models"), **super().settings()}

    def launch(self):
        with open(self.log_path(), "ab") as log:
            self.process = subprocess.Popen([self.cluster.daemon], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **self.environment()})

    def is_alive(self):
        return self.process.poll() is None

    def status(self):
        return self.process.returncode

    def send(self, number):
        self.process.send_signal(number)

    def discard(self):
        if self.is_alive():
            self.process.kill()
        self.process.wait()


class ContainerReplica(Replica):
    """A container of the image, as tests/container/lib.sh runs them; run.sh has set the environment."""

    def __init__(self, cluster, number):
        super().__init__(cluster, number)
        self.container = "attentiond-cluster-%d-%d" % (os.getpid(), number)
        self.pid = 0

    def run(self, *words):
        """Output goes to a file: a container's monitor would keep a pipe open."""
        path = os.path.join(self.cluster.scratch, self.name + ".podman")
        with open(path, "w+b") as output:
            code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                  timeout=START_SECONDS + STOP_SECONDS, check=False).returncode
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
        if code != 0:
            raise Failure("%s: %s" % (" ".join(words[:3]), said))
        return said

    def launch(self):
        if self.pid:
            self.run("podman", "wait", self.container)  # until its monitor has seen that it ended
            self.run("podman", "start", self.container)
        else:
            settings = [word for pair in self.environment().items() for word in ("-e", "%s=%s" % pair)]
            self.run("bash", "-c", '. "$1" && shift && run_container "$@"', "-", os.path.join(ROOT, CONTAINERS),
                     self.container, "--no-healthcheck", "--log-opt", "path=" + self.log_path(), *settings)
        self.pid = int(self.run("podman", "inspect", "--format", "{{.State.Pid}}", self.container))

    def is_alive(self):
        """Whether the daemon runs; one that has ended may be there until its container is wound up."""
        try:
            with open("/proc/%d/stat" % self.pid, encoding="utf-8") as file:
                return self.pid > 0 and file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def status(self):
        return int(self.run("podman", "wait", self.container))

    def send(self, number):
        os.kill(self.pid, number)

    def discard(self):
        if self.pid:
            self.run("podman", "rm", "-f", "-t", "1", self.container)


class Proxy:
    """HAProxy with the project's own configuration, or with another."""

    def __init__(self, cluster, path, name):
        self.address = "127.0.0.1"
        self.port = free_port([self.address])
        self.stats_port = free_port([self.address])
        self.socket_path = os.path.join(cluster.scratch, name + ".sock")
        self.log_path = os.path.join(cluster.scratch, name + ".log")
        settings = {"HAPROXY_BIND": "%s:%d" % (self.address, self.port), "HAPROXY_SOCKET": self.socket_path,
                    "HAPROXY_STATS_BIND": "%s:%d" % (self.address, self.stats_port),
                    "ATTENTIOND_HOST": "attentiond", "ATTENTIOND_PORT": str(cluster.port),
                    "RESOLVER": "127.0.0.1:%d" % cluster.names.port}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(["haproxy", "-db", "-f", path], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env={**os.environ, **settings})
        wait_until(lambda: os.path.exists(self.socket_path) or self.process.poll() is not None, START_SECONDS,
                   "HAProxy starts")
        if self.process.poll() is not None:
            raise Failure("HAProxy ended at its start, see " + self.log_path)

    def command(self, text):
        """What the runtime API answers."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(5)
            channel.connect(self.socket_path)
            channel.sendall(text.encode() + b"\n")
            return b"".join(iter(lambda: channel.recv(65536), b"")).decode()

    def servers(self):
        """Of each replica: {backend: {(address, name): status}}, of slots that have an address."""
        found = {}
        head, *lines = self.command("show stat").removeprefix("# ").splitlines()
        columns = head.split(",")
        for line in filter(None, lines):
            row = dict(zip(columns, line.split(",")))
            if row["addr"]:
                found.setdefault(row["pxname"], {})[row["addr"].split(":")[0]] = row["svname"], row["status"]
        return found

    def sees(self, replica, status="UP"):
        """Whether every backend has it in this state."""
        states = [of.get(replica.address, ("", ""))[1] for of in self.servers().values()]
        return bool(states) and all(state == status for state in states)

    def wait_for(self, replica, status="UP"):
        wait_until(lambda: self.sees(replica, status), START_SECONDS, "HAProxy sees %s %s" % (replica.name, status))

    def lines(self):
        """The requests of its log; see log-format in the configuration."""
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            words = [line.split() for line in log]
        return [Line(int(w[1]), w[2].split("/")[1], w[3], int(w[4].split("/")[-1]), w[6], w[8], w[9], w[10].strip("'"))
                for w in words if len(w) == len(LINE_WORDS) and "/" in w[2]]

    def discard(self):
        self.process.kill()
        self.process.wait()


class Cluster:
    """Replicas, their name server and a HAProxy; a context that leaves nothing behind."""

    def __init__(self, daemon, scratch, kind=ProcessReplica, drain_seconds=DRAIN_SECONDS, **settings):
        self.daemon = daemon
        self.scratch = scratch
        self.kind = kind
        self.drain_seconds = drain_seconds
        self.settings = settings
        self.names = Names()
        self.replicas = []
        self.proxies = []
        addresses = ["127.0.0.%d" % (20 + number) for number in range(1, 9)]
        self.port = free_port(addresses)
        self.admin_port = free_port(addresses)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.replicas + self.proxies:
            each.discard()

    def add(self, wait=True):
        """One more replica."""
        replica = self.kind(self, len(self.replicas) + 1)
        self.replicas.append(replica)
        replica.start()
        for proxy in self.proxies if wait else []:
            proxy.wait_for(replica)
        return replica

    def start(self, n):
        for _ in range(n):
            self.add()

    def proxy(self, path=os.path.join(ROOT, "docker", "haproxy.cfg")):
        name = os.path.basename(path).split(".")[0]
        proxy = Proxy(self, path, name)
        self.proxies.append(proxy)
        for replica in self.replicas:
            proxy.wait_for(replica)
        return proxy
