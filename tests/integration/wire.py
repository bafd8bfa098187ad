"""HTTP as bytes, where clients and proxies could take them differently.

    wire.py list              names of all cases
    wire.py PORT CASE         exit status 0 when the daemon does the right thing

The daemon is to have --http-idle-timeout=2 and --http-max-input-size=65536 and the models of models.py.
"""
import json
import socket
import sys
import time

BODY = (
    b'{"inputs":[{"name":"query","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"key","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"value","datatype":"FP32","shape":[1,1,4],"data":[1,2,3,4]}]}'
)
INFER = b"POST /v2/models/mha/infer HTTP/1.1\r\nHost: test\r\n"
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: test\r\n"
cases = {}


def case(function):
    cases[function.__name__] = function
    return function


# ---- a connection ------------------------------------------------------------------------------


class Wire:
    """Bytes out, replies in."""

    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, *pieces):
        for piece in pieces:
            self.socket.sendall(piece)

    def reply(self, head=False):
        """Status, headers (names in small letters) and body of the next one."""
        line = self.file.readline()
        assert line.startswith(b"HTTP/1."), f"no reply: {line!r}"
        headers = {}
        while (field := self.file.readline()) not in (b"\r\n", b""):
            name, value = field.split(b":", 1)
            headers[name.strip().lower().decode()] = value.strip().decode()
        length = int(headers.get("content-length", 0))
        body = b"" if head or line[9:12] == b"100" else self.file.read(length)
        return int(line[9:12]), headers, body

    def closed(self):
        """Does nothing more come before the end?"""
        try:
            return self.file.read() == b""
        except ConnectionResetError:
            return True


def is_error(reply, status, *texts):
    """In JSON, of one line, with the id of its request."""
    got, headers, body = reply
    assert got == status, (got, body)
    assert headers["content-type"] == "application/json", headers
    assert headers["x-request-id"], headers
    message = json.loads(body)["error"]
    assert message and "\n" not in message, message
    assert all(text in message for text in texts), message


def refuses(request, status, *texts):
    """The request is refused, the connection closed, and what comes behind it never looked at."""
    with Wire() as wire:
        wire.send(request + LIVE + b"\r\n")
        reply = wire.reply()
        is_error(reply, status, *texts)
        assert reply[1].get("connection") == "close", reply
        assert wire.closed()


def refuses_and_goes_on(request, status, *texts):
    with Wire() as wire:
        wire.send(request + LIVE + b"\r\n")
        is_error(wire.reply(), status, *texts)
        assert wire.reply()[0] == 200


def answers(request, status=200, n=1):
    with Wire() as wire:
        wire.send(request)
        for _ in range(n):
            reply = wire.reply()
            assert reply[0] == status, reply
    return reply


def refused_by_library(request, *statuses):
    """What the library refuses by itself, before we are asked: a page of its own, and the end. It may say its
    header twice."""
    with Wire() as wire:
        wire.send(request + LIVE + b"\r\n")
        answer = b""
        try:
            while chunk := wire.socket.recv(65536):
                answer += chunk
        except ConnectionResetError:
            pass
    assert int(answer[9:12]) in statuses, answer
    assert b"live" not in answer and b"outputs" not in answer, answer


def chunked(*pieces, end=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


def sized(body=BODY, length=None):
    return b"Content-Length: %d\r\n\r\n%s" % (len(body) if length is None else length, body)


# ---- where a body ends -------------------------------------------------------------------------


@case
def post_without_a_body():
    answers(b"POST /v2/repository/index HTTP/1.1\r\nHost: test\r\n\r\n")


@case
def chunked_body():
    for pieces in ([BODY], [BODY[:1], BODY[1:9], BODY[9:]], [BODY[i : i + 1] for i in range(len(BODY))]):
        reply = answers(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(*pieces))
        assert b'"outputs"' in reply[2], reply
    answers(INFER + b"transfer-encoding: Chunked\r\n\r\n" + chunked(BODY))
    answers(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(BODY, end=b"0\r\nX-Trailer: 1\r\n\r\n"))


@case
def chunked_body_over_the_limit():
    """It is read on for a while, so that the client sees the answer."""
    with Wire() as wire:
        wire.send(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b" " * 65537))
        is_error(wire.reply(), 413, "65536", "--http-max-input-size")


