#!/usr/bin/env python3
"""Does the daemon stay right while everything happens at once?

stress.py DAEMON [--seed N] [--seconds N] [--round N] [--keep]

Rounds, each with a daemon of its own on the same port: clients that ask everything that there is, go in the middle of
it and misuse what they can, an operator that loads, unloads and changes models, and a stop, mostly under load. Every
answer is compared with those that a daemon gave that nobody else asked, for the weights that may serve at that moment.
One seed makes the settings of every round and what each client does, in its order; a round by itself: --round. The
number of rounds is what goes into the time. Standard library only."""
import argparse
import collections
import faulthandler
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import scaled
from catalogue import Catalogue
from clients import Client, World
from control import Control
from daemon import Daemon, free_port
from truth import Truth


def settings_of(rng):
    """The options of a round, and what they make lawful."""
    mode = rng.choice(("explicit", "explicit", "explicit", "poll", "none"))
    crowded = rng.random() < 0.25
    return {
        "mode": mode,
        "crowded": crowded,
        "drain": rng.choice((0, 0, 1, 2)),
        "impatient": rng.random() < 0.3,  # a second signal ends the drain
        "stop_at": rng.choice((0.4, 0.7, 0.9, 2)),  # part of the operations; 2: when all are done
        "clients": rng.randint(8, 20),
        "operations": rng.randint(100, 250),
        "options": [
            f"--model-control-mode={mode}",
            *(["--load-model=*"] if mode == "explicit" else []),
            *(["--repository-poll-secs=1"] if mode == "poll" else []),
            *([f"--http-max-connections={rng.randint(6, 12)}"] if crowded else []),
            f"--workers={rng.randint(1, 4)}",
            f"--http-thread-count={rng.randint(1, 3)}",
            f"--sequence-max={rng.choice((8, 1024))}",
            f"--log-level={rng.choice(('info', 'debug'))}",
            f"--log-format={rng.choice(('text', 'json'))}",
            f"--trace-rate={rng.randint(0, 3)}",
            "--allow-client-shm",
        ],
    }


class Stress:
    def __init__(self, program, seed, scratch):
        self.program, self.seed, self.scratch = program, seed, scratch
        self.port, self.catalogue = free_port(), Catalogue()
        self.faults, self.tally, self.n_rounds = [], collections.Counter(), 0

    def options(self, root, drain=0):
        return [f"--model-repository={root}", f"--log-dir={self.scratch / 'logs'}",
                f"--trace-file={self.scratch / 'trace'}", f"--drain-seconds={drain}"]

    def learn(self):
        """Every answer from a daemon that does nothing else, with both weights."""
        repository = scaled.Repository(self.scratch / "learn")
        repository.write()
        options = ["--model-control-mode=explicit", *self.options(repository.root)]
        daemon = Daemon(self.program, self.port, self.scratch / "learn.log", options)
        try:
            daemon.wait_for_start()
            self.catalogue.learn(self.port, repository)
            daemon.signal()
            self.faults += daemon.ended()
        finally:
            daemon.kill()

    def round(self, number):
        settings = settings_of(random.Random(f"{self.seed} {number}"))
        repository = scaled.Repository(self.scratch / f"models-{number}")
        repository.write()
        apart = self.scratch / f"apart-{number}"
        apart.mkdir()
        log = self.scratch / f"round-{number}.log"
        world = World(self.seed, number, self.catalogue, settings, Truth(scaled.MODELS))
        world.port = self.port
        daemon = Daemon(self.program, self.port, log, self.options(repository.root, settings["drain"]) + settings["options"])
        try:
            daemon.wait_for_start()
            clients, control = self.begin(world, repository, daemon, apart)
            self.stop(world, daemon, clients, control)
            found = daemon.ended()
        finally:
            daemon.kill()
        for client in [*clients, control]:
            client.join(300)
            found += client.faults + (["a client hangs"] if client.is_alive() else [])
            self.tally.update(client.tally)
        self.n_rounds += 1
        self.faults += [f"round {number} ({' '.join(settings['options'])}): {fault}" for fault in found]
        if not found:
            shutil.rmtree(repository.root)
            log.unlink()

    def begin(self, world, repository, daemon, apart):
        for model, (_, versions, _, _) in scaled.MODELS.items():
            if model != "fresh":
                world.truth.sure(model, {version: 0 for version in versions})
        clients = [Client(world, i + 1, world.settings["operations"]) for i in range(world.settings["clients"])]
        control = Control(world, repository, daemon.pid, apart)
        for thread in [*clients, control]:
            thread.start()
        return clients, control

    def stop(self, world, daemon, clients, control):
        """When the clients are so far; the operator, who is not told of stops, before."""
        settings = world.settings
        enough = settings["stop_at"] * settings["clients"] * settings["operations"]
        while any(c.is_alive() for c in clients) and sum(c.n_done for c in clients) < enough:
            time.sleep(0.01)
        control.asked_to_end = True
        control.join(300)
        world.stopped[1] = time.monotonic() + settings["drain"]
        world.stopped[0] = time.monotonic()
        daemon.signal()
        if settings["drain"] and settings["impatient"]:
            time.sleep(0.3)
            world.stopped[1] = time.monotonic()
            daemon.signal()

    def report(self, seconds):
        kinds = collections.defaultdict(list)
        for (kind, status), n in sorted(self.tally.items(), key=str):
            kinds[kind].append(f"{status}: {n}")
        for kind, counts in kinds.items():
            print(f"  {kind:18} {', '.join(counts)}")
        for fault in self.faults[:20]:
            print(f"stress: {fault}")
        n = sum(self.tally.values())
        print(f"stress: seed {self.seed}, {self.n_rounds} rounds, {n} answers in {seconds:.0f} s")
        print(f"stress: {n} passed, {len(self.faults)} failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("daemon", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--round", type=int, default=None, help="this one alone")
    parser.add_argument("--keep", action="store_true", help="leave the scratch folder")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"stress: seed {seed}", flush=True)
    faulthandler.register(signal.SIGUSR1)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="attentiond-stress."))
    (scratch / "logs").mkdir()
    stress = Stress(arguments.daemon.resolve(), seed, scratch)
    stress.learn()
    begun, number = time.monotonic(), arguments.round or 0
    while not stress.faults:
        stress.round(number)
        number += 1
        if arguments.round is not None or time.monotonic() - begun > arguments.seconds:
            break
    stress.report(time.monotonic() - begun)
    if stress.faults or arguments.keep:
        print(f"stress: what it left is in {scratch}")
    else:
        shutil.rmtree(scratch)
    sys.exit(1 if stress.faults or not stress.tally else 0)


if __name__ == "__main__":
    main()
