"""A daemon as a child process: started on a port, stopped with a signal, its log read for what must not be there.
Standard library only."""
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

from talk import Gone, Talk, message

# What sanitizers, assertions, the allocator of the C library and one_lock.c write.
REPORT = re.compile(r"Sanitizer|^one lock: |runtime error|Assertion|\*\*\* |free\(\)|malloc\(\)|corrupt")
PRELOAD = os.environ.get("DAEMON_PRELOAD")  # one_lock.c, for the daemon alone
WATCHED = "locks are watched"
PATIENCE = 180  # seconds for a start or a stop


def free_port():
    """Below those that the system gives to outgoing connections, of which one could take it meanwhile."""
    while True:
        port = random.SystemRandom().randrange(10000, 32768)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            continue


def options_for(name, given):
    """What this sanitizer is told, before what the user says."""
    ours = {"TSAN_OPTIONS": "detect_deadlocks=1:second_deadlock_stack=1:halt_on_error=0:exitcode=66:history_size=4",
            "ASAN_OPTIONS": "detect_leaks=1:exitcode=66", "UBSAN_OPTIONS": "print_stacktrace=1"}[name]
    return f"{ours}:{given}" if given else ours


class Daemon:
    """One run; the log goes to a file."""

    def __init__(self, program, port, log, arguments):
        environment = dict(os.environ)
        for name in ("TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
            environment[name] = options_for(name, environment.get(name))
        if PRELOAD:
            environment["LD_PRELOAD"] = PRELOAD
        self.port, self.log = port, pathlib.Path(log)
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen([program, f"--http-port={port}", *arguments], stdout=file,
                                            stderr=subprocess.STDOUT, env=environment)
        self.pid = self.process.pid

    def wait_for_start(self):
        """Until it takes a connection and answers."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the daemon ended at its start: {self.tail()}")
            try:
                with Talk(self.port) as talk:
                    talk.ask(message("GET", "/v2/health/live"))
                return
            except (ConnectionRefusedError, Gone):
                time.sleep(0.01)
        raise AssertionError("the daemon does not start")

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def ended(self):
        """The faults of its end: it must come, with status 0, and nothing in the log."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return [f"the daemon did not end within {PATIENCE} s: {self.tail()}"]
        faults = [f"the daemon ended with status {code}: {self.tail()}"] if code != 0 else []
        return faults + self.reports()

    def state(self):
        """(resident bytes, of them anonymous, descriptors, threads)."""
        proc = pathlib.Path(f"/proc/{self.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text(encoding="utf-8").splitlines())
        size = [int(status[name].split()[0]) << 10 for name in ("VmRSS", "RssAnon")]
        return (*size, len(os.listdir(proc / "fd")), int(status["Threads"]))

    def reports(self):
        """Lines of the log that a sanitizer or an assertion wrote, as faults."""
        lines = self.log.read_text(errors="replace").splitlines()
        if PRELOAD and WATCHED not in lines:
            return [f"{PRELOAD} is not there"]
        found = [i for i, line in enumerate(lines) if REPORT.search(line)]
        return ["in its log: " + "\n    ".join(lines[found[0] : found[0] + 60])] if found else []

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
