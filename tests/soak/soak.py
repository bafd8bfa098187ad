#!/usr/bin/env python3
"""A long run of the daemon: soak.py DAEMON SECONDS [SEED]

Requests of every route, good and bad, at a steady rate: every answer is compared with what that request got from a
daemon with nothing else to do (and that, where it can be, with what the layer should give). Meanwhile an operator
loads, reloads and unloads models, changes the log and sends SIGHUP. Every half minute all clients pause, and what they
counted is compared with what /metrics counts; memory, descriptors and threads are read. At the end the first hour is
compared with the last; it begins after ten minutes, in which the allocator comes to its size (of a run of less than two
hours and these minutes: the first and the last quarter, after one minute).

Ends with status 1 if an answer was wrong, a count differs, memory grew, descriptors or threads were left, or the daemon
did not stop as it should. Latencies are told and never decide, with those of a request that computes nothing beside
them, since the machine may change as well."""
import collections
import json
import multiprocessing
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "stress"))
import catalogue  # noqa: E402
import clients  # noqa: E402
import account as counted  # noqa: E402
import scaled  # noqa: E402
from daemon import Daemon, free_port  # noqa: E402
from talk import message  # noqa: E402
from truth import Truth  # noqa: E402

N_CLIENTS = 4
RATE = 200          # operations a second of all clients; some are several requests
ROUND = 30          # seconds between two comparisons
HOUR = 3600
WARM, WARM_LONG = 60, 600
GROWTH = 1.02       # of resident memory, last window against first
DRIFT = 1.1         # of the 99th percentile
LONG = 1800         # seconds from which on a run can tell growth from warming up
COUNT_LINE = re.compile(r'attentiond_http_requests_total\{route="(.*?)",method="(.*?)",code="(.*?)"\} (\d+)')
SUCCESS_LINE = re.compile(r'attentiond_requests_total\{.*?model="(.*?)".*?outcome="success".*?\} (\d+)')


# ---- who works ---------------------------------------------------------------------------------


