"""Clients that take their time, and too many of them: slow.py PORT CASE. Exit status 0 when the daemon does the right
thing. The daemon is to have --http-header-timeout=1 --http-body-timeout=1 --http-idle-timeout=3 --http-min-rate=1000000,
the models of models.py, and for the cases of limits those that test_edge.sh gives it."""
import json
import os
import socket
import ssl
import sys
import threading
import time

BODY = (
    b'{"inputs":[{"name":"query","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"key","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"value","datatype":"FP32","shape":[1,1,4],"data":[1,2,3,4]}]}'
)
INFER = b"POST /v2/models/mha/infer HTTP/1.1\r\nHost: test\r\n"
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: test\r\n\r\n"
INDEX = b"GET /v2 HTTP/1.1\r\nHost: test\r\n\r\n"
LATEST = 15  # seconds that a busy machine may be late by


def connect(host="127.0.0.1", receive_buffer=None):
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(20)
    connection.connect((host, int(sys.argv[1])))
    return connection


def reply(connection):
    """The head and body of one reply."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        assert piece, f"closed after {answer!r}"
        answer += piece
    head, body = answer.split(b"\r\n\r\n", 1)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head, body


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def drip(connection, bytes_sent, pause):
    """Send byte by byte until the daemon hangs up; the seconds that it took."""
    begun = time.monotonic()
    connection.settimeout(pause)
    for at in range(len(bytes_sent)):
        try:
            connection.sendall(bytes_sent[at : at + 1])
            if connection.recv(1) == b"":
                return time.monotonic() - begun
        except TimeoutError:
            pass
        except (ConnectionResetError, BrokenPipeError):
            return time.monotonic() - begun
    raise AssertionError(f"not cut after {time.monotonic() - begun:.1f} s")


def between(low, seconds):
    assert low <= seconds < low + LATEST, f"{seconds:.2f} s, expected {low} or a little more"


# ---- slow clients ------------------------------------------------------------------------------


def headers():
    """A byte now and then keeps the library from calling it idle."""
    with connect() as connection:
        between(0.9, drip(connection, b"GET /v2 HTTP/1.1\r\nHost: " + b"x" * 1000, 0.05))


def silence():
    """A connection that says nothing at all."""
    begun = time.monotonic()
    with connect() as connection:
        assert is_closed(connection)
    between(0.9, time.monotonic() - begun)


def handshake():
    """Of TLS: it counts as part of the first headers."""
    with connect() as connection:
        between(0.9, drip(connection, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 400, 0.05))


def later_headers():
    with connect() as connection:
        connection.sendall(LIVE)
        reply(connection)
        time.sleep(1.5)  # longer than a new connection may take
        connection.sendall(LIVE)
        reply(connection)
        between(2.9, drip(connection, b"GET /v2 HTTP/1.1\r\nHost: " + b"x" * 1000, 0.05))


def body():
    with connect() as connection:
        connection.sendall(INFER + b"Content-Length: 1000\r\n\r\n")
        between(0.9, drip(connection, b" " * 1000, 0.05))


def refused_body():
    """The body of a refused request, which is read and thrown away."""
    with connect() as connection:
        connection.sendall(b"POST /v2 HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n")
        between(0.9, drip(connection, b" " * 1000, 0.05))


def chunks():
    with connect() as connection:
        connection.sendall(INFER + b"Transfer-Encoding: chunked\r\n\r\n")
        between(0.9, drip(connection, b"1\r\n \r\n" * 300, 0.05))


def large_body():
    """What is large has time in proportion: 3 MB here have 4 s. (They are no good request, but are read.)"""
    padding = b"x" * 3000000
    with connect() as connection:
        connection.sendall(INFER + b"Content-Length: %d\r\n\r\n" % (len(padding) + len(BODY)))
        for at in range(0, len(padding), 1000000):
            connection.sendall(padding[at : at + 1000000])
            time.sleep(0.7)
        connection.sendall(BODY)
        assert b" 400 " in reply(connection)[0]
        connection.sendall(LIVE)
        reply(connection)


def reader():
    """Asks for much, again and again, and takes nothing."""
    with connect(receive_buffer=4096) as connection:
        begun = time.monotonic()
        connection.setblocking(False)
        while time.monotonic() - begun < LATEST:
            try:
                connection.send(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n" * 50)
            except BlockingIOError:
                time.sleep(0.05)
            except (ConnectionResetError, BrokenPipeError):
                return
        raise AssertionError("never cut")


def parked():
    """A request that waits for its worker is not slow, however long it takes. Its connection goes on."""
    with connect() as connection:
        heavy = open(sys.argv[3], "rb").read()
        connection.settimeout(120)
        connection.sendall(INFER + b"Inference-Header-Content-Length: %s\r\nContent-Length: %d\r\n\r\n" % (sys.argv[4].encode(), len(heavy)) + heavy)
        begun = time.monotonic()
        assert b" 200 " in reply(connection)[0]
        print(f"computed for {time.monotonic() - begun:.1f} s")
        connection.sendall(LIVE)
        reply(connection)


def leavers():
    """Of a daemon with all the time in the world: the end that comes along with the last bytes is seen."""
    whole = INFER + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    for content in (LIVE[:20], whole[:-20], INFER + b"Transfer-Encoding: chunked\r\n\r\n4\r\n"):
        for _ in range(20):
            with connect() as connection:
                connection.sendall(content)
    ended = [connect() for _ in range(20)]
    for connection in ended:
        connection.sendall(LIVE + whole)
        connection.shutdown(socket.SHUT_WR)
    for connection in ended:
        answers = b""
        while piece := connection.recv(65536):
            answers += piece
        assert answers.count(b"HTTP/1.1 200 ") == 2, answers
        connection.close()
    end, page = time.monotonic() + 60, b""
    while b"\nattentiond_connections_open 1\n" not in page:
        assert time.monotonic() < end, [line for line in page.splitlines() if b"connections_open" in line]
        time.sleep(0.1)
        with connect() as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            page = reply(connection)[1]


def dozens():
    """Slow clients of every kind beside a healthy one."""
    kinds = [headers, silence, body, chunks, reader, refused_body]
    faults = []

    def run(kind):
        try:
            kind()
        except Exception as fault:  # told at the end
            faults.append(f"{kind.__name__}: {fault!r}")

    threads = [threading.Thread(target=run, args=(kinds[i % len(kinds)],)) for i in range(48)]
    for thread in threads:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in threads):
        begun = time.monotonic()
        with connect() as connection:
            connection.sendall(INFER + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
            assert b" 200 " in reply(connection)[0]
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.02)
    print(f"the slowest answer to the healthy client took {slowest * 1000:.0f} ms")
    assert not faults, faults
    assert slowest < LATEST


def kept():
    """A TLS connection goes on over a reload: it makes the file WHERE.begun, waits for WHERE.go, and asks again."""
    authority, where = sys.argv[3:5]
    context = ssl.create_default_context(cafile=authority)
    with context.wrap_socket(connect(), server_hostname="localhost") as connection:
        connection.sendall(LIVE)
        reply(connection)
        open(f"{where}.begun", "w").close()
        while not os.path.exists(f"{where}.go"):
            time.sleep(0.05)
        connection.sendall(LIVE)
        assert b" 200 " in reply(connection)[0]
        print(dict(item for (item,) in connection.getpeercert()["subject"])["commonName"])


# ---- limits ------------------------------------------------------------------------------------


def connections():
    """Of 4 connections that may be open, all are; the next ones are told so, but for health; when one goes, there is
    room again."""
    held = [connect() for _ in range(4)]
    for connection in held:
        connection.sendall(LIVE)
        assert b" 200 " in reply(connection)[0]
    with connect() as extra:
        extra.sendall(INDEX)
        head, body_text = reply(extra)
        assert b" 503 " in head and b"connection: close" in head.lower() and b"retry-after" in head.lower(), head
        assert "--http-max-connections" in json.loads(body_text)["error"], body_text
        assert is_closed(extra)
    with connect() as extra:
        extra.sendall(LIVE)
        head, _ = reply(extra)
        assert b" 200 " in head and b"connection: close" in head.lower(), head
        assert is_closed(extra)
    held.pop().close()
    for _ in range(100):
        with connect() as late:
            late.sendall(INDEX)
            if b" 200 " in reply(late)[0]:
                break
        time.sleep(0.05)
    else:
        raise AssertionError("no room although one has gone")
    for connection in held:
        connection.close()


def many_connections():
    """Far more than there may be: each is answered or closed soon, none is left hanging."""
    held = []
    for _ in range(200):
        held.append(connect())
    n_answered = n_closed = 0
    for connection in held:
        try:
            connection.sendall(INDEX)
            reply(connection)
            n_answered += 1
        except (AssertionError, ConnectionResetError, BrokenPipeError):
            n_closed += 1
        connection.close()
    print(f"{n_answered} answered, {n_closed} closed")
    assert n_answered and n_closed, (n_answered, n_closed)


def per_address():
    """Two from one address, and two from another."""
    held = [connect(), connect()]
    for connection in held:
        connection.sendall(LIVE)
        reply(connection)
    third = connect()
    try:
        third.sendall(LIVE)
        assert is_closed(third)
    except (ConnectionResetError, BrokenPipeError):
        pass
    for connection in held:
        connection.close()
    for _ in range(100):
        with connect() as late:
            try:
                late.sendall(LIVE)
                reply(late)
                return
            except (AssertionError, ConnectionResetError, BrokenPipeError):
                time.sleep(0.05)
    raise AssertionError("no room although two have gone")


def three_requests():
    """Three on one connection, sent ahead or not."""
    for ahead in (False, True):
        with connect() as connection:
            if ahead:
                connection.sendall(LIVE * 5)
            answer = b""
            for i in range(3):
                if not ahead:
                    connection.sendall(LIVE)
                    head, _ = reply(connection)
                    assert (b"connection: close" in head.lower()) == (i == 2), head
            try:
                while piece := connection.recv(65536):
                    answer += piece
            except ConnectionResetError:
                continue  # what was sent ahead was never read
            assert answer.count(b" 200 OK") == (3 if ahead else 0), answer


globals()[sys.argv[2]]()
