"""Clients that ask on and on while the daemon is told to reload, then to stop: signals.py PORT PID. Exit status 0
when every request was answered; prints how many."""
import http.client
import os
import signal
import sys
import threading
import time

PORT, PID = map(int, sys.argv[1:])
BODY = (
    b'{"inputs":[{"name":"query","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"key","datatype":"FP32","shape":[1,1,4],"data":[0,0,0,0]},'
    b'{"name":"value","datatype":"FP32","shape":[1,1,4],"data":[1,2,3,4]}]}'
)
CLIENTS = 4
RELOADS = 50
answered = []
failures = []


def ask():
    """Until a reply says that the connection is over: the daemon drains."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    n = 0
    try:
        while True:
            connection.request("POST", "/v2/models/mha/infer", BODY)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            n += 1
            if answer.getheader("Connection") == "close":
                answered.append(n)
                return
    except (OSError, AssertionError, http.client.HTTPException) as failure:
        failures.append(repr(failure))


clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
for client in clients:
    client.start()
for _ in range(RELOADS):
    os.kill(PID, signal.SIGHUP)
    time.sleep(0.01)
os.kill(PID, signal.SIGTERM)
for client in clients:
    client.join()
assert not failures, failures
print("answered", sum(answered))
