"""The operator: loads, unloads, new weights, broken files, SIGHUP, settings of the log. Standard library only.

There is one, so that it knows what each model must answer with, and says so to the clients (truth.py)."""
import json
import os
import signal
import time

import scaled
from clients import Client
from talk import message
from truth import UNLOADED

CHANGING = ("mha", "narrow", "tour", "speech", "steps", "graph")


class Control(Client):
    """As a client, but it goes on until the clients have done what they are to do."""

    def __init__(self, world, repository, pid, apart):
        super().__init__(world, 0, 1 << 60)
        self.repository, self.pid, self.apart = repository, pid, apart
        self.which = {name: {version: 0 for version in row[1]} for name, row in scaled.MODELS.items()}
        self.asked_to_end = False

    def kinds(self):
        always = [(self.hang_up, 2), (self.set_log, 2), (self.pause, 4)]
        if self.world.settings["mode"] == "explicit":
            return always + [(self.reload, 12), (self.unload, 3), (self.bring, 3), (self.fail, 3), (self.take_turns, 2)]
        return always + [(self.rewrite, 6), (self.refuse, 1)] + (
            [(self.move_away, 2)] if self.world.settings["mode"] == "poll" else [])

    def attempt(self, kind):
        super().attempt(kind)
        if self.asked_to_end:
            self.left = 0

    def order(self, model, verb, body=b""):
        """Load or unload; None where nobody says whether it was done."""
        reply = self.connection().ask(message("POST", f"/v2/repository/models/{model}/{verb}", body))
        self.settle(reply)
        if reply.status == 503 and self.refused(reply):
            return None
        return reply

    def pause(self, plan):
        """Changes that come too fast would leave nothing sure."""
        time.sleep(plan.choice((0.01, 0.05, 0.2)))

    # ---- mode explicit --------------------------------------------------------------------------

    def scale(self, plan, model):
        """New weights on disk; what a load would bring from here on."""
        for version in self.which[model]:
            if plan.random() < 0.6:
                self.which[model][version] ^= 1
                self.repository.scale(model, version, self.which[model][version])

    def load(self, model):
        reply = self.order(model, "load")
        if reply:
            assert reply.status == 200, f"load of {model}: {reply!r}"
            self.world.truth.sure(model, dict(self.which[model]))

    def reload(self, plan):
        model = plan.choice(CHANGING)
        self.world.truth.unsure(model)
        self.scale(plan, model)
        self.load(model)

    def unload(self, plan):
        model = plan.choice(CHANGING)
        self.world.truth.unsure(model)
        reply = self.order(model, "unload")
        if reply:
            assert reply.status == 200, f"unload of {model}: {reply!r}"
            self.world.truth.sure(model, UNLOADED)
            time.sleep(plan.choice((0, 0.01, 0.05)))
        self.world.truth.unsure(model)
        self.load(model)

    def take_turns(self, plan):
        """Many loads sent ahead, and unloads among them: they are done in order, and the last counts."""
        model = plan.choice(CHANGING)
        self.world.truth.unsure(model)
        self.scale(plan, model)
        verbs = [plan.choice(("load", "load", "unload")) for _ in range(plan.randint(1, 5))] + ["load"]
        talk = self.connection()
        talk.send(b"".join(message("POST", f"/v2/repository/models/{model}/{verb}", b"") for verb in verbs))
        for verb in verbs:
            reply = talk.reply()
            self.expect(reply, 200)
            if not self.settle(reply):
                return
        if reply.status == 200:
            self.world.truth.sure(model, dict(self.which[model]))

    def bring(self, plan):
        """Configuration and weights in the request itself."""
        which = plan.randrange(2)
        self.world.truth.unsure("fresh")
        reply = self.order("fresh", "load", scaled.brought("fresh", which))
        if reply:
            assert reply.status == 200, f"load of fresh: {reply!r}"

    def fail(self, plan):
        """A load that is refused leaves what serves."""
        model = plan.choice(CHANGING)
        self.repository.spoil(model)
        try:
            reply = self.order(model, "load")
        finally:
            self.repository.configure(model)
        assert reply is None or reply.status == 400, f"a broken load of {model}: {reply!r}"

    # ---- other modes ----------------------------------------------------------------------------

    def rewrite(self, plan):
        """Poll, or the next SIGHUP, takes it up at some time."""
        model = plan.choice(CHANGING)
        self.world.truth.unsure(model)
        self.scale(plan, model)

    def refuse(self, plan):
        reply = self.order(plan.choice(CHANGING), plan.choice(("load", "unload")))
        assert reply is None or reply.status in (400, 503), f"not in this mode: {reply!r}"

    def move_away(self, plan):
        model = plan.choice(CHANGING)
        self.world.truth.unsure(model)
        os.rename(self.repository.root / model, self.apart / model)
        time.sleep(plan.choice((0, 0.1, 1.5)))
        os.rename(self.apart / model, self.repository.root / model)

    # ---- any mode -------------------------------------------------------------------------------

    def hang_up(self, plan):
        """Everything is read again; what is on disk is what serves, but for what was brought."""
        if self.world.settings["mode"] != "explicit":
            for model in CHANGING:
                self.world.truth.unsure(model)
        self.world.truth.unsure("fresh")
        for _ in range(plan.choice((1, 1, 1, 5))):
            os.kill(self.pid, signal.SIGHUP)
        self.n_done += 1
        self.count("sent")

    def set_log(self, plan):
        settings = {"log_verbose_level": plan.choice((0, 0, 1)), "log_format": plan.choice(("default", "json"))}
        if plan.random() < 0.3:
            settings["log_file"] = plan.choice(("", "one.log", "two.log"))
        reply = self.connection().ask(message("POST", "/v2/logging", json.dumps(settings).encode()))
        self.expect(reply, 200)
        self.settle(reply)
