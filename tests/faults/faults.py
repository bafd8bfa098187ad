#!/usr/bin/env python3
"""What does the daemon do when what it stands on fails? faults.py quick|whole DAEMON INJECT-LIBRARY [PART...]

Every fault is injected into the running daemon. It must not crash, hang, keep descriptors, or give a wrong answer: a
request gets the right answer or a JSON error of a status above 499, and the same request afterwards the right one. In
`quick` a sample of the points is taken, from the seed in FAULTS_SEED. Exit status 0 when everything held."""
import os
import random
import shutil
import sys
import tempfile
import traceback

import allocations
import clocks
import disk
import exhaustion
import interrupts

PARTS = {"allocations": allocations, "interrupts": interrupts, "disk": disk, "exhaustion": exhaustion,
         "clocks": clocks}


class Bench:
    """Where the parts run, and what they found."""

    def __init__(self, mode, program, library):
        self.quick = mode == "quick"
        self.program, self.injection = os.path.realpath(program), os.path.realpath(library)
        self.seed = int(os.environ.get("FAULTS_SEED", "1"))
        self.random = random.Random(self.seed)
        self.root = tempfile.mkdtemp(prefix="attentiond-faults.", dir=os.environ.get("TMPDIR", "/tmp"))
        self.rows = {}
        self.n_calls = 0  # interrupted or shortened, often many to a point
        self.failures = []

    def point(self, kind, what, held, detail=""):
        """One fault that was injected, and whether the daemon came through."""
        row = self.rows.setdefault(kind, [0, 0])
        row[0] += 1
        row[1] += bool(held)
        if not held:
            self.failures.append((kind, what, detail))
            if len(self.failures) <= 60:
                print("faults: %s, %s: %s" % (kind, what, str(detail)[:600]), flush=True)
        return held

    def sample(self, points, most):
        """All of them, or so many in quick."""
        points = list(points)
        return sorted(self.random.sample(points, most)) if self.quick and len(points) > most else points


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("quick", "whole"):
        sys.exit(__doc__)
    bench = Bench(*sys.argv[1:4])
    for name in sys.argv[4:] or PARTS:
        try:
            PARTS[name].run(bench)
        except (TimeoutError, AssertionError):
            bench.point(name, "the whole", False, traceback.format_exc())
    print("%-34s %9s %9s" % ("faults of", "injected", "survived"))
    for kind, (n, held) in bench.rows.items():
        print("%-34s %9d %9d" % (kind, n, held))
    total = [sum(column) for column in zip(*bench.rows.values())]
    print("%d calls were interrupted or moved fewer bytes" % bench.n_calls)
    print("faults: %d passed, %d failed (seed %d)" % (total[1], total[0] - total[1], bench.seed))
    if bench.failures:
        print("faults: what they left is in " + bench.root)
    else:
        shutil.rmtree(bench.root)
    return bool(bench.failures) or total[0] == 0


if __name__ == "__main__":
    sys.exit(main())
