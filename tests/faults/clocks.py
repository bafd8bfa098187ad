"""Clocks that jump: the calendar back and forth, the clock that counts up by hours at once."""
import datetime
import re

import asked
from scene import Scene

HOUR = 3600
STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z", re.M)


def stamp_fault(scene, shift):
    """Is the last line of the log stamped with the time that the clock shows?"""
    stamps = STAMP.findall(scene.daemon.text())
    expected = datetime.datetime.utcnow() + datetime.timedelta(seconds=shift)
    off = abs((datetime.datetime.fromisoformat(stamps[-1]) - expected).total_seconds()) if stamps else None
    return "" if off is not None and off < 60 else "the last stamp is %s, expected %s" % (stamps[-1:], expected)


def run(bench):
    scene = Scene(bench, "clocks", "--log-level=debug", "--sequence-idle-timeout-secs=60")
    everything = {**asked.INFERENCES, **asked.READS, "speech": asked.SPEECH, "load": asked.LOAD}
    for request in everything.values():
        scene.learn(request)
    calendar = [HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 400 * 24 * HOUR, -10 * 365 * 24 * HOUR, 0]
    counted = [0]
    for n in range(1 if bench.quick else 5):
        for shift in calendar:
            scene.control.shift(shift, counted[-1])
            why = scene.fault_after(*everything.values()) or stamp_fault(scene, shift)
            bench.point("clocks: calendar", "%+d h, round %d" % (shift / HOUR, n), not why, why)
        for jump in (1, 10, 100, HOUR, 10 * HOUR):
            kept = scene.daemon.connect()
            counted.append(counted[-1] + jump)
            scene.control.shift(0, counted[-1])
            answer = scene.ask(asked.INFERENCES["json"], kept)
            why = "" if answer is None else scene.fault_of(asked.INFERENCES["json"], answer)
            why = why or scene.fault_after(*everything.values())
            bench.point("clocks: counting up", "by %d s, round %d" % (jump, n), not why, why)
    scene.end("after clocks")
