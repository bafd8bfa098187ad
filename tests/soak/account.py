"""Clients of the stress that keep account of what they send and get. Standard library only.

An exchange is counted where its answer is read, under the daemon's own labels: route, method, status. What was sent and
not waited for may have been counted by the daemon or not; it is kept apart, and its routes are not those of other
requests, so that these can be counted exactly."""
import collections
import math
import re
import time

import clients
import talk

PATTERNS = (
    "v2", "v2/health/live", "v2/health/ready", "v2/logging", "v2/models", "v2/models/stats", "v2/models/{model}",
    "v2/models/{model}/ready", "v2/models/{model}/config", "v2/models/{model}/stats", "v2/models/{model}/infer",
    "v2/models/{model}/gradient", "v2/models/{model}/sequences", "v2/models/{model}/sequences/{id}",
    "v2/models/{model}/versions/{version}", "v2/models/{model}/versions/{version}/ready",
    "v2/models/{model}/versions/{version}/config", "v2/models/{model}/versions/{version}/stats",
    "v2/models/{model}/versions/{version}/infer", "v2/models/{model}/versions/{version}/gradient",
    "v2/models/{model}/versions/{version}/sequences", "v2/models/{model}/versions/{version}/sequences/{id}",
    "v2/repository/index", "v2/repository/models/{model}/load", "v2/repository/models/{model}/unload",
    "v2/systemsharedmemory/status", "v2/systemsharedmemory/unregister",
    "v2/systemsharedmemory/region/{region}/status", "v2/systemsharedmemory/region/{region}/register",
    "v2/systemsharedmemory/region/{region}/unregister", "v1/models", "v1/models/{model}:predict",
    "v1/models/{model}", "metrics")
ROUTES = [(re.compile("/" + re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(pattern)) + "$"), "/" + pattern) for pattern in PATTERNS]
STEP = math.log(1.005)  # between the buckets of a histogram
COMPUTING = re.compile(r"/v[12]/models/([^/:]+)(?:/versions/[^/]+)?(?:/infer|/gradient|:predict)$")
HEAD = re.compile(rb"([A-Z]+) (\S+) HTTP")
SIZE = re.compile(rb"\r\nContent-Length: (\d+)", re.I)


def route_of(path):
    for pattern, name in ROUTES:
        if pattern.match(path):
            return name
    return ""


class Sent:
    """Which requests begin in the bytes that are sent."""

    def __init__(self):
        self.rest, self.skipped, self.chunked = b"", 0, False

    def take(self, content):
        """The (method, path) of each request whose head is complete by now."""
        self.rest += content
        found = []
        while self.rest:
            if self.skipped:
                n = min(self.skipped, len(self.rest))
                self.rest, self.skipped = self.rest[n:], self.skipped - n
            elif self.chunked:
                end = self.rest.find(b"0\r\n\r\n")
                if end < 0:
                    break
                self.rest, self.chunked = self.rest[end + 5 :], False
            else:
                end = self.rest.find(b"\r\n\r\n")
                if end < 0:
                    break
                head, self.rest = self.rest[: end + 2], self.rest[end + 4 :]
                line, size = HEAD.match(head), SIZE.search(head)
                found.append((line[1].decode(), line[2].decode()))
                self.skipped = int(size[1]) if size else 0
                self.chunked = b"Transfer-Encoding: chunked" in head
        return found


class Account:
    """What was answered, what may have been, and how long it took."""

    def __init__(self):
        self.answered = collections.Counter()   # (route, method, status)
        self.unsure = collections.Counter()     # (route, method)
        self.computed = collections.Counter()   # model: answers 200 of what computes
        self.unsure_models = collections.Counter()
        self.times = {}                         # kind: a histogram of them

    def add(self, other):
        for name in ("answered", "unsure", "computed", "unsure_models"):
            getattr(self, name).update(getattr(other, name))
        for kind, times in other.times.items():
            self.times.setdefault(kind, collections.Counter()).update(times)

    def took(self, kind, seconds):
        self.times.setdefault(kind, collections.Counter())[round(math.log(seconds) / STEP)] += 1


