"""What curl cannot send: raw.py PORT WHAT. Exit status 0 when the daemon does the right thing."""
import socket
import sys

BODY = (
    b'{"inputs":[{"name":"query","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"key","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"value","datatype":"FP32","shape":[1,1,4],"data":[1,2,3,4]}]}'
)


def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)


def head(length, path=b"/v2/models/mha/infer"):
    return b"POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % (path, length)


def read_all(connection):
    """Everything until the daemon closes; a reset counts as closing."""
    answer = b""
    try:
        while chunk := connection.recv(65536):
            answer += chunk
    except ConnectionResetError:
        pass
    return answer


def unfinished():
    """A body that stops arriving is given up after the idle time, and never computed."""
    with connect() as connection:
        connection.sendall(head(len(BODY)) + BODY[:50])
        answer = read_all(connection)
    assert b" 200 " not in answer[:20], answer


def half():
    """The client says that no more comes, with half of the body sent."""
    with connect() as connection:
        connection.sendall(head(len(BODY)) + BODY[:50])
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert b" 200 " not in answer[:20], answer


def bulky():
    """A request that waits while the worker is busy, for its size."""
    numbers = b",".join([b"0"] * 40000)
    body = BODY.replace(b"[1,1,4]", b"[1,10000,4]").replace(b"[0,0,0,0]", b"[%s]" % numbers)
    body = body.replace(b"[1,2,3,4]", b"[%s]" % numbers)
    return head(len(body), b"/v2/models/plain/infer") + body


def queued_half():
    """The same behind a whole request that waits: the client counts as gone, and nothing is computed."""
    with connect() as connection:
        connection.sendall(bulky())
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert b" 200 " not in answer[:20], answer[:300]


def queued_gone():
    """Clients whose requests wait, and who then go, half of them without good-bye."""
    n, page = 20, b""
    clients = [connect() for _ in range(n)]
    for client in clients:
        client.sendall(bulky())
    while b'attentiond_requests_waiting{model="plain",version="1"} %d\n' % n not in page:
        with connect() as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            page = read_all(connection)
    for i, client in enumerate(clients):
        if i % 2 == 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()


def leave():
    """Clients that are gone after every so many bytes, and before the answer comes."""
    message = head(len(BODY)) + BODY
    for n in range(0, len(message) + 1, 7):
        with connect() as connection:
            connection.sendall(message[:n])
    for _ in range(50):
        with connect() as connection:
            connection.sendall(message)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def garbage():
    """Bytes that are no HTTP get an error or a closed connection."""
    for bytes_sent in (b"\0" * 1000, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n"):
        with connect() as connection:
            connection.sendall(bytes_sent)
            connection.shutdown(socket.SHUT_WR)
            answer = read_all(connection)
        assert b" 200 " not in answer[:20], answer


def pipeline():
    """Three requests at once: three answers, the last one closing."""
    get = b"GET /v2/health/live HTTP/1.1\r\nHost: test\r\n"
    with connect() as connection:
        connection.sendall(head(len(BODY)) + BODY + get + b"\r\n" + get + b"Connection: close\r\n\r\n")
        answer = read_all(connection)
    assert answer.count(b"HTTP/1.1 200 ") == 3, answer
    assert answer.index(b'"outputs"') < answer.index(b'"live"'), answer


def headers():
    """A header that goes on and on must not take memory without limit."""
    with connect() as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: test\r\nX-Long: ")
        try:
            for _ in range(64):
                connection.sendall(b"x" * 65536)
        except (BrokenPipeError, ConnectionResetError):
            return
        connection.sendall(b"\r\n\r\n")
        answer = read_all(connection)
    assert b" 200 " not in answer[:20], answer


globals()[sys.argv[2]]()
