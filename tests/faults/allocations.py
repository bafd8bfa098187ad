"""Memory that is refused: each allocation in turn, then all from one on, at every stage of the daemon's life."""
import asked
from control import FOREVER, Control, Daemon
from scene import Scene, make_repository, start


def one(scene, kind, name, request, first, past=None, after=None, fresh=False):
    """Fail allocation `first`, or all to `past`, during the request; afterwards it is answered as ever. A connection that
    is `fresh` may be closed, where there is no memory for it."""
    control, daemon = scene.control, scene.daemon
    files = daemon.files()
    connection = None if fresh else daemon.connect()
    control.arm("alloc", 12, first, past)
    answer = why = None
    try:
        answer = scene.ask(request, connection)
    except TimeoutError:
        why = "no answer in time"
    control.disarm()
    where = control.where()
    why = why or scene.fault_of(request, answer, silent=fresh) or scene.fault_after(
        *([request] if after is None else after))
    if not why and scene.settled_files(files) > files:
        why = "%d descriptors, %d before" % (daemon.files(), files)
    scene.bench.point(kind, "%s, allocation %d%s in %s" % (name, first, " and later" if past else "", where),
                      not why, why)
    return not daemon.ended()


def count(scene, request, fresh=False):
    scene.ask(request)
    connection = None if fresh else scene.daemon.connect()
    scene.control.arm("alloc")
    scene.ask(request, connection)
    scene.control.disarm()
    return scene.control.calls("alloc")


def each(scene, kind, name, request, most, fresh=False):
    n = count(scene, request, fresh)
    for first in scene.bench.sample(range(1, n + 1), most):
        if not one(scene, kind, name, request, first, fresh=fresh):
            return False
    for first in scene.bench.sample(range(1, n + 1), most // 3):
        if not one(scene, kind + ", all from one on", name, request, first, FOREVER, fresh=fresh):
            return False
    return True


def requests(bench):
    for group, items, most in (("infer", asked.INFERENCES, 9), ("reads", asked.READS, 3)):
        scene = Scene(bench, group)
        for request in items.values():
            scene.learn(request)
        for name, request in items.items():
            if not each(scene, "allocations: " + group, name, request, most):
                break
        if group == "infer":
            each(scene, "allocations: connections", "json", items["json"], 6, fresh=True)
        scene.end("after " + group)


def moves(bench):
    """A sequence is exported and imported."""
    scene = Scene(bench, "moves", "--sequence-idle-timeout-secs=80000")
    scene.learn(asked.KEPT)
    scene.learn(asked.EXPORT)
    importing = asked.importing(scene.right[asked.EXPORT[1:3]][1])
    scene.learn(importing)
    for name, request in (("export", asked.EXPORT), ("import", importing)):
        each(scene, "allocations: moves", name, request, 6)
    scene.end("after moves")


def loads(bench):
    scene = Scene(bench, "loads")
    others = [asked.INFERENCES["json"]]
    scene.learn(others[0])
    scene.learn(asked.SPEECH)
    after = [asked.LOAD, asked.SPEECH, *others]
    for name, request, between in (("reload", asked.LOAD, []), ("unload", asked.UNLOAD, []),
                                   ("load", asked.LOAD, [asked.UNLOAD]),
                                   ("load", asked.bringing(scene.repository), [])):
        for again in between:
            scene.ask(again)
        n = count(scene, request)
        for past in (None, FOREVER):
            for first in bench.sample(range(1, n + 1), 12 if past is None else 4):
                for again in between:
                    scene.ask(again)
                scene.right.setdefault(asked.LOAD[1:3], (200, b""))
                if not one(scene, "allocations: " + name, name, request, first, past, after):
                    return
    scene.end("after loads")


def starts(bench):
    root = make_repository(bench, "starts")
    options = ["--model-repository=%s" % root]
    control = Control(bench.root)
    control.arm("alloc")
    daemon = Daemon(bench.program, bench.injection, bench.root, *options, control=control)
    daemon.wait_started()
    n = control.calls("alloc")
    daemon.stop()
    for first in bench.sample(range(1, n + 1), 12):
        control.arm("alloc", 12, first)
        daemon = Daemon(bench.program, bench.injection, bench.root, *options, control=control)
        start(bench, daemon, "allocations: start", "allocation %d" % first)


def stops(bench):
    for first in bench.sample(range(1, 31), 3):
        scene = Scene(bench, "stops%d" % first)
        scene.control.arm("alloc", 12, first, FOREVER)
        try:
            status = scene.daemon.stop()
            bench.point("allocations: stop", "from %d on" % first, status == 0,
                        "exit status %s: %s" % (status, scene.daemon.text()[-300:]))
        except AssertionError as why:
            bench.point("allocations: stop", "from %d on" % first, False, why)


def run(bench):
    requests(bench)
    moves(bench)
    loads(bench)
    starts(bench)
    stops(bench)