def quantile(times, share):
    """Of a histogram, in seconds."""
    wanted = share * sum(times.values())
    for bucket in sorted(times):
        wanted -= times[bucket]
        if wanted <= 0:
            return math.exp(bucket * STEP)
    return math.nan


class CountedTalk(talk.Talk):
    """A connection whose requests are counted; `account` is where."""

    def __init__(self, port, account):
        self.account, self.sent, self.pending = account, Sent(), collections.deque()
        super().__init__(port)

    def send(self, content):
        self.pending.extend(self.sent.take(content))
        super().send(content)

    def reply(self, bare=False):
        reply = super().reply(bare)
        method, path = self.pending.popleft()
        method = method if method in ("GET", "HEAD", "POST", "DELETE") else "other"
        self.account.answered[route_of(path), method, str(reply.status)] += 1
        model = COMPUTING.match(path)
        if model and reply.status == 200:
            self.account.computed[model[1]] += 1
        return reply

    def leave(self):
        for method, path in self.pending:
            self.account.unsure[route_of(path), method] += 1
            model = COMPUTING.match(path)
            if model:
                self.account.unsure_models[model[1]] += 1
        self.pending.clear()

    def close(self):
        self.leave()
        super().close()

    def reset(self):
        self.leave()
        super().reset()


class CountedClient(clients.Client):
    """A client that sends at a steady rate, as long as it is told to. Those of its requests that it does not wait for
    are to versions by number, all others are not."""

    LEAVERS = {"half_sent", "turned_away_from", "half_closed", "reset_in_reply"}

    def __init__(self, world, number, rate):
        super().__init__(world, number, None)
        self.account, self.seconds = Account(), 1 / rate
        self.next = time.monotonic()
        numbered = [case for case in world.catalogue.cases if "/versions/" in case.path]
        # like a request of nobody else, also when it is cut off before its name ends
        self.numbered = [case for case in numbered if case.model == "speech"]
        self.others = [case for case in world.catalogue.cases if "/versions/" not in case.path and case.model != "fresh"]

    def new_talk(self):
        return CountedTalk(self.world.port, self.account)

    def pick(self, plan):
        return plan.choice(self.numbered if self.doing in self.LEAVERS else self.others)

    def kinds(self):
        return [(self.timed, 60), (self.yardstick, 15), *super().kinds()]

    def work(self, until):
        """Go on until then; what is found wrong is in `faults`."""
        kinds, weights = zip(*self.kinds())
        while time.monotonic() < until and not self.faults:
            kind = self.rng.choices(kinds, weights)[0]
            self.doing = kind.__name__
            self.n_done += 1
            self.pace()
            self.attempt(kind)
        # nothing is left on the way, so that both accounts can be closed
        for left in self.leavings:
            left.close()
        self.leavings = []
        self.drop()
        account, self.account = self.account, Account()
        return account

    def pace(self):
        """Wait for the next moment; who is late does not catch up in a burst."""
        now = time.monotonic()
        self.next = max(self.next + self.seconds, now - 10 * self.seconds)
        if self.next > now:
            time.sleep(self.next - now)

    def time(self, kind, content, bare=False):
        connection = self.connection()
        begun = time.perf_counter()
        reply = connection.ask(content, bare)
        self.account.took(kind, time.perf_counter() - begun)
        return reply

    def timed(self, plan):
        """A request by itself, on a connection that is there."""
        case = self.pick(plan)
        reply = self.time(case.name.split(" ", 1)[1], case.content)
        self.judge(case, reply)
        self.settle(reply)

    def yardstick(self, plan):
        """What takes the least the daemon can do: how long this machine takes for that now."""
        reply = self.time("yardstick", talk.message("GET", "/v2/health/live"))
        self.expect(reply, 200)
        self.settle(reply)
