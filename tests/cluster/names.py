"""A name server that knows one name: what a container engine's own does for the replicas of a service.

Answers every question for an A record with the addresses that are there at the moment, over UDP.
"""
import socket
import struct
import threading

A, IN = 1, 1
QUERY_HEAD = struct.Struct(">HHHHHH")
ANSWERED = 0x8580  # a response with authority, recursion available
TTL = 1


def question_of(query):
    """The bytes of the only question, and its type."""
    end = QUERY_HEAD.size
    while query[end]:
        end += 1 + query[end]
    kind, _ = struct.unpack_from(">HH", query, end + 1)
    return query[QUERY_HEAD.size:end + 5], kind


class Names:
    def __init__(self):
        self.lock = threading.Lock()
        self.addresses = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def add(self, address):
        with self.lock:
            self.addresses.append(address)

    def remove(self, address):
        with self.lock:
            self.addresses.remove(address)

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(4096)
            try:
                self.socket.sendto(self.answer(query), client)
            except (struct.error, IndexError):
                continue  # not a question

    def answer(self, query):
        question, kind = question_of(query)
        with self.lock:
            # no two answers in the same order, as engines do it
            self.addresses = self.addresses[1:] + self.addresses[:1]
            found = list(self.addresses) if kind == A else []
        head = QUERY_HEAD.pack(struct.unpack_from(">H", query)[0], ANSWERED, 1, len(found), 0, 0)
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", A, IN, TTL, 4) + socket.inet_aton(address) for address in found)
        return head + question + records
