"""Clients that ask all the time and count whatever is not the right answer: each on a kept connection.

Load asks for the same thing again and again; Sequences step sequences and begin anew those that are lost. Right is what
one daemon alone has answered before, number for number.
"""
import http.client
import json
import struct
import threading
import time

WIDTH = 8
STEPS = 60          # of a sequence, before it begins anew
VARIANTS = 4        # different sequences; more clients than that step the same numbers
SMALL, LARGE = 4, 900  # positions of a request
ASK_SECONDS = 30


def numbers(n, seed):
    """So many numbers below 1, the same for the same seed."""
    return [((i * 7919 + seed * 104729) % 1009) / 1009 - 0.5 for i in range(n)]


def request_of(content, **parameters):
    """A body of bytes and its headers: one input, the layer's own."""
    name = parameters.pop("input_name")
    head = {"inputs": [{"name": name, "datatype": "FP32", "shape": [1, len(content) // WIDTH, WIDTH],
                        "parameters": {"binary_data_size": 4 * len(content)}}],
            "parameters": {"binary_data_output": True, **parameters}}
    text = json.dumps(head).encode()
    return text + struct.pack("<%df" % len(content), *content), {"Inference-Header-Content-Length": str(len(text))}


class Reply:
    def __init__(self, status, code, data):
        self.status = status
        self.code = code  # the daemon's word for an error
        self.data = data  # the output's bytes


class Connection:
    """One kept connection; a request on it is sent once, and an error of any kind is status 0."""

    def __init__(self, address, port):
        self.address, self.port = address, port
        self.connection = None
        self.closed = 0  # times that a reply said `Connection: close`

    def ask(self, path, body, headers):
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.address, self.port, timeout=ASK_SECONDS)
            self.connection.request("POST", path, body, headers)
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Reply(0, type(error).__name__, b"")
        if answer.will_close:
            self.closed += 1
            self.close()
        if answer.status != 200:
            return Reply(answer.status, code_of(content), content)
        return Reply(200, "", content[int(answer.headers.get("Inference-Header-Content-Length", len(content))):])

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def code_of(content):
    try:
        return json.loads(content).get("code", "")
    except ValueError:
        return "not JSON"


class Failed:
    """A request that did not get the right answer."""

    def __init__(self, name, reply):
        self.name, self.status, self.code = name, reply.status, reply.code or reply.data[:80]

    def __str__(self):
        return "%s: %d %s" % (self.name, self.status, self.code)


class Client(threading.Thread):
    """Asks until it is told to stop. Its fields are read when it has been joined."""

    def __init__(self, group, number):
        super().__init__(daemon=True)
        self.group = group
        self.number = number
        self.connection = Connection(*group.target)
        self.n = 0
        self.failed = []
        self.sent = {}         # when each request was, by its name

    def run(self):
        while not self.group.stopping.is_set():
            self.turn()
            self.group.stopping.wait(self.group.pause)
        self.connection.close()

    def ask(self, path, body, headers):
        name = "%s-%d-%d" % (self.group.name, self.number, self.n)
        self.n += 1
        self.sent[name] = time.monotonic()
        reply = self.connection.ask(path, body, {**headers, "X-Request-Id": name})
        return name, reply


class LoadClient(Client):
    def turn(self):
        request = self.group.requests[(self.number + self.n) % len(self.group.requests)]
        name, reply = self.ask(self.group.path, *request[:2])
        if reply.status != 200 or reply.data != request[2]:
            self.failed.append(Failed(name, reply))


class SequenceClient(Client):
    def __init__(self, group, number):
        super().__init__(group, number)
        self.sequence = "%s-%d" % (group.name, number)
        self.position = 0
        self.lost = []  # requests that were told so
        self.held = 0   # times that it was asked to come again

    def turn(self):
        body, headers, right = self.group.steps[self.number % VARIANTS][self.position](self.sequence)
        name, reply = self.ask(self.group.path, body, {**headers, "X-Sequence-Id": self.sequence})
        if reply.status == 200 and reply.data == right:
            self.position = (self.position + 1) % STEPS
            return
        if reply.status == 503 and reply.code == "sequence_moving":
            self.held += 1
            return
        if reply.status == 409 and reply.code == "sequence_lost":
            self.lost.append(name)
        else:
            self.failed.append(Failed(name, reply))
        self.position = 0


class Group:
    """Clients of one kind; a context in which they run."""

    def __init__(self, name, target, n, pause, kind, path):
        self.name = name
        self.target = target
        self.pause = pause
        self.path = path
        self.stopping = threading.Event()
        self.clients = [kind(self, number) for number in range(n)]

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for client in self.clients:
            client.join(2 * ASK_SECONDS)

    def sent(self):
        """When each request was sent."""
        return {name: at for client in self.clients for name, at in client.sent.items()}

    def count(self):
        return sum(client.n for client in self.clients)

    def failed(self):
        return [failed for client in self.clients for failed in client.failed]


class Load(Group):
    """Requests without a sequence."""

    def __init__(self, name, target, n, right, pause=0.02, large=False):
        super().__init__(name, target, n, pause, LoadClient, "/v2/models/routing_mha_proj/infer")
        self.requests = right.large if large else right.small


class Sequences(Group):
    def __init__(self, name, target, n, right, pause=0.02):
        super().__init__(name, target, n, pause, SequenceClient, "/v2/models/causal_steps/infer")
        self.steps = right.steps

    def lost(self):
        """The requests that found their sequence lost."""
        return [name for client in self.clients for name in client.lost]

    def held(self):
        return sum(client.held for client in self.clients)


class Right:
    """What one daemon alone answers to every request that the clients send."""

    def __init__(self, address, port):
        connection = Connection(address, port)
        self.small = [self.plain(connection, SMALL, seed) for seed in range(8)]
        self.large = [self.plain(connection, LARGE, seed) for seed in range(2)]
        self.steps = [[self.step(connection, variant, position) for position in range(STEPS)]
                      for variant in range(VARIANTS)]
        connection.close()

    def answer(self, connection, path, body, headers):
        reply = connection.ask(path, body, headers)
        assert reply.status == 200, (reply.status, reply.data)
        return reply.data

    def plain(self, connection, n_positions, seed):
        body, headers = request_of(numbers(n_positions * WIDTH, seed), input_name="q")
        return body, headers, self.answer(connection, "/v2/models/routing_mha_proj/infer", body, headers)

    def step(self, connection, variant, position):
        """A function of the sequence's id: body, headers and right answer of this step."""
        content = numbers(WIDTH, 100 * variant + position)
        marks = {"sequence_start": position == 0, "sequence_end": position == STEPS - 1}

        def of(sequence):
            return *request_of(content, input_name="input", sequence_id=sequence, **marks), right

        right = None
        right = self.answer(connection, "/v2/models/causal_steps/infer", *of("alone-%d" % variant)[:2])
        return of
