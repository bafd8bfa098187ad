"""A connection to the daemon, as bytes: requests out, replies in. Standard library only."""
import re
import socket
import struct

LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.I)
PATIENCE = 120  # seconds for an answer, under sanitizers on a machine that is busy


class Gone(Exception):
    """The connection ended where an answer was due; arguments: what had come of it."""


class Reply:
    __slots__ = ("status", "head", "body")

    def __init__(self, status, head, body):
        self.status, self.head, self.body = status, head, body

    def closes(self):
        return b"\r\nConnection: close\r\n" in self.head

    def header(self, name):
        found = re.search(rb"\r\n%s: ([^\r]*)\r\n" % name, self.head, re.I)
        return found and found[1]

    def __repr__(self):
        return f"{self.status} {self.body[:200]!r}"


class Talk:
    """One connection."""

    def __init__(self, port, host="127.0.0.1"):
        self.rest = b""
        self.socket = socket.socket()
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.settimeout(PATIENCE)
            self.socket.connect((host, port))
        except OSError:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, content):
        try:
            self.socket.sendall(content)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Gone(repr(error)) from error

    def more(self):
        """Read on; the end is an exception."""
        try:
            piece = self.socket.recv(1 << 18)
        except ConnectionError as error:
            raise Gone(repr(error), self.rest[:200]) from error
        except TimeoutError as error:
            raise AssertionError(f"no answer within {PATIENCE} s, after {self.rest[:200]!r}") from error
        if not piece:
            raise Gone("end", self.rest[:200])
        self.rest += piece

    def reply(self, bare=False):
        """The next reply but for 100 Continue; bare: it has no body, as to HEAD."""
        while True:
            end = self.rest.find(b"\r\n\r\n")
            while end < 0:
                self.more()
                end = self.rest.find(b"\r\n\r\n")
            head, self.rest = self.rest[: end + 4], self.rest[end + 4 :]
            status = int(head[9:12])
            if status != 100:
                break
        length = LENGTH.search(head)
        n = 0 if bare or not length else int(length[1])
        while len(self.rest) < n:
            self.more()
        body, self.rest = self.rest[:n], self.rest[n:]
        return Reply(status, head, body)

    def ask(self, content, bare=False):
        self.send(content)
        return self.reply(bare)

    def ended(self):
        """Does the end come before anything else does?"""
        try:
            self.more()
        except Gone:
            return True
        return False

    def close(self):
        self.socket.close()

    def reset(self):
        """Go without good-bye."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.socket.close()


def message(verb, path, body=None, headers=(), version="1.1"):
    """A request as bytes; headers are (name, value)."""
    lines = [f"{verb} {path} HTTP/{version}", "Host: test"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
