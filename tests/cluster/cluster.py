#!/usr/bin/env python3
"""Daemons behind HAProxy that are restarted, killed and joined by others under load: cluster.py DAEMON SCRATCH [PART...]

Each part is a question of its own (see PARTS); CLUSTER=containers runs the daemons as containers. Ends with the number
of checks that hold and that do not.
"""
import collections
import http.client
import os
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
import clients  # noqa: E402
from clients import Load, Right, Sequences  # noqa: E402
from expressions import of_dashboard  # noqa: E402
from monitoring import DASHBOARD, Prometheus, unknown_metrics  # noqa: E402
from replicas import HERE, ROOT, Cluster, ContainerReplica, Failure, ProcessReplica, get, wait_until  # noqa: E402

N_CLIENTS = 32
N_SEQUENCES = 48
STEP_PAUSE = 0.06
ROUNDS = 2             # rolling restarts
SETTLE_SECONDS = 1     # of load before and after something happens
GONE_SECONDS = 0.1     # until HAProxy has seen that a process is no more
N_IDS = 1000           # for the ring
MAX_REQUESTS = 20      # of a connection, where it has a limit


class Verdict:
    def __init__(self):
        self.passed = self.failed = 0

    def expect(self, what, holds, came=""):
        if holds:
            self.passed += 1
            if os.environ.get("VERBOSE"):
                print("cluster: %s: holds" % what)
        else:
            self.failed += 1
            print("cluster: %s: %s" % (what, came))

    def equal(self, what, expected, came):
        self.expect(what, expected == came, "%s, expected %s" % (came, expected))

    def none(self, what, found):
        """Nothing was found; the first few are told."""
        self.expect(what, not found, "%d: %s" % (len(found), "; ".join(map(str, list(found)[:5]))))


def say(text):
    print("  " + text, flush=True)


class Clock:
    """When which replica was away: from the moment it is told to stop until HAProxy has it back."""

    def __init__(self):
        self.away = []  # name, from, until

    def was_away(self, name, at):
        return any(name == each and start <= at <= end for each, start, end in self.away)


def roll(proxy, replicas, clock):
    """Restart one after the other, as an operator does."""
    for replica in replicas:
        start = time.monotonic()
        replica.terminate()
        replica.start()
        proxy.wait_for(replica)
        clock.away.append((replica.name, start, time.monotonic() + SETTLE_SECONDS))


def by_sequence(lines):
    found = collections.defaultdict(list)
    for line in lines:
        if line.sequence != "-" and line.sequence:
            found[line.sequence].append(line)
    return found


def moves(lines):
    """Pairs of requests of a sequence, one after the other, that went to different replicas."""
    return [pair for requests in by_sequence(lines).values() for pair in zip(requests, requests[1:])
            if pair[0].server != pair[1].server]


def expect_sequences(verdict, group, lines, clock):
    """They stay where they are while that is there; what is lost was there before."""
    moved, sent = moves(lines), group.sent()
    verdict.none("sequences get the right answers, or are told that they are lost", group.failed())
    verdict.none("a sequence leaves its replica only when that is away",
                 ["%s from %s to %s" % (after.request, before.server, after.server) for before, after in moved
                  if not clock.was_away(before.server, sent[after.request])])
    verdict.none("a sequence is lost only by leaving its replica",
                 set(group.lost()) - {after.request for _, after in moved})
    verdict.expect("sequences were lost, and recovered", group.lost(), "none was lost")
    say("%d sequences, %d steps: %d moves, %d times lost and begun anew"
        % (len(group.clients), group.count(), len(moved), len(group.lost())))


def slowest_ms(lines, prefix):
    return max(line.all_ms for line in lines if line.request.startswith(prefix))


def rolling(verdict, cluster):
    """Restarts of all replicas, one after the other, under load."""
    cluster.start(3)
    proxy = cluster.proxy()
    right = Right(cluster.replicas[0].address, cluster.port)
    target = proxy.address, proxy.port
    clock = Clock()
    for number in range(ROUNDS):
        start = time.monotonic()
        with Load("load%d" % number, target, N_CLIENTS, right) as load, \
                Sequences("steps%d" % number, target, N_SEQUENCES, right, STEP_PAUSE) as sequences:
            time.sleep(SETTLE_SECONDS)
            roll(proxy, cluster.replicas, clock)
            time.sleep(SETTLE_SECONDS)
        seconds = time.monotonic() - start
        lines = proxy.lines()
        verdict.none("no request fails in restart %d of all" % (number + 1), load.failed())
        expect_sequences(verdict, sequences, [line for line in lines if line.sequence.startswith(sequences.name)], clock)
        served = collections.Counter(line.server for line in lines if line.request.startswith(load.name))
        verdict.equal("all replicas serve", {replica.name for replica in cluster.replicas}, set(served))
        say("restart %d of 3 replicas in %.0f s: %d requests of %d clients, %d failed, %d sent twice, slowest %d ms"
            % (number + 1, seconds, load.count(), N_CLIENTS, len(load.failed()),
               sum(line.request.startswith(load.name) and line.retries not in "0" for line in lines),
               slowest_ms(lines, load.name)))


