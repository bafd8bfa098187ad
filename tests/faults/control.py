"""The other side of inject.h: a file that the preloaded library maps, and a daemon that runs with it."""
import atexit
import http.client
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time

KINDS = ["alloc", "open", "stat", "read", "write", "receive", "send", "accept", "wait", "thread", "random", "connect"]
PATH, WHERE, REAL, MONO, SEED, FIRST, EACH = 0, 256, 512, 520, 528, 536, 48
FOREVER = 2**63
PATIENCE = float(os.environ.get("PATIENCE", "30"))


class Control:
    """Arms kinds of calls. What it says holds from the next call on."""

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "control"
        self.file.write_bytes(bytes(FIRST + EACH * len(KINDS)))
        with open(self.file, "r+b") as opened:
            self.map = mmap.mmap(opened.fileno(), 0)

    def _text(self, at):
        return self.map[at : at + 256].split(b"\0")[0].decode(errors="replace")

    def _at(self, kind):
        return FIRST + EACH * KINDS.index(kind)

    def watch(self, path, seed=1):
        """Faults of files are for those whose path has this in it."""
        self.map[PATH : PATH + 256] = str(path).encode().ljust(256, b"\0")
        struct.pack_into("<Q", self.map, SEED, seed)

    def shift(self, real_s=0, mono_s=0):
        struct.pack_into("<qq", self.map, REAL, int(real_s * 1e9), int(mono_s * 1e9))

    def arm(self, kind, error=12, first=0, past=None, rate=0.0, shorten=False):
        """Fail calls [first, past) from now on, counted from 1, or a share of them; without, count alone."""
        at = self._at(kind)
        self.disarm(kind)
        self.map[WHERE : WHERE + 256] = bytes(256)
        past = first + 1 if past is None else past
        struct.pack_into("<III", self.map, at + 4, error, int(rate * 65536), int(shorten))
        struct.pack_into("<QQQQ", self.map, at + 16, 0, first, past if first else 0, 0)
        struct.pack_into("<I", self.map, at, 1)

    def disarm(self, *kinds):
        for kind in kinds or KINDS:
            struct.pack_into("<I", self.map, self._at(kind), 0)

    def calls(self, kind):
        return struct.unpack_from("<Q", self.map, self._at(kind) + 16)[0]

    def hits(self, kind):
        return struct.unpack_from("<Q", self.map, self._at(kind) + 40)[0]

    def where(self):
        return self._text(WHERE)


class Daemon:
    """The real daemon with the library before all others."""

    def __init__(self, program, library, root, *options, control=None, limits=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="faults.", dir=root))
        self.control = control or Control(self.folder)
        self.log = self.folder / "log"
        arguments = [program, "--http-port=0", "--workers=2", *options]
        if limits:
            arguments = ["prlimit", *limits, *arguments]
        environment = {**os.environ, "LD_PRELOAD": library, "ATTN_INJECT": str(self.control.file)}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, env=environment)
        atexit.register(self.kill)  # nothing is left behind, whatever happens here
        self.port = None

    def text(self):
        return self.log.read_text(errors="replace")

    def ended(self):
        return self.process.poll() is not None

    def wait_started(self):
        """True when it serves, False when it has ended."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for line in self.text().splitlines():
                if "started" in line and "port=" in line:
                    self.port = int(line.split("port=")[1].split()[0])
                    return True
            if self.ended():
                return False
            time.sleep(0.005)
        self.kill()
        raise AssertionError("it neither starts nor ends:\n" + self.text()[-600:])

    def connect(self):
        """A connection that has been used already, so that all is there that belongs to it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/v2/health/live")
        connection.getresponse().read()
        return connection

    def ask(self, verb, path, body=None, headers=None, connection=None):
        """(status, headers, body); None where the connection was closed without a reply."""
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(verb, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        except (ConnectionError, http.client.RemoteDisconnected, http.client.IncompleteRead):
            return None
        finally:
            connection.close()

    def files(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def processor_seconds(self):
        fields = pathlib.Path("/proc/%d/stat" % self.process.pid).read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """The exit status after SIGTERM; faults that are armed stay so."""
        if not self.ended():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("it does not stop:\n" + self.text()[-600:])

    def kill(self):
        if not self.ended():
            self.process.kill()
        self.process.wait()
