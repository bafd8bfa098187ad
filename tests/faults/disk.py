"""Files that cannot be read or written, or change while they are read. What serves goes on serving; a load is done or fails
with a reason."""
import errno
import json
import random
import shutil
import threading

import asked
from control import FOREVER
from scene import Scene

CODES = ("EIO", "EACCES", "ENOENT", "ENOMEM", "EMFILE", "ESTALE", "ENXIO")


def others(scene):
    scene.learn(asked.INFERENCES["json"])
    scene.learn(asked.SPEECH)
    return [asked.INFERENCES["json"], asked.SPEECH]


def fault_of_load(scene, answer):
    """A load may succeed, or say why not."""
    if answer and answer[0] == 200:
        return ""
    return scene.fault_of(asked.LOAD, answer, least=400)


def reads(bench):
    """Each call on the files of a model fails once, then all from there on, while it is loaded again."""
    scene = Scene(bench, "reads-fail")
    after = others(scene)
    scene.control.watch("/speech/")
    for kind in ("open", "stat", "read"):
        scene.control.arm(kind)
        scene.ask(asked.LOAD)
        scene.control.disarm()
        points = [(n, past, code) for n in range(1, scene.control.calls(kind) + 1) for past in (n + 1, FOREVER)
                  for code in CODES]
        for n, past, code in bench.sample(points, 6):
            scene.control.arm(kind, getattr(errno, code), n, past)
            answer = scene.ask(asked.LOAD)
            scene.control.disarm()
            why = fault_of_load(scene, answer) or scene.fault_after(*after)
            why = why or ("" if scene.ask(asked.LOAD)[0] == 200 else "it is not loaded afterwards")
            bench.point("disk: %s fails" % kind, "call %d%s with %s" % (n, " and later" if past == FOREVER else "", code), not why, why)
    scene.end("after reads")


def writes(bench):
    """The disk is full, or broken, where the log and the traces go."""
    scene = Scene(bench, "writes-fail", "--log-level=debug", "--trace-rate=1", "--trace-file=%s/traces" % bench.root,
                  "--log-dir=%s" % bench.root)
    after = others(scene)
    for to in ("", "written"):
        body = json.dumps({"log_file": to}).encode()
        assert scene.ask(("POST", "/v2/logging", body, {}))[0] == 200
        for code in ("ENOSPC", "EIO", "EDQUOT", "EFBIG"):
            for shorter in (False, True):
                scene.control.arm("write", getattr(errno, code), rate=1.0, shorten=shorter)
                why = scene.fault_after(*after, *after)
                hit = scene.control.hits("write")
                scene.control.disarm()
                why = why or ("" if hit else "nothing was written") or scene.fault_after(*after)
                bench.point("disk: write fails", "%s to %s" % (code, to or "stderr"), not why, why)
    scene.end("after writes")


def full(bench):
    """Files may grow no more: the log, the traces."""
    scene = Scene(bench, "full", "--log-level=debug", "--trace-rate=1", "--trace-file=%s/full-traces" % bench.root,
                  limits=["--fsize=3000"])
    after = others(scene)
    for n in range(3 if bench.quick else 30):
        why = scene.fault_after(*after)
        bench.point("disk: full", "round %d" % n, not why, why)
    scene.end("after a full disk")


def spoil(chance, path, whole):
    """Write, truncate, grow or remove the file, then put it back."""
    how = chance.randrange(5)
    if how == 0:
        with open(path, "r+b") as file:
            file.truncate(chance.randrange(len(whole)))
    elif how == 1:
        with open(path, "ab") as file:
            file.write(bytes(chance.randrange(1, 5000)))
    elif how == 2:
        path.unlink()
    elif how == 3:
        with open(path, "r+b") as file:
            file.seek(chance.randrange(len(whole)))
            file.write(chance.randbytes(30))
    else:
        path.unlink()
        path.mkdir()
    if path.is_dir():
        shutil.rmtree(path)
    path.write_bytes(whole)


def changes(bench):
    """Weights and configuration change while they serve, and while they are loaded."""
    scene = Scene(bench, "changes")
    after = others(scene)
    model = scene.repository / "speech"
    files = [model / "config.json", next(model.glob("1/*"))]
    contents = [path.read_bytes() for path in files]
    chance = random.Random(bench.seed)
    ended = threading.Event()

    def go_on():
        while not ended.is_set():
            i = chance.randrange(2)
            spoil(chance, files[i], contents[i])

    for n in range(20 if bench.quick else 1000):
        ended.clear()
        thread = threading.Thread(target=go_on)
        thread.start()
        answer = scene.ask(asked.LOAD)
        ended.set()
        thread.join()
        why = fault_of_load(scene, answer) or scene.fault_after(after[0])
        answer = why or scene.ask(asked.SPEECH)
        why = why or ("" if answer and answer[0] == 200 else "speech is answered %s" % (answer,))
        bench.point("disk: changed while loaded", "round %d" % n, not why, why)
    scene.ask(asked.LOAD)
    for i, path in enumerate(files):
        for n in range(5 if bench.quick else 50):
            spoil(chance, path, contents[i])
            path.unlink()
            why = scene.fault_after(*after)
            path.write_bytes(contents[i])
            bench.point("disk: changed while serving", "%s, round %d" % (path.name, n), not why, why)
    scene.end("after changes")


def run(bench):
    reads(bench)
    writes(bench)
    full(bench)
    changes(bench)