def killed(verdict, cluster):
    """A replica that is killed under load takes its own requests along and nothing else."""
    cluster.start(3)
    proxy = cluster.proxy()
    right = Right(cluster.replicas[0].address, cluster.port)
    target = proxy.address, proxy.port
    victim = cluster.replicas[1]
    clock = Clock()
    with Load("load", target, N_CLIENTS, right) as load, \
            Load("large", target, 6, right, pause=0, large=True) as large, \
            Sequences("steps", target, N_SEQUENCES, right, STEP_PAUSE) as sequences:
        groups = load, large, sequences
        time.sleep(SETTLE_SECONDS)
        wait_until(lambda: victim.metric("attentiond_requests_in_flight") > 1, 20, "requests in flight at the victim")
        start = time.monotonic()
        victim.kill()
        gone = time.monotonic() + GONE_SECONDS
        proxy.wait_for(victim, "DOWN")
        time.sleep(SETTLE_SECONDS)
        victim.start()
        proxy.wait_for(victim)
        clock.away.append((victim.name, start, time.monotonic() + SETTLE_SECONDS))
        time.sleep(SETTLE_SECONDS)
    expect_killed(verdict, proxy.lines(), groups, victim, cluster.replicas, gone)


def seen_by(replicas):
    """Every request that these have logged, at level debug."""
    found = set()
    for replica in replicas:
        with open(replica.log_path(), encoding="utf-8", errors="replace") as log:
            found.update(re.findall(r" request=(\S+)", log.read()))
    return found


def expect_killed(verdict, lines, groups, victim, replicas, gone):
    sequences = groups[-1]
    failed = [each for group in groups for each in group.failed()]
    sent = {name: at for group in groups for name, at in group.sent().items()}
    others = seen_by(replica for replica in replicas if replica is not victim)
    say("one of 3 replicas killed: %d of %d requests failed (%s)" % (
        len(failed), sum(group.count() for group in groups), ", ".join("%d x %s" % (n, what) for what, n in
            collections.Counter("%s %s" % (each.status or "closed", each.code) for each in failed).items())))
    verdict.expect("requests were in flight", failed, "none failed")
    verdict.none("only requests that were sent before it was gone fail",
                 [each for each in failed if sent[each.name] > gone])
    verdict.none("each client loses one at the most", [client.name for group in groups for client in group.clients
                                                       if len(client.failed) > 1])
    verdict.expect("what the others answer is in their logs", len(others) > len(sent) / 3, len(others))
    verdict.none("no other replica has seen one that failed", {each.name for each in failed} & others)
    # HAProxy answers the first request of a connection with 502 and closes it at a later one, without a line in its log
    verdict.none("they are told so, or their connection is closed", [
        each for each in failed if (each.status, each.code) not in [(502, "replica_lost"), (0, "RemoteDisconnected")]])
    sequence_of = {line.request: line.sequence for line in lines}
    hit = {line.sequence for line in lines if line.server == victim.name and line.request.startswith(sequences.name)}
    verdict.none("sequences elsewhere never notice", [name for name in sequences.lost() if sequence_of[name] not in hit])
    verdict.expect("sequences of the killed one are told", sequences.lost() or sequences.failed(), "none was")
    last = {line.sequence: line for line in lines if line.sequence in hit}
    verdict.none("... and recover", [line for line in last.values() if line.status != 200])
    say("%d sequences, %d of them there: %d lost and begun anew, %d in the middle of a step"
        % (N_SEQUENCES, len(hit), len(sequences.lost()), len(sequences.failed())))


