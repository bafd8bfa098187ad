"""A daemon that serves a repository, and what has to hold of it around a fault."""
import json
import pathlib
import subprocess
import sys
import time

import asked
from control import PATIENCE, Daemon

MODELS = pathlib.Path(__file__).resolve().parent.parent / "integration" / "models.py"


def make_repository(bench, name):
    root = pathlib.Path(bench.root) / name
    subprocess.run([sys.executable, str(MODELS), "repository", str(root)], check=True)
    return root


class Scene:
    def __init__(self, bench, name, *options, **more):
        self.bench = bench
        self.repository = make_repository(bench, name)
        self.daemon = Daemon(bench.program, bench.injection, bench.root, "--model-repository=%s" % self.repository,
                             "--model-control-mode=explicit", "--load-model=mha,causal,speech", *options, **more)
        self.control = self.daemon.control
        if not self.daemon.wait_started():
            raise AssertionError("it does not start:\n" + self.daemon.text())
        self.right = {}

    def ask(self, request, connection=None):
        return self.daemon.ask(*request, connection=connection)

    def learn(self, request):
        """The right answer of a request, asked without any fault."""
        answer = self.ask(request)
        if not answer or answer[0] != 200:
            raise AssertionError("%s: %s" % (request[1], answer))
        self.right[request[1:3]] = asked.content_of(answer)

    def is_right(self, request, answer):
        return answer is not None and answer[0] == 200 and asked.content_of(answer) == self.right[request[1:3]]

    def fault_of(self, request, answer, silent=False, least=500):
        """Why an answer under a fault cannot be accepted; '' where it can. `silent`: it may be none at all; `least`: the
        first status that tells of a fault."""
        if self.daemon.ended():
            return "the daemon has died with %s: %s" % (self.daemon.process.returncode, self.daemon.text()[-500:])
        if answer is None:
            return "" if silent else "closed without an answer"
        if answer[0] == 200:
            if request[1:3] not in self.right or self.is_right(request, answer):
                return ""
            return "a wrong answer: %s" % (answer[2][:300],)
        if answer[0] < least:
            return "status %d: %s" % (answer[0], answer[2][:300])
        try:
            return "" if isinstance(json.loads(answer[2])["error"], str) else "no error in %s" % answer[2]
        except (ValueError, KeyError, TypeError):
            return "no JSON error but %s" % answer[2][:300]

    def fault_after(self, *requests):
        """Why what is asked when the fault is over is not answered as ever; '' where it is."""
        for request in requests:
            answer = self.ask(request)
            if not self.is_right(request, answer):
                return self.fault_of(request, answer) or "afterwards %s is answered %s" % (request[1], answer)
        return ""

    def settled_files(self, most):
        """The number of open files, once it is not above this one, or when patience ends."""
        end = time.monotonic() + PATIENCE
        while self.daemon.files() > most and time.monotonic() < end:
            time.sleep(0.01)
        return self.daemon.files()

    def end(self, what):
        try:
            status = self.daemon.stop()
            self.bench.point("stop", what, status == 0, "exit status %s: %s" % (status, self.daemon.text()[-300:]))
        except AssertionError as why:
            self.bench.point("stop", what, False, why)


def start(bench, daemon, kind, what):
    """It serves and stops, or it ends with a status and a reason."""
    why = ""
    try:
        if daemon.wait_started():
            answer = daemon.ask("GET", "/v2/health/live")
            daemon.control.disarm()
            status = daemon.stop()
            why = "" if answer and answer[0] == 200 and status == 0 else "answer %s, status %s" % (answer, status)
        elif daemon.process.returncode not in (1, 2, 127):
            why = "it ended with %s" % daemon.process.returncode
        elif not daemon.text().strip():
            why = "it ended without a word"
    except AssertionError as reason:
        why = reason
    bench.point(kind, "%s in %s" % (what, daemon.control.where()), not why, "%s %s" % (why, daemon.text()[-400:]))
