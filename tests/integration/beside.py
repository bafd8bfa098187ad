#!/usr/bin/env python3
"""How long do small requests take beside others? beside.py PORT WHAT N SECONDS

large N   beside N requests of 8,192 positions at once, to `large`; at least one small one has to be answered before
          the first of them is
flood N   beside N clients who ask `flooded` without a pause, until a hundred small ones have been answered

None may take longer than SECONDS, which is far more than it should. Prints what was measured."""
import http.client
import json
import struct
import sys
import threading
import time

PORT, WHAT, N, BOUND = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
LENGTH, WIDTH = 8192, 128


def message(name, shape):
    """Zeros for the input q of a model with projections."""
    n = 1
    for axis in shape:
        n *= axis
    entry = {"name": "q", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": n * 4}}
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    return "/v2/models/%s/infer" % name, head + struct.pack("<%df" % n, *([0.5] * n)), headers


class Client:
    def __init__(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)

    def ask(self, request):
        """Seconds that it took, and the status."""
        path, body, headers = request
        begin = time.monotonic()
        self.connection.request("POST", path, body, headers)
        answer = self.connection.getresponse()
        answer.read()
        return time.monotonic() - begin, answer.status


def send_large(ends):
    ends.append((*Client().ask(message("large", [1, LENGTH, WIDTH])), time.monotonic()))


def flood(stop, counts):
    client, request = Client(), message("flooded", [1, 256, WIDTH])
    while not stop.is_set():
        status = client.ask(request)[1]
        counts[status] = counts.get(status, 0) + 1


def measure(goes_on):
    client, request, taken = Client(), message("small", [1, 4, WIDTH]), []
    while goes_on(taken):
        taken.append((*client.ask(request), time.monotonic()))
    return taken


def beside_large():
    ends = []
    threads = [threading.Thread(target=send_large, args=(ends,)) for _ in range(N)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    taken = measure(lambda taken: len(ends) < N)
    for thread in threads:
        thread.join()
    before = sum(1 for _, _, at in taken if at < min(end for _, _, end in ends))
    print("%d large: %.2f s; " % (N, max(seconds for seconds, _, _ in ends)), end="")
    return taken, before > 0 and all(status == 200 for _, status, _ in ends)


def beside_flood():
    stop, counts = threading.Event(), {}
    threads = [threading.Thread(target=flood, args=(stop, counts)) for _ in range(N)]
    for thread in threads:
        thread.start()
    taken = measure(lambda taken: len(taken) < 100)
    stop.set()
    for thread in threads:
        thread.join()
    print("beside %s; " % counts, end="")
    return taken, set(counts) <= {200, 503}


def main():
    taken, good = beside_large() if WHAT == "large" else beside_flood()
    times = sorted(seconds for seconds, _, _ in taken) or [BOUND]
    print("%d small: median %.2f ms, longest %.2f ms" % (len(taken), times[len(times) // 2] * 1e3, times[-1] * 1e3))
    good = good and all(status == 200 for _, status, _ in taken)
    return 0 if good and times[-1] < BOUND else 1


sys.exit(main())
