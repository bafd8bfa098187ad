#!/usr/bin/env python3
"""Is every bad request refused as it should be, whatever is wrong with it?

bad_requests.py DAEMON [--seed N] [--requests N] [--clients N]

Requests of every kind of fault (bad_bodies.py, bad_heads.py), drawn from one seed and sent ahead of each other on kept
connections, with good ones between them. Each must be answered with a status that is right for its fault and a JSON
error that names what is wrong; the good ones with their very bytes; the daemon lives on and ends as it should. Prints
kinds of faults by the statuses that they got. Standard library only."""
import argparse
import collections
import hashlib
import json
import math
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

import bad_bodies
import bad_heads  # noqa: F401: its faults are added to the others'
import scaled
from daemon import Daemon, free_port
from talk import Gone, Talk, message

KEY = b"\r\nX-API-Key: all-may-key"
AHEAD = 24  # requests that are sent before the first answer is read
PAGES = (400, 413, 431, 501, 505)  # of these the HTTP library has pages of its own
GOOD = message("POST", "/v2/models/tour/versions/1/infer", json.dumps({"inputs": [
    {"name": "q", "datatype": "FP32", "shape": [1, 1, 4], "data": [1, 2, 3, 4]}]}).encode())


def keyed(content):
    return content.replace(b"\r\n", KEY + b"\r\n", 1)


def keys():
    rows = [{"name": "all", "sha256": hashlib.sha256(b"all-may-key").hexdigest(), "admin": True},
            {"name": "narrow", "sha256": hashlib.sha256(b"narrow-key").hexdigest(), "models": ["score"]}]
    return json.dumps({"keys": rows})


class Sender(threading.Thread):
    """One client; its requests come from its own generator."""

    def __init__(self, port, seed, number, n, good):
        super().__init__(daemon=True)
        self.port, self.rng, self.left, self.good = port, random.Random(f"{seed} {number}"), n, good
        self.faults, self.table, self.n_good = [], collections.defaultdict(collections.Counter), 0
        kinds, weights, functions = zip(*bad_bodies.FAULTS)
        self.choices = list(zip(kinds, functions))
        self.weights = weights

    def draw(self):
        kind, function = self.rng.choices(self.choices, self.weights)[0]
        bad = function(self.rng)
        bad.kind = kind
        return bad

    def run(self):
        talk = None
        try:
            while self.left > 0 and len(self.faults) < 20:
                talk = talk or Talk(self.port)
                batch = self.batch()
                self.left -= len(batch)
                talk = self.exchange(talk, batch)
        except Exception as error:  # what went wrong here is a fault as well
            self.faults.append(repr(error)[:800])
        if talk:
            talk.close()

    def batch(self):
        """Those that end the connection come last."""
        batch = []
        while len(batch) < min(AHEAD, self.left):
            batch.append(self.draw())
            if batch[-1].ends:
                break
        return batch

    def exchange(self, talk, batch):
        """All ahead, a good one among them; the connection, or None where it has ended."""
        n = self.rng.randrange(len(batch))
        content = [bad.content if bad.keyless else keyed(bad.content) for bad in batch]
        content.insert(n, keyed(GOOD))
        expected = [*batch[:n], None, *batch[n:]]
        talk.send(b"".join(content))
        for i, bad in enumerate(expected):
            try:
                reply = talk.reply()
            except Gone as gone:
                self.faults.append(f"{bad.kind if bad else 'a good request'}: not answered ({gone}): {content[i][:600]!r}")
                talk.close()
                return None
            self.judge(bad, reply, content[i])
            if reply.closes():
                if not (bad and bad.ends):
                    self.faults.append(f"{bad.kind if bad else 'a good request'}: the connection is closed: {reply!r}: {content[i][:600]!r}")
                elif not talk.ended():
                    self.faults.append(f"{bad.kind}: something behind the last reply")
                talk.close()
                return None
        return talk

    def judge(self, bad, reply, content):
        if not bad:
            self.n_good += 1
            if reply.body != self.good:
                self.faults.append(f"a good request: {reply!r}")
            return
        self.table[bad.kind][reply.status] += 1
        fault = self.fault_of(bad, reply)
        if fault:
            self.faults.append(f"{bad.kind}: {fault}: {reply!r} to {content[:900]!r}")

    def fault_of(self, bad, reply):
        """What is wrong with the answer; None: nothing."""
        if reply.status not in bad.statuses:
            return f"expected {bad.statuses}"
        if bad.meant:
            wrong = self.fault_of_meant(bad, reply)
            if wrong:
                return wrong
        if reply.status == 200:
            return None
        if reply.status == 405 and not reply.header(b"Allow"):
            return "no Allow"
        if reply.status == 401 and not reply.header(b"WWW-Authenticate"):
            return "no WWW-Authenticate"
        if bad.ends and reply.status in PAGES and b"<html>" in reply.body:
            return None
        try:
            said = json.loads(reply.body.decode())
        except ValueError:
            return "no JSON"
        if not isinstance(said.get("error"), str) or not said["error"] or set(said) - {"error", "code"}:
            return "no error text"
        missing = [word for word in bad.words if word not in said["error"]]
        return f"does not name {missing}" if missing else None

    @staticmethod
    def fault_of_meant(bad, reply):
        """A request that chance has changed: is it right to take it?"""
        try:
            wanted = bad_bodies.meant(*bad.meant)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError, ZeroDivisionError) as error:
            return f"taken, though {error!r}" if reply.status == 200 else None
        if wanted is None or any(not abs(n) < bad_bodies.LARGEST for n in wanted):
            return None
        if reply.status != 200:
            return "refused, though nothing is wrong"
        got = json.loads(reply.body)["outputs"][0]["data"]
        close = len(got) == len(wanted) and all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3) for a, b in zip(got, wanted))
        return None if close else f"expected {wanted[:8]}"


