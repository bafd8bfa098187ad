"""Clients of a daemon that is told to stop: draining.py WHAT PORT [...]. Exit status 0 when nothing was lost; prints
what was counted.

load PORT OTHER SECONDS N    N clients with connections that they keep, sent to PORT as long as it is ready, then to
                             OTHER: as a load balancer does it
idle PORT FILE               a connection that is used once, waits until FILE is there, and is used again
body PORT FILE               a request whose body stops halfway until FILE is there
"""
import http.client
import os
import socket
import sys
import threading
import time

BODY = (
    b'{"inputs":[{"name":"query","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"key","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"value","datatype":"FP32","shape":[1,1,4],"data":[1,2,3,4]}]}'
)
PATH = "/v2/models/mha/infer"
PATIENCE = 30


class Balancer:
    """Where new connections go: to the first one as long as it says that it is ready."""

    def __init__(self, first, other):
        self.first, self.other = first, other
        self.port = first
        self.over = False

    def watch(self):
        while not self.over:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.first, timeout=PATIENCE)
                connection.request("GET", "/v2/health/ready")
                ready = connection.getresponse().status == 200
                connection.close()
            except OSError:
                ready = False
            self.port = self.first if ready else self.other
            time.sleep(0.05)


class Client:
    def __init__(self, balancer):
        self.balancer = balancer
        self.n = {balancer.first: 0, balancer.other: 0}
        self.n_closing = 0
        self.failures = []

    def work(self):
        connection, port = None, None
        while not self.balancer.over:
            try:
                if connection is None:
                    port = self.balancer.port
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                connection.request("POST", PATH, BODY)
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    self.failures.append("status %d" % response.status)
                self.n[port] += 1
                if response.will_close:
                    self.n_closing += 1
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as reason:
                self.failures.append("port %d: %r" % (port, reason))
                connection = None
                time.sleep(0.1)


def load(first, other, seconds, n):
    balancer = Balancer(int(first), int(other))
    clients = [Client(balancer) for _ in range(int(n))]
    threads = [threading.Thread(target=balancer.watch)]
    threads += [threading.Thread(target=client.work) for client in clients]
    for thread in threads:
        thread.start()
    time.sleep(float(seconds))
    balancer.over = True
    for thread in threads:
        thread.join()
    failures = [reason for client in clients for reason in client.failures]
    print(
        "first=%d other=%d closing=%d failed=%d %s"
        % (
            sum(c.n[balancer.first] for c in clients),
            sum(c.n[balancer.other] for c in clients),
            sum(c.n_closing for c in clients),
            len(failures),
            failures[:3],
        )
    )
    assert not failures
    assert all(client.n[balancer.first] and client.n[balancer.other] for client in clients)


def wait_for(path):
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def idle(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
    connection.request("POST", PATH, BODY)
    response = connection.getresponse()
    response.read()
    assert response.status == 200 and not response.will_close
    raw = connection.sock
    print("ready", flush=True)
    wait_for(path)
    connection.request("POST", PATH, BODY)
    response = connection.getresponse()
    assert response.status == 200, response.status
    assert response.getheader("Connection") == "close", response.headers
    raw = socket.socket(fileno=os.dup(raw.fileno()))
    response.read()
    raw.settimeout(PATIENCE)
    assert raw.recv(1) == b""


def body(port, path):
    with socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE) as connection:
        head = "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % (PATH, len(BODY))
        connection.sendall(head.encode() + BODY[:100])
        print("ready", flush=True)
        wait_for(path)
        connection.sendall(BODY[100:])
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:300]


globals()[sys.argv[1]](*sys.argv[2:])