@case
def chunked_body_far_over_the_limit():
    with Wire() as wire:
        try:
            wire.send(INFER + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(1000):
                wire.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
        except (ConnectionResetError, BrokenPipeError):
            return
        assert wire.closed()


@case
def chunked_and_a_length():
    smuggled = b"0\r\n\r\n" + LIVE + b"\r\n"
    for fields in (b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n", b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n"):
        refuses(INFER + fields % len(smuggled) + smuggled, 400, "Transfer-Encoding", "Content-Length")


@case
def two_lengths():
    refuses(INFER + b"Content-Length: 5\r\n" + sized(), 400, "Content-Length")
    refuses(INFER + b"Content-Length: 0\r\n" + sized(), 400, "Content-Length")
    reply = answers(INFER + b"Content-Length: %d\r\n" % len(BODY) + sized())
    assert b'"outputs"' in reply[2], reply


@case
def two_codings():
    field = b"Transfer-Encoding: chunked\r\n"
    refuses(INFER + field + field + b"\r\n" + chunked(BODY), 400, "Transfer-Encoding")


@case
def other_codings():
    for coding in (b"gzip, chunked", b"chunked, gzip", b"gzip", b"identity", b"", b"chunked;q=1", b"xchunked", b'"chunked"'):
        refuses(INFER + b"Transfer-Encoding: %s\r\n\r\n" % coding + chunked(BODY), 501, "Transfer-Encoding", "chunked")


@case
def coding_in_an_old_version():
    old = b"POST /v2/models/mha/infer HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    refuses(old + chunked(BODY), 400, "Transfer-Encoding")


@case
def lengths_that_are_none():
    for length in (b"5x", b"-5", b"+5", b"0x10", b"5,5", b"5 5", b"", b"1e1"):
        refused_by_library(INFER + b"Content-Length: %s\r\n\r\n" % length + BODY, 400)


@case
def length_beyond_64_bits():
    refused_by_library(INFER + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY, 400, 413)


@case
def length_over_the_limit():
    refuses(INFER + sized(length=65537), 413, "65537", "65536", "--http-max-input-size")
    refuses(INFER + sized(length=9223372036854775807), 413, "--http-max-input-size")


@case
def blank_before_the_colon():
    for name in (b"Content-Length ", b"Content-Length\t", b"Transfer-Encoding ", b"X y"):
        refuses(INFER + name + b": 5\r\n" + sized(), 400, "header name")


@case
def bad_chunks():
    for chunk in (b"zz\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"\r\n", b"5\r\n123456\r\n", b" 5\r\n", b"0x5\r\n"):
        with Wire() as wire:
            wire.send(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + BODY + b"\r\n0\r\n\r\n" + LIVE + b"\r\n")
            wire.socket.shutdown(socket.SHUT_WR)
            answer = wire.file.read() if chunk != b"5\r\n123456\r\n" else b""
            assert b" 200 " not in answer[:20] and b"live" not in answer, (chunk, answer)


@case
def body_shorter_than_announced():
    with Wire() as wire:
        wire.send(INFER + sized(length=len(BODY) + 10))
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.closed()


@case
def body_longer_than_announced():
    """The rest is another request, and no good one."""
    with Wire() as wire:
        wire.send(INFER + sized(BODY + b"x\r\n\r\n", len(BODY)))
        assert wire.reply()[0] == 200
        assert b" 200 " not in wire.file.read()[:20]


# ---- heads -------------------------------------------------------------------------------------


@case
def no_host():
    refuses_and_goes_on(b"GET /v2/health/live HTTP/1.1\r\n\r\n", 400, "Host")
    refuses_and_goes_on(b"POST /v2/models/mha/infer HTTP/1.1\r\n" + sized(), 400, "Host")
    answers(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
    answers(b"GET /v2/health/live HTTP/1.1\r\nHost:\r\n\r\n")


@case
def two_hosts():
    refuses(b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "Host")
    refuses(b"GET /v2 HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400, "Host")


@case
def spaces_in_the_target():
    for target in (b"/v2 /models", b"/v2?a b", b"/v2 HTTP/1.1"):
        refuses_and_goes_on(b"GET " + target + b" HTTP/1.1\r\nHost: test\r\n\r\n", 400, "space")


@case
def escapes_in_the_path():
    for path in (b"/v2/models/a%2fb/%2e%2e/x%00y", b"/v2/models/%2e%2e", b"/v2/models/mha%00", b"/v2%2fmodels", b"/v2/models/..", b"/v2/models/%2", b"/v2/models/%zz", b"/v2/models/mha%0d%0aX:%20y"):
        refuses_and_goes_on(b"GET " + path + b" HTTP/1.1\r\nHost: test\r\n\r\n", 400, "path segment")
    answers(b"GET /v2/models/%6Dha HTTP/1.1\r\nHost: test\r\n\r\n")


@case
def zeros_in_the_head():
    """The library reads a line up to a NUL: what is then left must be no good request."""
    for request in (b"GET /v2/models\0/mha HTTP/1.1\r\nHost: test\r\n\r\n", b"G\0T /v2 HTTP/1.1\r\nHost: test\r\n\r\n", b"\0" * 100 + b"\r\n\r\n"):
        with Wire() as wire:
            wire.send(request)
            wire.socket.shutdown(socket.SHUT_WR)
            answer = wire.file.read()
            assert b'"inputs"' not in answer, answer


@case
def absolute_target():
    answers(b"GET http://test/v2/health/live HTTP/1.1\r\nHost: test\r\n\r\n")


@case
def large_heads():
    def padded(size):
        start = LIVE + b"X-Padding: "
        return start + b"x" * (size - len(start) - 4) + b"\r\n\r\n"

    def many(size):
        # of some length: a list of very many short ones the library gives up on earlier
        field = b"X-Header: " + b"0" * 300 + b"\r\n"
        head = LIVE + field * ((size - len(LIVE)) // len(field) - 1)
        return head + b"X: " + b"x" * (size - len(head) - 7) + b"\r\n\r\n"

    for make in (padded, many):
        for size in (20000, 32000, 32768):
            assert len(make(size)) == size
            answers(make(size))
        refuses_and_goes_on(make(32769), 431, "32769", "32768", "--http-max-header-size")
    refuses_and_goes_on(padded(40000), 431, "40000", "--http-max-header-size")
    refused_by_library(padded(200000), 431)


@case
def long_target():
    answers(b"GET /v2/health/live?" + b"x" * 20000 + b" HTTP/1.1\r\nHost: test\r\n\r\n")
    refuses_and_goes_on(b"GET /v2/health/live?" + b"x" * 34000 + b" HTTP/1.1\r\nHost: test\r\n\r\n", 431, "--http-max-header-size")


@case
def other_versions():
    refused_by_library(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 505)
    refused_by_library(b"GET / HTTP/0.9\r\nHost: test\r\n\r\n", 400, 505)
    refused_by_library(b"GET /v2 HTTP/x.y\r\nHost: test\r\n\r\n", 400, 505)


# ---- verbs -------------------------------------------------------------------------------------


@case
def head_is_get_without_a_body():
    with Wire() as wire:
        for path in (b"/v2", b"/v2/health/live", b"/v2/models/mha", b"/v2/models/nobody", b"/metrics"):
            wire.send(b"GET " + path + b" HTTP/1.1\r\nHost: test\r\n\r\n")
            status, headers, body = wire.reply()
            wire.send(b"HEAD " + path + b" HTTP/1.1\r\nHost: test\r\n\r\n")
            reply = wire.reply(head=True)
            assert reply[0] == status, reply
            assert path == b"/metrics" or reply[1]["content-length"] == str(len(body)), reply
            assert reply[1]["content-type"] == headers["content-type"], reply


@case
def verbs_that_a_path_does_not_take():
    for request, allow in ((b"DELETE /v2", "GET, HEAD"), (b"GET /v2/models/mha/infer", "POST"), (b"BREW /v2/logging", "GET, HEAD, POST"), (b"TRACE /v2", "GET, HEAD"), (b"get /v2", "GET, HEAD")):
        with Wire() as wire:
            wire.send(request + b" HTTP/1.1\r\nHost: test\r\n\r\n" + LIVE + b"\r\n")
            reply = wire.reply()
            is_error(reply, 405, "Method Not Allowed")
            assert reply[1]["allow"] == allow, reply
            assert wire.reply()[0] == 200


# ---- consent -----------------------------------------------------------------------------------

EXPECT = b"Expect: 100-continue\r\n"


@case
def consent_is_given():
    with Wire() as wire:
        wire.send(INFER + EXPECT + sized(b"", len(BODY)))
        assert wire.reply()[0] == 100
        wire.send(BODY)
        assert wire.reply()[0] == 200
        wire.send(LIVE + b"\r\n")
        assert wire.reply()[0] == 200


@case
def consent_is_refused_at_once():
    """The final status comes without 100, and the body is neither asked for nor waited for."""
    nobody = b"POST /v2/models/nobody/infer HTTP/1.1\r\nHost: test\r\n"
    for request, status in (
        (INFER + EXPECT + sized(b"", 65537), 413),
        (INFER + EXPECT + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (INFER + EXPECT + b"Content-Encoding: br\r\n" + sized(b"", 10), 415),
        (nobody + EXPECT + sized(b"", 10), 404),
        (b"POST /v2 HTTP/1.1\r\nHost: test\r\n" + EXPECT + sized(b"", 10), 405),
        (b"POST /v2/models/mha/infer HTTP/1.1\r\n" + EXPECT + sized(b"", 10), 400),
    ):
        with Wire() as wire:
            begun = time.monotonic()
            wire.send(request)
            is_error(wire.reply(), status)
            assert wire.closed()
            assert time.monotonic() - begun < 1.9, "it waited for the body"


# ---- connections -------------------------------------------------------------------------------


@case
def requests_sent_ahead():
    ids = [b"id-%d" % i for i in range(20)]
    with Wire() as wire:
        wire.send(b"".join((LIVE if i % 2 else INFER) + b"X-Request-Id: %s\r\n" % name + (b"\r\n" if i % 2 else sized()) for i, name in enumerate(ids)))
        for i, name in enumerate(ids):
            status, headers, body = wire.reply()
            assert status == 200 and headers["x-request-id"] == name.decode(), headers
            assert (b"live" if i % 2 else b"outputs") in body, body


@case
def request_ids():
    with Wire() as wire:
        for path in (b"/v2", b"/nothing", b"/v2/models/mha/infer"):
            wire.send(b"GET " + path + b" HTTP/1.1\r\nHost: test\r\nX-Request-Id: abc-1.2_3\r\n\r\n")
            assert wire.reply()[1]["x-request-id"] == "abc-1.2_3"
        made = set()
        for _ in range(10):
            wire.send(LIVE + b"\r\n")
            made.add(wire.reply()[1]["x-request-id"])
        assert len(made) == 10 and all(made), made


@case
def old_clients():
    with Wire() as wire:
        wire.send(b"GET /v2 HTTP/1.0\r\n\r\n")
        assert wire.reply()[0] == 200
        assert wire.closed()
    with Wire() as wire:
        wire.send(b"GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + LIVE + b"Connection: close\r\n\r\n")
        assert wire.reply()[0] == 200 and wire.reply()[0] == 200
        assert wire.closed()


@case
def idle_connections():
    """Kept for the idle time, and no longer."""
    with Wire() as wire:
        for _ in range(3):
            wire.send(LIVE + b"\r\n")
            assert wire.reply()[0] == 200
            time.sleep(1)
        begun = time.monotonic()
        assert wire.closed()
        assert time.monotonic() - begun < 15


if __name__ == "__main__":
    if sys.argv[1] == "list":
        print("\n".join(cases))
    else:
        cases[sys.argv[2]]()
