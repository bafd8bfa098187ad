"""Requests that curl cannot send, with keys: access.py PORT WHAT. Exit status 0 when all is well.

expect KEY [STATUS]      a refusal comes before the body that waits for consent
again KEY                a refused request, its body, and a good one on the same connection
reload KEY PID TIMES     a client that asks on and on while the keys are read again
preflight                a preflight and a request on one connection
"""
import http.client
import os
import signal
import socket
import sys
import threading
import time

PORT = int(sys.argv[1])
PATH = "/v2/models/mha/infer"


def expect(key, status="401"):
    head = "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: 30000000\r\nExpect: 100-continue\r\n" % PATH
    head += "X-API-Key: %s\r\n\r\n" % key if key else "\r\n"
    with socket.create_connection(("127.0.0.1", PORT), timeout=20) as connection:
        connection.sendall(head.encode())
        answer = b""
        while chunk := connection.recv(65536):  # it closes, for the body may or may not come
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 %s " % status.encode()), answer
    assert b"100 Continue" not in answer, answer


def again(key):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    connection.connect()
    first = connection.sock
    for headers, status in (({}, 401), ({"X-API-Key": key}, 400), ({}, 401), ({"X-API-Key": key}, 400)):
        connection.request("POST", PATH, b"{" * 100000, headers)
        answer = connection.getresponse()
        assert answer.status == status, answer.read()
        answer.read()
        assert connection.sock is first
    connection.request("GET", "/v2/models", headers={"X-API-Key": key})
    assert connection.getresponse().status == 200


def reload(key, pid, times):
    stop = threading.Event()
    failed = []

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        while not stop.is_set():
            connection.request("GET", "/v2/models", headers={"Authorization": "Bearer " + key})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                failed.append(body)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(int(times)):
        os.kill(int(pid), signal.SIGHUP)
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


def preflight():
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    connection.connect()
    first = connection.sock
    for _ in range(3):
        connection.request("OPTIONS", PATH, headers={"Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
        answer = connection.getresponse()
        assert answer.status == 204 and answer.read() == b""
        connection.request("GET", "/v2/health/live", headers={"Origin": "https://a.example"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read() != b""
        assert connection.sock is first


globals()[sys.argv[2]](*sys.argv[3:])
