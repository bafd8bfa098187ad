"""What a model must answer with now, as far as it is sure. Standard library only.

One thread changes models and notes it here: `unsure` before it begins a change, `sure` when the daemon has said that the
change is done. Clients look before they send and again when they have the answer: only where nothing has moved
meanwhile does the note bind. Notes are replaced, never changed, so a look needs no lock."""

UNLOADED = "unloaded"


class Truth:
    def __init__(self, models):
        self.now = {name: (None,) for name in models}

    def unsure(self, model):
        self.now[model] = (None,)

    def sure(self, model, note):
        """UNLOADED, or which weights (0 or 1) of each version."""
        self.now[model] = (note,)

    def look(self):
        return dict(self.now)

    def binding(self, model, before):
        """The note for an answer between a look and now; None where anything may be."""
        note = before[model]
        return note[0] if note is self.now[model] else None
