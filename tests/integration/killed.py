"""A daemon that is killed at any moment: killed.py DAEMON SCRATCH SEED TIMES. Exit status 0 when each time its files
are byte for byte as before, and the next start serves at the same socket; prints how often it was killed when.

Moments and what is asked until then come from SEED. The model repository, the keys and the certificate are what it
reads; the socket, the folder of logs and the file of traces are what it may write to.
"""
import collections
import hashlib
import http.client
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

DAEMON, SCRATCH, SEED, TIMES = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
PATIENCE = 60
LONGEST = 0.4  # seconds until it is killed
SOCKET = SCRATCH / "run" / "socket"
READ = SCRATCH / "models", SCRATCH / "keys.json"
WRITTEN = {SOCKET, SCRATCH / "logs", SCRATCH / "logs" / "log", SCRATCH / "traces", SCRATCH / "said"}
OPTIONS = [
    "--model-repository=%s" % (SCRATCH / "models"),
    "--model-control-mode=explicit",
    "--load-model=*",
    "--http-port=0",
    "--http-unix-socket=%s" % SOCKET,
    "--log-dir=%s" % (SCRATCH / "logs"),
    "--trace-file=%s" % (SCRATCH / "traces"),
    "--trace-rate=1",
    "--log-level=debug",
    "--exit-timeout-secs=%d" % PATIENCE,
]
BODY = (
    b'{"inputs":[{"name":"query","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"key","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"value","datatype":"FP32","shape":[1,1,4],"data":[1,2,3,4]}]}'
)
ASKED = [
    ("/v2/repository/models/%s/load", b""),
    ("/v2/repository/models/%s/unload", b""),
    ("/v2/models/%s/infer", BODY),
    ("/v2/logging", b'{"log_file":"log"}'),
]


class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(SOCKET))


def sums():
    """Of every file: what it is, its rights, when it was changed, what is in it."""
    found = {}
    for path in [SCRATCH, *sorted(SCRATCH.rglob("*"))]:
        if path in WRITTEN or path == SOCKET.parent or path == SCRATCH:
            continue
        about = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (about.st_mode, about.st_uid, about.st_ino, about.st_mtime_ns, content)
    return found


def start():
    with open(SCRATCH / "said", "ab") as said:
        return subprocess.Popen([DAEMON, *OPTIONS], stdout=said, stderr=said)


def request(verb, path, body=None):
    connection = Local("localhost")
    connection.request(verb, path, body)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def ask_on(daemon, chance, models):
    """Until it is gone."""
    while daemon.poll() is None:
        path, body = chance.choice(ASKED)
        try:
            request("POST", path % chance.choice(models) if "%" in path else path, body)
        except (OSError, http.client.HTTPException):
            time.sleep(0.001)
        if chance.random() < 0.1 and daemon.poll() is None:
            daemon.send_signal(signal.SIGHUP)


def answers(daemon):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and daemon.poll() is None:
        try:
            return request("GET", "/v2/models/mha/ready") == 200 and request("POST", "/v2/models/mha/infer", BODY) == 200
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)
    return False


def kill_once(chance, models):
    """Whether it had come to serve."""
    daemon = start()
    askers = [
        threading.Thread(target=ask_on, args=(daemon, random.Random(chance.random()), models)) for _ in range(3)
    ]
    for asker in askers:
        asker.start()
    time.sleep(chance.random() * LONGEST)
    served = SOCKET.exists()
    daemon.kill()
    daemon.wait()
    for asker in askers:
        asker.join()
    return served


def main():
    chance = random.Random(SEED)
    models = sorted(os.listdir(SCRATCH / "models"))
    before = sums()
    killed = collections.Counter()
    for n in range(TIMES):
        killed["serving" if kill_once(chance, models) else "starting"] += 1
        assert sums() == before, "after kill %d of seed %d: %s" % (n, SEED, set(sums().items()) ^ set(before.items()))
        if chance.random() < 0.3:
            continue  # the next one too starts on what was left
        daemon = start()
        assert answers(daemon), "after kill %d of seed %d it does not start" % (n, SEED)
        daemon.terminate()
        assert daemon.wait(PATIENCE) == 0, "after kill %d of seed %d it does not stop" % (n, SEED)
        assert not SOCKET.exists(), "its socket stays behind"
        assert sums() == before
    print("killed", dict(killed))


main()
