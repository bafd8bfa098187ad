"""What clients do to the daemon, drawn from a seed, and what they take for an answer. Standard library only.

A client's decisions come from its own generator, which nobody else draws from, and do not depend on answers: the same
seed makes the same requests in the same order, client by client. What the others do at the same moment is chance."""
import json
import mmap
import os
import random
import re
import threading
import time

import scaled
from catalogue import flat, pack
from talk import Gone, Talk, message
from truth import UNLOADED

CODE = re.compile(rb'"code": ?"([a-z_]+)"')
LAST_MOMENT = 0.2  # seconds before a drain's end in which nothing is promised any more


class Over(Exception):
    """The daemon was told to stop and has gone."""


class World:
    """What all clients of a round share; fixed when they begin, but for the moment of the stop."""

    def __init__(self, seed, number, catalogue, settings, truth):
        self.seed, self.number, self.catalogue, self.settings, self.truth = seed, number, catalogue, settings, truth
        self.stopped = [0, 0]  # when the first signal was sent, and when promises end; 0: not yet
        self.port = None

    def is_stopping(self):
        return self.stopped[0] > 0

    def may_lose(self):
        """May a request go unanswered now?"""
        return self.stopped[0] > 0 and time.monotonic() > self.stopped[1] - LAST_MOMENT

    def crowded(self):
        return self.settings["crowded"]