def serve_rounds(pipe, worker):
    """In a process of its own: for each moment that comes through the pipe, work until then and send what became of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while (until := pipe.recv()) is not None:
            account = worker.work(until)
            pipe.send((account, worker.faults))
        if worker.region:
            worker.region.close()
    except EOFError:
        pass
    except Exception:
        pipe.send((counted.Account(), [traceback.format_exc()]))


class Operator(counted.CountedClient):
    """Loads, unloads and changes what others do not depend on."""

    def kinds(self):
        return [(self.cycle, 4), (self.reload, 4), (self.logging, 2), (self.index, 2), (self.look, 4), (self.preflight, 2)]

    def ask(self, verb, path, body=None, headers=(), wanted=(200,)):
        reply = self.connection().ask(message(verb, path, body, headers))
        assert reply.status in wanted, f"{verb} {path}: {reply!r}"
        self.settle(reply)
        return reply

    def cycle(self, plan):
        """Load what the request brings, ask it, unload it, ask in vain."""
        which = plan.randrange(2)
        self.ask("POST", "/v2/repository/models/fresh/load", scaled.brought("fresh", which))
        case = self.world.catalogue.by_model["fresh"][0]
        reply = self.connection().ask(case.content)
        assert (("1", which)) in self.judge_fresh(case, reply), f"fresh: other weights than were brought: {reply!r}"
        self.settle(reply)
        self.ask("POST", "/v2/repository/models/fresh/unload", b"")
        reply = self.connection().ask(case.content)
        assert reply.status in (404, 503), f"an unloaded model: {reply!r}"
        self.settle(reply)

    def judge_fresh(self, case, reply):
        assert reply.status == 200, f"{case.name}: {reply!r}"
        return self.world.fresh.get(reply.body, ())

    def reload(self, plan):
        name = plan.choice(("mha", "speech", "graph", "score"))  # those without sequences
        self.ask("POST", f"/v2/repository/models/{name}/load", b"")

    def logging(self, plan):
        level = plan.choice((True, False))
        self.ask("POST", "/v2/logging", json.dumps({"log_warning": True, "log_info": level, "log_file": "messages"}).encode())

    def index(self, plan):
        body = json.dumps({"ready": plan.random() < 0.5}).encode()
        names = {item["name"] for item in json.loads(self.ask("POST", "/v2/repository/index", body).body)}
        assert names >= {"mha", "score"}, names

    def preflight(self, plan):
        path = plan.choice(("/v2/models/mha/infer", "/v2"))
        self.ask("OPTIONS", path, None, [("Origin", "https://a.example"), ("Access-Control-Request-Method", "POST")], (204,))


# ---- comparing ---------------------------------------------------------------------------------


class Page:
    """What a page of metrics counts."""

    def __init__(self, text):
        self.http = {found[:3]: int(found[3]) for found in COUNT_LINE.findall(text)}
        self.success = {}
        for model, n in SUCCESS_LINE.findall(text):
            self.success[model] = self.success.get(model, 0) + int(n)


def differences(page, base, account):
    """Texts; none if the daemon counts what its clients do."""
    found = []
    for key in sorted({*page.http, *account.answered}):
        n = page.http.get(key, 0) - base.http.get(key, 0)
        wanted, unsure = account.answered[key], account.unsure[key[:2]]
        if not wanted <= n <= wanted + unsure:
            found.append(f"{' '.join(key)}: {n} by /metrics, {wanted} by clients, {unsure} not waited for")
    for model in sorted({*page.success, *account.computed} - {"fresh"}):
        n = page.success.get(model, 0) - base.success.get(model, 0)
        wanted, unsure = account.computed[model], account.unsure_models[model]
        if not wanted <= n <= wanted + unsure:
            found.append(f"success of {model}: {n} by /metrics, {wanted} by clients, {unsure} not waited for")
    return found


class Window:
    """What is known of a stretch of the run."""

    def __init__(self):
        self.account, self.states = counted.Account(), []

    def add(self, account, state):
        self.account.add(account)
        self.states.append(state)

    def mean(self, i):
        return sum(state[i] for state in self.states) / max(1, len(self.states))


class Soak:
    def __init__(self, daemon, repository, seconds, seed):
        self.daemon, self.repository, self.seconds, self.seed = daemon, repository, seconds, seed
        self.total, self.faults, self.states = counted.Account(), [], []
        self.late = []  # what was counted otherwise, found at the end of a round
        self.n_compared = 0
        is_long = seconds >= 2 * HOUR + WARM_LONG
        self.warm = WARM_LONG if is_long else WARM
        self.span = max(HOUR if is_long else (seconds - WARM) / 4, ROUND)
        self.first, self.last = Window(), Window()

    def learn(self):
        self.daemon.wait_for_start()
        port = self.daemon.port
        book = catalogue.Catalogue()
        book.learn(port, self.repository)
        fresh = dict(book.by_model["fresh"][0].lawful)
        for case in book.cases:  # the second weights serve from now on
            for body in [body for body, said in case.lawful.items() if not any(which for _, which in said)]:
                del case.lawful[body]
        for script in book.scripts:
            for _, lawful in script.steps:
                for body in [body for body, which in lawful.items() if not which]:
                    del lawful[body]
        self.world = clients.World(self.seed, 0, book, {"crowded": False, "mode": "explicit"},
                                   Truth(scaled.MODELS))
        for model, (_, versions, _, _) in scaled.MODELS.items():
            if model != "fresh":
                self.world.truth.sure(model, {version: 1 for version in versions})
        self.world.port, self.world.fresh = port, fresh
        self.talk = counted.CountedTalk(port, counted.Account())
        self.base = self.page()
        self.talk.account.answered.clear()
        self.talk.account.answered["/metrics", "GET", "200"] = 1  # the page does not count itself

    def page(self):
        reply = self.talk.ask(message("GET", "/metrics"))
        assert reply.status == 200, reply
        return Page(reply.body.decode())

    def start(self):
        workers = [counted.CountedClient(self.world, i, RATE / N_CLIENTS) for i in range(N_CLIENTS)]
        workers.append(Operator(self.world, N_CLIENTS, 5))
        self.pipes = []
        for worker in workers:
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=serve_rounds, args=(theirs, worker), daemon=True)
            process.start()
            self.pipes.append((ours, process))

    def round(self, until):
        """All work, then all pause; compare."""
        account = counted.Account()
        for pipe, _ in self.pipes:
            pipe.send(until)
        for pipe, _ in self.pipes:
            part, faults = pipe.recv()
            account.add(part)
            self.faults += faults
        self.total.add(account)
        self.compare()
        state = self.daemon.state()
        self.states.append(state)
        return account, state

    def compare(self):
        """An answer may be there before it is counted, so that not the first difference counts."""
        for _ in range(20):
            expected = counted.Account()
            expected.add(self.total)
            expected.add(self.talk.account)
            self.last_page = self.page()
            found = differences(self.last_page, self.base, expected)
            if not found:
                self.n_compared += 1
                return
            time.sleep(0.1)
        self.late += [f"round {len(self.states)}: {text}" for text in found]
        print("\n".join(found), flush=True)
        self.base.http.update({key: n - expected.answered[key] for key, n in self.last_page.http.items()
                               if n - self.base.http.get(key, 0) > expected.answered[key] + expected.unsure[key[:2]]})

    def hang_up(self):
        """SIGHUP; every model is loaded again while nobody asks, and their sequences go."""
        self.daemon.signal(signal.SIGHUP)
        time.sleep(0.5)
        for _ in range(100):
            reply = self.talk.ask(message("GET", "/v2/health/ready"))
            if reply.status == 200:
                return
            time.sleep(0.1)
        self.faults.append("not ready again after SIGHUP")

    def run(self):
        begun = time.monotonic()
        end = begun + self.seconds
        n = 0
        while time.monotonic() < end and not self.faults and self.daemon.process.poll() is None:
            account, state = self.round(min(time.monotonic() + ROUND, end))
            at = time.monotonic() - begun
            if self.warm <= at - ROUND and at <= self.warm + self.span + ROUND:
                self.first.add(account, state)
            if at > self.seconds - self.span:
                self.last.add(account, state)
            n += 1
            print(f"{at:7.0f} s: {sum(self.total.answered.values()):9d} answers, RSS {state[0] / 1e6:.1f} MB, anonymous "
                  f"{state[1] / 1e6:.1f} MB, {state[2]} descriptors, {state[3]} threads, p99 "
                  f"{1e3 * counted.quantile(account.times.get('small', {0: 1}), 0.99):.2f} ms of small, "
                  f"{1e3 * counted.quantile(account.times.get('yardstick', {0: 1}), 0.99):.2f} ms of health", flush=True)
            if n % 10 == 0:
                self.hang_up()
        for pipe, process in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
            process.join(10)
        self.talk.close()

    # ---- the end ----------------------------------------------------------------------------

    def stop(self):
        if self.daemon.process.poll() is not None:
            self.faults.append("the daemon ended by itself")
        self.faults += self.late
        self.daemon.signal(signal.SIGTERM)
        self.faults += self.daemon.ended()

    def report(self):
        total = self.total
        print(f"\n{sum(total.answered.values())} answers in {self.seconds:.0f} s, seed {self.seed}; {sum(total.unsure.values())} "
              f"requests whose clients left; counts compared {self.n_compared} times\n")
        by_route = {}
        for (route, method, status), n in total.answered.items():
            by_route.setdefault(f"{method} {route or 'no route'}", {})[status] = n
        for name in sorted(by_route):
            print(f"  {name:62s} " + ", ".join(f"{s}: {n}" for s, n in sorted(by_route[name].items())))
        self.report_times()
        self.report_state()
        for fault in self.faults[:20]:
            print("FAULT", fault)
        print(f"soak: {self.n_compared} passed, {len(self.faults)} failed")

    def report_times(self):
        first, last = self.first.account.times, self.last.account.times
        print(f"\n  {'milliseconds':26s} {'answers':>9s} {'p50':>7s} {'then':>7s} {'p99':>7s} {'then':>7s} {'ratio':>6s}")
        for kind in sorted({*first} & {*last}):
            a, b = first[kind], last[kind]
            middle = [1e3 * counted.quantile(times, 0.5) for times in (a, b)]
            high = [1e3 * counted.quantile(times, 0.99) for times in (a, b)]
            print(f"  {kind:26s} {sum(a.values()) + sum(b.values()):9d} {middle[0]:7.3f} {middle[1]:7.3f} {high[0]:7.3f} "
                  f"{high[1]:7.3f} {high[1] / high[0]:6.3f}")
        every = [counted.Account(), counted.Account()]
        for account, times in zip(every, (first, last)):
            for kind, seconds in times.items():
                if kind != "yardstick":
                    account.times.setdefault("all", collections.Counter()).update(seconds)
        if first and last:
            ratio = [counted.quantile(b, 0.99) / counted.quantile(a, 0.99)
                     for a, b in ((every[0].times["all"], every[1].times["all"]), (first["yardstick"], last["yardstick"]))]
            print(f"\n  p99 of all, last against first {self.span:.0f} s: {ratio[0]:.3f}, of health {ratio[1]:.3f}: "
                  f"{'within' if ratio[0] <= DRIFT or ratio[0] / ratio[1] <= DRIFT else 'over'} {DRIFT}")

    def report_state(self):
        if not self.first.states or not self.last.states:
            print("\n  too short to compare its beginning with its end")
            return
        names = ("resident bytes", "anonymous bytes", "descriptors", "threads")
        for i, name in enumerate(names):
            a, b = self.first.mean(i), self.last.mean(i)
            print(f"  {name:16s} {a:14.1f} then {b:14.1f}: {b / a:.4f}, at most {max(state[i] for state in self.states)}")
        if self.seconds >= LONG and self.last.mean(0) > GROWTH * self.first.mean(0):
            self.faults.append(f"resident memory grew by more than {GROWTH}")
        for i in (2, 3):
            if min(state[i] for state in self.last.states) > max(state[i] for state in self.first.states):
                self.faults.append(f"more {names[i]} at the end than at the beginning")


def main():
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__.splitlines()[0])
    seed = int(sys.argv[3]) if len(sys.argv) == 4 else random.randrange(1 << 32)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attentiond-soak-"))
    repository = scaled.Repository(folder / "models")
    repository.write()
    daemon = Daemon(sys.argv[1], free_port(), folder / "log", [
        f"--model-repository={repository.root}", "--model-control-mode=explicit", "--load-model=*", "--allow-client-shm",
        "--sequence-idle-timeout-secs=10", f"--log-dir={folder}", "--cors-allow-origins=*", "--log-level=warning"])
    soak = Soak(daemon, repository, float(sys.argv[2]), seed)
    try:
        soak.learn()
        soak.start()
        soak.run()
        soak.stop()
    finally:
        daemon.kill()
    soak.report()
    if soak.faults:
        print(f"the daemon's log is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
