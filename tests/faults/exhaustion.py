"""What the system has no more of: ports, descriptors, connections, threads, chance."""
import errno
import socket
import time

import asked
from control import Control, Daemon
from scene import Scene, make_repository, start


def ports(bench):
    """A port that another process listens on ends the start, with a word about it."""
    root = make_repository(bench, "ports")
    for name, options in (("the port", ["--http-port=%d"]), ("the admin port", ["--http-admin-address=127.0.0.1",
                                                                                "--http-admin-port=%d"])):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            daemon = Daemon(bench.program, bench.injection, bench.root, "--model-repository=%s" % root,
                            *[option % port if "%" in option else option for option in options])
            started = daemon.wait_started()
            daemon.kill()
            held = not started and daemon.process.returncode == 1 and str(port) in daemon.text()
            bench.point("exhaustion: port in use", name, held, daemon.text()[-300:])


def descriptors(bench):
    """More clients than descriptors: who cannot be let in waits or is closed; afterwards all is as before, and meanwhile
    the daemon does not spin."""
    scene = Scene(bench, "descriptors", limits=["--nofile=40"])
    request = asked.INFERENCES["json"]
    scene.learn(request)
    for n in range(1 if bench.quick else 5):
        clients = [socket.create_connection(("127.0.0.1", scene.daemon.port)) for _ in range(100)]
        time.sleep(0.3)
        before = scene.daemon.processor_seconds()
        time.sleep(1)
        spent = scene.daemon.processor_seconds() - before
        for client in clients:
            client.close()
        why = "it spins: %.2f s of a second" % spent if spent > 0.5 else scene.fault_after(request)
        bench.point("exhaustion: descriptors", "round %d" % n, not why, why)
    scene.end("after descriptors")


def accepts(bench):
    """accept fails, once or often."""
    scene = Scene(bench, "accepts")
    request = asked.INFERENCES["json"]
    scene.learn(request)
    for code in ("EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "ECONNABORTED", "EPROTO", "EPERM", "EINTR"):
        for many in (1, 3, 20):
            scene.control.arm("accept", getattr(errno, code), 1, 1 + many)
            clients = [socket.create_connection(("127.0.0.1", scene.daemon.port)) for _ in range(30)]
            time.sleep(0.02)
            for client in clients:
                client.close()
            scene.control.disarm()
            why = scene.fault_after(request)
            bench.point("exhaustion: accept", "%s %d times" % (code, many), not why, why)
    scene.end("after accept")


def threads(bench):
    """Each thread in turn cannot be started: the start fails with a reason, or does without it."""
    root = make_repository(bench, "threads")
    for n in range(1, 11):
        control = Control(bench.root)
        control.arm("thread", errno.EAGAIN, n)
        daemon = Daemon(bench.program, bench.injection, bench.root, "--model-repository=%s" % root, control=control)
        start(bench, daemon, "exhaustion: threads", "thread %d" % n)


def chance(bench):
    """The system has no random numbers."""
    root = make_repository(bench, "chance")
    for code in ("ENOSYS", "EAGAIN", "EPERM"):
        for rate, shorter in ((1.0, False), (0.5, True)):
            control = Control(bench.root)
            control.arm("random", getattr(errno, code), rate=rate, shorten=shorter)
            daemon = Daemon(bench.program, bench.injection, bench.root, "--model-repository=%s" % root, control=control)
            start(bench, daemon, "exhaustion: random numbers", "%s at the start" % code)
    scene = Scene(bench, "no-chance", "--trace-rate=1", "--trace-file=%s/chance-traces" % bench.root)
    drawn = asked.as_json("speech", parameters={"training": True})
    scene.learn(asked.INFERENCES["json"])
    for code in ("ENOSYS", "EAGAIN", "EPERM"):
        scene.control.arm("random", getattr(errno, code), rate=1.0)
        why = scene.fault_of(drawn, scene.ask(drawn), least=400) or scene.fault_after(asked.INFERENCES["json"])
        scene.control.disarm()
        bench.point("exhaustion: random numbers", "%s in a request" % code, not why, why)
    scene.end("after random numbers")


def run(bench):
    ports(bench)
    descriptors(bench)
    accepts(bench)
    threads(bench)
    chance(bench)