class Client(threading.Thread):
    """One client; `done` and `faults` are read when it has ended."""

    def __init__(self, world, number, n_operations):
        super().__init__(daemon=True)
        self.world, self.number, self.left = world, number, n_operations
        self.rng = random.Random(f"{world.seed} {world.number} {number}")
        self.talk, self.fresh = None, False
        self.n_done, self.faults, self.tally = 0, [], {}
        self.n_names, self.leavings = 0, []
        self.region = None
        self.doing, self.before = "", world.truth.look()

    # ---- the course of things ------------------------------------------------------------------

    def run(self):
        kinds, weights = zip(*self.kinds())
        try:
            while self.n_done < self.left:
                kind = self.rng.choices(kinds, weights)[0]
                self.doing = kind.__name__
                before = self.n_done
                self.attempt(kind)
                if self.n_done == before:
                    self.n_done += 1
        except Over:
            pass
        except Exception as fault:  # a fault of the test is one too
            self.fault(repr(fault))
        self.forget()

    def kinds(self):
        return [(self.some, 40), (self.bursts, 25), (self.closing, 4), (self.in_chunks, 4), (self.consented, 1),
                (self.half_sent, 4), (self.turned_away_from, 4), (self.half_closed, 3), (self.reset_in_reply, 3),
                (self.sequence, 6), (self.moved, 2), (self.clash, 1), (self.shared, 4), (self.look, 6),
                (self.nonsense, 4), (self.crowd, 1)]

    def attempt(self, kind):
        """Do it, from the same draws whatever becomes of it."""
        plan = random.Random(self.rng.getrandbits(64))
        self.before = self.world.truth.look()
        try:
            kind(plan)
        except Gone as gone:
            self.lost(gone)
        except ConnectionRefusedError as error:
            self.drop()
            if not self.world.may_lose():
                self.fault(f"no connection: {error}")
            raise Over from error
        except (ConnectionError, BrokenPipeError) as error:
            self.lost(error)
        except AssertionError as error:
            self.drop()
            self.fault(str(error)[:600])

    def lost(self, why):
        first, self.fresh = self.fresh, False
        self.drop()
        if self.world.may_lose() or (first and self.world.crowded()):
            self.count("closed")
            return
        self.fault(f"not answered: {why}")

    def fault(self, text):
        self.faults.append(f"client {self.number}, operation {self.n_done}, {self.doing}: {text}")
        if len(self.faults) > 20:
            raise Over

    def count(self, what):
        key = (self.doing, what)
        self.tally[key] = self.tally.get(key, 0) + 1

    # ---- connections ---------------------------------------------------------------------------

    def new_talk(self):
        return Talk(self.world.port)

    def connection(self):
        if not self.talk:
            self.talk, self.fresh = self.new_talk(), True
        return self.talk

    def drop(self):
        if self.talk:
            self.talk.close()
        self.talk = None

    def forget(self):
        self.drop()
        for talk in self.leavings:
            talk.close()
        if self.region:
            self.region.close()

    def settle(self, reply):
        """Judged already; does the connection go on?"""
        self.n_done += 1
        self.count(reply.status)
        self.fresh = False
        if reply.closes():
            self.drop()
            return False
        return True

    # ---- judging -------------------------------------------------------------------------------

    def refused(self, reply, codes=()):
        """Is it a refusal that anybody may get?"""
        text = CODE.search(reply.body)
        code = text[1].decode() if text else None
        if reply.status == 503:
            return ((code == "stopping" and self.world.is_stopping()) or (code == "connections" and self.world.crowded())
                    or code in codes or (code is None and b"cannot be served" in reply.body))
        if reply.status == 404:
            return b"is not found" in reply.body and self.world.settings["mode"] == "poll"
        return reply.status in (409, 413) and code in codes

    def judge(self, case, reply):
        """An answer that the model gives with one of its weights, and with those that it must have now, or a refusal."""
        note = self.world.truth.binding(case.model, self.before)
        if reply.status == 200:
            assert reply.body in case.lawful, f"{case.name}: a wrong answer {reply!r}"
            assert note != UNLOADED, f"{case.name}: answered by a model that is unloaded"
            said = case.lawful[reply.body]
            assert not note or any(note.get(version) == which for version, which in said), \
                f"{case.name}: weights {said} answer, {note} serve"
            return
        assert self.refused(reply, case.refusals), f"{case.name}: {reply!r}"
        assert note is None or note == UNLOADED or b"cannot be served" not in reply.body, f"{case.name} is loaded: {reply!r}"

    def expect(self, reply, *statuses, codes=()):
        assert reply.status in statuses or self.refused(reply, codes), f"{reply!r}, expected {statuses}"
        return reply.status in statuses

    # ---- asking --------------------------------------------------------------------------------

    def pick(self, plan):
        return plan.choice(self.world.catalogue.cases)

    def some(self, plan):
        for _ in range(plan.randint(1, 4)):
            case = self.pick(plan)
            reply = self.connection().ask(case.content)
            self.judge(case, reply)
            self.settle(reply)

    def bursts(self, plan):
        """Sent ahead, answered in order."""
        cases = [self.pick(plan) for _ in range(plan.randint(2, 16))]
        talk = self.connection()
        talk.send(b"".join(case.content for case in cases))
        for case in cases:
            reply = talk.reply()
            self.judge(case, reply)
            if not self.settle(reply):
                return

    def closing(self, plan):
        case = self.pick(plan)
        self.drop()
        talk = self.connection()
        reply = talk.ask(case.content.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        self.judge(case, reply)
        assert reply.closes(), f"not closed: {reply.head}"
        assert talk.ended(), "something behind the last reply"
        self.settle(reply)

    def in_chunks(self, plan):
        case = self.pick(plan)
        reply = self.connection().ask(case.chunked(plan))
        self.judge(case, reply)
        self.settle(reply)

    def consented(self, plan):
        case = self.pick(plan)
        head, body = case.content.split(b"\r\n\r\n", 1)
        talk = self.connection()
        talk.send(head + b"\r\nExpect: 100-continue\r\n\r\n")
        while b"\r\n\r\n" not in talk.rest:
            talk.more()
        if talk.rest.startswith(b"HTTP/1.1 100"):
            talk.send(body)
        reply = talk.reply()
        self.judge(case, reply)
        self.settle(reply)

    # ---- clients that go ------------------------------------------------------------------------

    def stranger(self, plan, most=6):
        """A connection of its own, which is left open for a while."""
        while len(self.leavings) >= most:
            victim = self.leavings.pop(plan.randrange(len(self.leavings)))
            victim.reset() if plan.random() < 0.5 else victim.close()
        talk = self.new_talk()
        self.leavings.append(talk)
        return talk

    def half_sent(self, plan):
        """Cut off anywhere in head or body, then silence, the end, or a reset."""
        content = self.pick(plan).content
        talk = self.stranger(plan)
        try:
            talk.send(content[: plan.randrange(len(content))])
        except Gone:
            pass
        self.leave(plan, talk)

    def leave(self, plan, talk):
        how = plan.randrange(3)
        if how == 0:
            return  # open until it is pushed out by others
        self.leavings.remove(talk)
        talk.reset() if how == 1 else talk.close()

    def turned_away_from(self, plan):
        """A whole request, or many, and nobody waits for the answer."""
        talk = self.stranger(plan)
        try:
            talk.send(b"".join(self.pick(plan).content for _ in range(plan.randint(1, 6))))
            time.sleep(plan.choice((0, 0, 0.001, 0.01)))
        except Gone:
            pass
        self.leave(plan, talk)

    def half_closed(self, plan):
        """The request may be dropped, but if it is computed, the answer is right."""
        case = self.pick(plan)
        with self.new_talk() as talk:
            try:
                talk.send(case.content)
                talk.socket.shutdown(1)
                reply = talk.reply()
            except (Gone, OSError):
                return
        if reply.status != 499 or b'"canceled"' not in reply.body:
            self.judge(case, reply)

    def reset_in_reply(self, plan):
        case = self.pick(plan)
        with self.new_talk() as talk:
            try:
                talk.send(case.content * plan.randint(1, 5))
                talk.socket.recv(plan.randint(1, 200))
            except (Gone, ConnectionError):
                pass
            talk.reset()

    def crowd(self, plan):
        """Many connections at once, each answered or, where there are too many, closed."""
        cases = [self.pick(plan) for _ in range(plan.randint(8, 30))]
        talks = []
        try:
            for case in cases:
                talks.append(self.new_talk())
                try:
                    talks[-1].send(case.content)
                except Gone:
                    assert self.world.crowded() or self.world.may_lose(), "closed at once"
            for case, talk in zip(cases, talks):
                try:
                    reply = talk.reply()
                except Gone as gone:
                    assert self.world.crowded() or self.world.may_lose(), f"not answered: {gone}"
                    continue
                self.judge(case, reply)
                self.n_done += 1
                self.count(reply.status)
        finally:
            for talk in talks:
                talk.close()

    # ---- sequences -----------------------------------------------------------------------------

    def name(self):
        self.n_names += 1
        return f"s{self.number:03d}-{self.n_names:09d}"

    CODES = ("sequence_lost", "sequence_limit", "timeout")

    def take_step(self, script, i, content, which):
        """Which weights answered; None: it is lost. All of a sequence come from the same."""
        reply = self.connection().ask(content)
        going = self.settle(reply)
        if reply.status != 200:
            assert self.refused(reply, self.CODES), f"step {i} of {script.model}: {reply!r}"
            return None
        lawful = script.steps[i][1]
        assert reply.body in lawful, f"step {i} of {script.model}: a wrong answer {reply!r}"
        found = lawful[reply.body]
        assert which is None or which == found, f"step {i} of {script.model}: the weights changed on the way"
        return found if going else None

    def sequence(self, plan):
        script, name = plan.choice(self.world.catalogue.scripts), self.name()
        which, last = None, len(script.steps) - 1
        for i in range(plan.randint(1, last + 1)):
            content = script.last(name) if i == last and plan.random() < 0.5 else script.step(i, name)
            which = self.take_step(script, i, content, which)
            if which is None:
                return
        if plan.random() < 0.3:
            reply = self.connection().ask(message("DELETE", script.place + name))
            self.expect(reply, 204, 409)
            self.settle(reply)

    def moved(self, plan):
        """Forked, or exported and imported under another name: it goes on with the same answers."""
        script, name, other = plan.choice(self.world.catalogue.scripts), self.name(), self.name()
        which = self.take_step(script, 0, script.step(0, name), None)
        if which is None:
            return
        if plan.random() < 0.5:
            which = self.take_step(script, 1, script.fork(other, name), which)
        else:
            reply = self.connection().ask(message("GET", script.place + name))
            if not self.expect(reply, 200, codes=self.CODES) or not self.settle(reply):
                return
            reply = self.connection().ask(message("POST", script.place + other, reply.body))
            if not self.expect(reply, 200, codes=(*self.CODES, "sequence_mismatch")) or not self.settle(reply):
                return
            which = self.take_step(script, 1, script.step(1, other), which)
        if which is not None:
            self.take_step(script, 2, script.step(2, other), which)

    def clash(self, plan):
        """Two steps of one sequence at once: each is answered, or told that it is busy."""
        script, name = plan.choice(self.world.catalogue.scripts), self.name()
        if self.take_step(script, 0, script.step(0, name), None) is None:
            return
        with self.new_talk() as one, self.new_talk() as two:
            one.send(script.step(1, name))
            two.send(message("GET", script.place + name) if plan.random() < 0.3 else script.step(1, name))
            for talk in (one, two):
                try:
                    self.expect(talk.reply(), 200, codes=(*self.CODES, "sequence_busy"))
                except Gone:
                    assert self.world.crowded() or self.world.may_lose(), "not answered"

    # ---- shared memory -------------------------------------------------------------------------

    def shared(self, plan):
        if not self.region:
            self.region = Region(self)
        self.region.use(plan)

    # ---- operators' routes ---------------------------------------------------------------------

    def look(self, plan):
        model = plan.choice(list(scaled.MODELS))
        version = plan.choice(("", "/versions/1", "/versions/2"))
        where = f"/v2/models/{model}{version}"
        path = plan.choice(("/metrics", "/v2/health/live", "/v2/health/ready", "/v2", "/v2/models", "/v2/models/stats",
                            "/v2/logging", "/v1/models", f"/v1/models/{model}", where, where + "/ready", where + "/config",
                            where + "/stats", where + "/sequences", "/v2/systemsharedmemory/status", "POST index"))
        verb = "POST" if path == "POST index" else plan.choice(("GET", "GET", "HEAD"))
        path = "/v2/repository/index" if verb == "POST" else path
        reply = self.connection().ask(message(verb, path, b"" if verb == "POST" else None), bare=verb == "HEAD")
        lawful = {200, 404, 503} if "ready" in path or model in path else {200}
        if verb == "HEAD" and self.world.crowded():
            lawful.add(503)  # without the text that says why
        assert reply.status in lawful or self.refused(reply), f"{verb} {path}: {reply!r}"
        if reply.status == 200 and path == "/metrics" and verb == "GET":
            assert b"\nattentiond_requests_in_flight " in reply.body and reply.body.endswith(b"\n"), "half a page"
        elif reply.status == 200 and verb != "HEAD":
            json.loads(reply.body)
        self.settle(reply)

    # ---- bad requests --------------------------------------------------------------------------

    def nonsense(self, plan):
        """Refused with 4xx, and the connection goes on."""
        case = self.pick(plan)
        how = plan.randrange(5)
        if how == 0:
            content, wanted = message(case.verb, case.path, case.body[: len(case.body) // 2]), (400,)
        elif how == 1:
            content, wanted = message("GET", case.path), (405,)
        elif how == 2:
            content, wanted = message("POST", case.path + "/x", case.body), (404,)
        elif how == 3:
            content, wanted = message("POST", case.path, case.body, [("Content-Encoding", "br")]), (415,)
        else:
            content, wanted = message("POST", "/v2/models/nobody/infer", case.body), (404,)
        reply = self.connection().ask(content)
        self.expect(reply, *wanted, codes=case.refusals)
        self.settle(reply)


class Region:
    """Shared memory of one client: its input at the start, answers behind it."""

    SIZE, OUT = 8192, 4096

    def __init__(self, client):
        self.client = client
        self.key = f"attentiond_stress_{os.getpid()}_{client.number}"
        self.path = f"/dev/shm/{self.key}"
        with open(self.path, "wb+") as file:
            file.truncate(self.SIZE)
            self.memory = mmap.mmap(file.fileno(), self.SIZE)
        cases = client.world.catalogue.by_model["steps"]
        self.case = next(case for case in cases if case.name == "steps plain")
        self.answers = {pack(json.loads(body)["outputs"][0]["data"]): said for body, said in self.case.lawful.items()}
        self.content = pack(flat(self.case.inputs["input"]))

    def ask(self, verb, path, body=None):
        return self.client.connection().ask(message(verb, path, body))

    def body(self, region):
        place = {"shared_memory_region": region, "shared_memory_byte_size": len(self.content)}
        return json.dumps({
            "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 4], "parameters": place}],
            "outputs": [{"name": "output", "parameters": {**place, "shared_memory_offset": self.OUT}}]}).encode()

    def use(self, plan):
        """Register, infer, unregister; others may unregister all at any moment."""
        region = f"r{self.client.number}"
        where = f"/v2/systemsharedmemory/region/{region}"
        size = len(self.content)
        key = json.dumps({"key": "/" + self.key, "offset": 0, "byte_size": self.SIZE}).encode()
        reply = self.ask("POST", where + "/register", key)
        self.client.expect(reply, 200, 400)
        assert reply.status != 400 or b"registered" in reply.body, reply
        self.client.settle(reply)
        for _ in range(plan.randint(1, 3)):
            self.memory[:size] = self.content
            self.memory[self.OUT : self.OUT + size] = bytes(size)
            reply = self.ask("POST", self.case.path, self.body(region))
            if self.client.expect(reply, 200, 400) and reply.status == 200:
                said = self.memory[self.OUT : self.OUT + size]
                assert said in self.answers, f"in shared memory: {said!r}"
            else:
                assert reply.status != 400 or b"region" in reply.body, reply
            self.client.settle(reply)
        if plan.random() < 0.5:
            reply = self.ask("GET", where + "/status")
            self.client.expect(reply, 200, 400, 404)
            self.client.settle(reply)
        if plan.random() < 0.5:
            every = plan.random() < 0.1
            reply = self.ask("POST", "/v2/systemsharedmemory/unregister" if every else where + "/unregister", b"")
            self.client.expect(reply, 200)
            self.client.settle(reply)

    def close(self):
        self.memory.close()
        os.unlink(self.path)