def print_table(table):
    statuses = sorted({status for row in table.values() for status in row})
    width = max(map(len, table))
    print(f"{'fault':{width}}" + "".join(f"{status:>8}" for status in statuses))
    for kind in sorted(table):
        print(f"{kind:{width}}" + "".join(f"{table[kind][status] or '':>8}" for status in statuses))
    sums = {status: sum(row[status] for row in table.values()) for status in statuses}
    print(f"{'sum':{width}}" + "".join(f"{sums[status]:>8}" for status in statuses))


def run(program, port, scratch, seed, n_requests, n_clients):
    """(faults, table, answers to good requests)"""
    repository = scaled.Repository(scratch / "models")
    repository.write()
    (scratch / "keys.json").write_text(keys())
    (scratch / "logs").mkdir()
    daemon = Daemon(program, port, scratch / "log", [
        f"--model-repository={repository.root}", "--model-control-mode=explicit", "--load-model=*", "--allow-client-shm",
        f"--log-dir={scratch / 'logs'}", f"--api-keys={scratch / 'keys.json'}", "--http-max-input-size=1048576", "--log-level=error"])
    table, faults, n_good = collections.defaultdict(collections.Counter), [], 0
    try:
        daemon.wait_for_start()
        with Talk(port) as talk:
            good = talk.ask(keyed(GOOD))
        assert good.status == 200, good
        senders = [Sender(port, seed, i, n_requests // n_clients, good.body) for i in range(n_clients)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
            faults += sender.faults
            n_good += sender.n_good
            for kind, row in sender.table.items():
                table[kind].update(row)
        if daemon.process.poll() is None:
            daemon.signal()
        faults += daemon.ended()
    finally:
        daemon.kill()
    return faults, table, n_good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("daemon", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=4)
    arguments = parser.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="attentiond-bad."))
    begun = time.monotonic()
    faults, table, n_good = run(arguments.daemon.resolve(), free_port(), scratch, arguments.seed, arguments.requests, arguments.clients)
    seconds = time.monotonic() - begun
    print_table(table)
    for fault in faults[:20]:
        print(f"bad-requests: {fault}")
    n_bad = sum(sum(row.values()) for row in table.values())
    print(f"bad-requests: seed {arguments.seed}, {len(table)} kinds, {n_bad} bad and {n_good} good requests in {seconds:.0f} s")
    print(f"bad-requests: {n_bad + n_good} passed, {len(faults)} failed")
    if not faults:
        shutil.rmtree(scratch)
    sys.exit(1 if faults or not n_bad else 0)


if __name__ == "__main__":
    main()