def moved(verdict, cluster):
    """Restarts of all replicas, whose sequences are carried to others before: nobody loses one."""
    cluster.start(3)
    proxy = cluster.proxy()
    right = Right(cluster.replicas[0].address, cluster.port)
    target = proxy.address, proxy.port
    with Load("load", target, N_CLIENTS, right) as load, \
            Sequences("steps", target, N_SEQUENCES, right, STEP_PAUSE) as sequences:
        time.sleep(SETTLE_SECONDS)
        for replica in cluster.replicas:
            say(operator(proxy, replica, cluster.admin_port))
            replica.terminate()
            replica.start()
            operator(proxy, replica, "ready")
            proxy.wait_for(replica)
        time.sleep(SETTLE_SECONDS)
    verdict.none("no request fails", load.failed())
    verdict.none("sequences get the right answers", sequences.failed())
    verdict.none("none is lost", sequences.lost())
    verdict.expect("some were held back", sequences.held(), "none was")
    say("%d sequences, %d steps: %d lost, %d steps asked to come again"
        % (N_SEQUENCES, sequences.count(), len(sequences.lost()), sequences.held()))


def operator(proxy, replica, what):
    """Run the operator's script; what it says."""
    done = subprocess.run([sys.executable, os.path.join(ROOT, "docker", "move-sequences.py"), proxy.socket_path,
                           replica.name, str(what)], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Failure("move-sequences.py: " + done.stderr)
    return done.stdout.strip()


def homes(proxy):
    """Which replica each of many ids is sent to."""
    connection = clients.Connection(proxy.address, proxy.port)
    start = len(proxy.lines())
    for number in range(N_IDS):
        connection.ask("/v2/health/live", b"", {"X-Sequence-Id": "id-%d" % number})
    connection.close()
    found = {}

    def logged():
        found.update({line.sequence: line.server for line in proxy.lines()[start:]})
        return len(found) == N_IDS

    wait_until(logged, 10, "HAProxy logs all requests")
    return found


def ring(verdict, cluster):
    """A replica that joins gets its share of the ids, and no other id moves."""
    cluster.start(3)
    proxy = cluster.proxy()
    before = homes(proxy)
    newcomer = cluster.add()
    running = homes(proxy)
    verdict.equal("what runs stays where it is", before, running)
    proxy.command("clear table sequences")
    after = homes(proxy)
    moved = [each for each in before if before[each] != after[each]]
    share = len(moved) / N_IDS
    counts = collections.Counter(after.values())
    say("a fourth replica: %d of %d running ids move, %.1f %% of new ones (%s)" % (
        sum(before[each] != running[each] for each in before), N_IDS, 100 * share,
        ", ".join("%s %d" % each for each in sorted(counts.items()))))
    verdict.expect("about a quarter of the ids moves", 0.15 <= share <= 0.35, "%.3f" % share)
    verdict.equal("... all to the newcomer", {newcomer.name}, {after[each] for each in moved})
    proxy.command("clear table sequences")
    newcomer.terminate()
    proxy.wait_for(newcomer, "DOWN")
    verdict.equal("... and back when it has gone", before, homes(proxy))


def spread(verdict, cluster, limited):
    """Whether clients that keep their connections find a replica that joins, behind a balancer of connections."""
    cluster.start(2)
    proxy = cluster.proxy(os.path.join(HERE, "tcp.cfg"))
    right = Right(cluster.replicas[0].address, cluster.port)
    with Load("load", (proxy.address, proxy.port), N_CLIENTS, right) as load:
        time.sleep(SETTLE_SECONDS)
        newcomer = cluster.add()
        start = [replica.metric("attentiond_requests_total") for replica in cluster.replicas]
        time.sleep(3)
        end = [replica.metric("attentiond_requests_total") for replica in cluster.replicas]
    counts = [b - a for a, b in zip(start, end)]
    share = counts[newcomer.number - 1] / sum(counts)
    verdict.none("no request fails", load.failed())
    say("%s: a third replica gets %.1f %% of the requests of clients that were there before"
        % ("%d requests a connection" % MAX_REQUESTS if limited else "no limit", 100 * share))
    if limited:
        verdict.expect("kept connections spread over a newcomer", 0.2 <= share <= 0.5, "%.3f" % share)
    else:
        verdict.expect("without a limit they do not", share < 0.05, "%.3f" % share)


def answers(verdict, cluster):
    """What HAProxy says by itself, and whom the daemon takes the client for."""
    proxy = cluster.proxy()
    ask_as = ("127.0.0.9", 0)
    status, body = get(proxy.address, proxy.port, "/v2")
    verdict.equal("without a replica", (503, b'{"error":"no replica is ready","code":"no_replica"}'), (status, body))
    status, body = get(proxy.address, proxy.stats_port, "/metrics")
    verdict.expect("HAProxy's own metrics", status == 200 and b"haproxy_server_status" in body, status)
    cluster.start(1)
    right = Right(cluster.replicas[0].address, cluster.port)
    connection = http.client.HTTPConnection(proxy.address, proxy.port, timeout=10, source_address=ask_as)
    body, headers, _ = right.small[0]
    forged = {"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.2", "X-Request-Id": "whose"}
    connection.request("POST", "/v2/models/routing_mha_proj/infer", body, {**headers, **forged})
    verdict.equal("a request from elsewhere", 200, connection.getresponse().status)
    connection.close()
    with open(cluster.replicas[0].log_path(), encoding="utf-8") as log:
        line = "".join(line for line in log if " request=whose " in line)
    verdict.expect("the daemon knows the client, not what it claims", " client=%s " % ask_as[0] in line, line)
    connection = clients.Connection(proxy.address, proxy.port)
    long = connection.ask("/v2/health/live", b"", {"X-Long": "x" * 30000})
    verdict.equal("headers as long as the daemon takes them", 405, long.status)
    connection.close()
    connection = http.client.HTTPConnection(proxy.address, proxy.port, timeout=10)
    connection.putrequest("POST", "/v2/models/routing_mha_proj/infer")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    verdict.equal("the daemon's limit on bodies comes through", 413, connection.getresponse().status)
    connection.close()


def monitoring(verdict, cluster):
    """Everything that the dashboard and the rules ask for is there."""
    cluster.start(2)
    proxy = cluster.proxy()
    right = Right(cluster.replicas[0].address, cluster.port)
    target = proxy.address, proxy.port
    with Load("load", target, 4, right), Sequences("steps", target, 4, right):
        time.sleep(SETTLE_SECONDS)
        pages = [get(address, port, "/metrics")[1].decode() for address, port in [
            (cluster.replicas[0].address, cluster.admin_port), (proxy.address, proxy.stats_port)]]
        verdict.none("every metric that is asked for exists", unknown_metrics(pages))
        if not shutil.which("prometheus"):
            say("Prometheus is not installed: what its queries give is not looked at")
            return
        prometheus = Prometheus(cluster.scratch, {
            "attentiond": ["%s:%d" % (each.address, cluster.admin_port) for each in cluster.replicas],
            "haproxy": ["%s:%d" % (proxy.address, proxy.stats_port)]})
        try:
            expect_series(verdict, prometheus)
        finally:
            prometheus.discard()


def expect_series(verdict, prometheus):
    def empty():
        recorded = [rule["name"] for rule in prometheus.rules() if rule["type"] == "recording"]
        return ["%s: %s" % panel for panel in of_dashboard(DASHBOARD) + [("a rule", name) for name in recorded]
                if not prometheus.value(panel[1])]

    try:
        wait_until(lambda: not empty(), 30, "everything shows something")
    except Failure:
        pass  # what does not is told
    verdict.none("every panel of the dashboard and every recorded series shows something", empty())
    rules = prometheus.rules()
    verdict.none("every rule is evaluated", ["%s: %s" % (rule["name"], rule.get("lastError")) for rule in rules
                                             if rule["health"] != "ok"])
    verdict.none("no alert fires", [rule["name"] for rule in rules if rule.get("state") == "firing"])


PARTS = {"rolling": rolling, "monitoring": monitoring, "killed": killed, "moved": moved, "ring": ring, "answers": answers,
         "kept": lambda verdict, cluster: spread(verdict, cluster, False),
         "spread": lambda verdict, cluster: spread(verdict, cluster, True)}
SETTINGS = {"killed": {"LOG_LEVEL": "debug"}, "answers": {"LOG_LEVEL": "debug"}, "spread": {"HTTP_MAX_REQUESTS_PER_CONNECTION": MAX_REQUESTS}}


def main():
    daemon, scratch, *parts = sys.argv[1:]
    kind = ContainerReplica if os.environ.get("CLUSTER") == "containers" else ProcessReplica
    verdict = Verdict()
    for part in parts or PARTS:
        folder = os.path.join(scratch, part)
        os.makedirs(folder)
        try:
            with Cluster(daemon, folder, kind, **SETTINGS.get(part, {})) as cluster:
                PARTS[part](verdict, cluster)
        except Failure as failure:
            verdict.expect(part, False, failure)
    print("cluster: %d passed, %d failed" % (verdict.passed, verdict.failed))
    return verdict.failed > 0 or verdict.passed == 0


if __name__ == "__main__":
    sys.exit(main())
