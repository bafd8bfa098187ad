#!/usr/bin/env python3
"""Many clients at once, whose requests may share a pass: does each get what it gets alone?

    flood.py PORT CLIENTS ROUNDS FILE

Every request is asked alone first; then so many clients ask all of them in an order of their own, so many times. An
answer must have the status and the bytes that it had alone. What came alone is held against FILE, which is made when
it is not there: so two daemons can be compared. Prints what differed, and closes with the counts."""
import http.client
import json
import os
import random
import struct
import sys
import threading

PORT, CLIENTS, ROUNDS = map(int, sys.argv[1:4])
random.seed(11)


def numbers(shape):
    n = 1
    for axis in shape:
        n *= axis
    return [round(random.uniform(-2, 2), 4) for _ in range(n)]


def fp32(name, *shape):
    return {"name": name, "datatype": "FP32", "shape": list(shape), "data": numbers(shape)}


def mask(name, *shape):
    data = [random.random() < 0.7 for _ in numbers(shape)]
    return {"name": name, "datatype": "BOOL", "shape": list(shape), "data": data}


def int64(name, shape, data):
    return {"name": name, "datatype": "INT64", "shape": shape, "data": data}


def as_bytes(tensors):
    """The same tensors with the floats behind the JSON."""
    tail = b""
    entries = []
    for tensor in tensors:
        entry = dict(tensor)
        if tensor["datatype"] == "FP32":
            data = struct.pack("<%df" % len(tensor["data"]), *entry.pop("data"))
            entry["parameters"] = {"binary_data_size": len(data)}
            tail += data
        entries.append(entry)
    return entries, tail


def message(model, tensors, route="infer", binary=False, **members):
    tail = b""
    if binary:
        tensors, tail = as_bytes(tensors)
        members.setdefault("parameters", {})["binary_data_output"] = True
    head = json.dumps({"inputs": tensors, **members}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))} if binary else {}
    return "/v2/models/%s/%s" % (model, route), head + tail, headers


def relation(batch, queries, keys, edges, past=0):
    tensors = [fp32("queries", batch, queries, 2, 4), fp32("keys", batch, keys, 2, 4), fp32("values", batch, keys, 2, 4)]
    if edges:
        ends = [[random.randrange(batch), random.randrange(queries), random.randrange(keys)] for _ in range(edges)]
        ends[-1][2] += past * keys
        tensors.append(int64("edges", [edges, 3], sum(ends, [])))
        tensors.append(int64("edge_types", [edges], [random.randrange(3) for _ in range(edges)]))
    return tensors


def good():
    for n in (1, 2, 3, 5, 17, 40):
        binary = n % 2 == 1
        tensors = [fp32("k", 1, n, 32), fp32("v", 1, n, 32), fp32("q", 1, (n + 3) // 2, 32)]
        yield message("speech", tensors, binary=binary)
        yield message("speech", tensors + [mask("mask", 1, 1, n)], binary=binary, id="masked %d" % n)
        yield message("speech", tensors, binary=binary, outputs=[{"name": "attention"}, {"name": "output"}])
        yield message("speech", tensors, parameters={"training": True, "seed": n})
        yield message("speech", tensors, parameters={"training": True, "seed": n, "samples": 3})
        yield message("proj", [fp32("q", 2, n, 32)], binary=binary)
        yield message("proj", [fp32("q", 1, n, 32), fp32("h", 3, 9, 32), mask("mask", 3, 1, 9)], binary=binary)
        yield message("given", [fp32("query", 1, 1, 32), fp32("key", 1, n, 32), fp32("value", 1, n, 32)], binary=binary)
        yield message("score", [fp32("query", 1, n, 8), fp32("key", 1, 4, 8)], binary=binary)
        yield message("causal", [fp32("input", 2, n, 32)], binary=binary)
        yield message("batchnorm", [fp32("input", n + 1, 6, 32)], binary=binary)
        yield message("batchnorm", [fp32("input", n + 1, 6, 32)], parameters={"training": True, "seed": 3})
        yield message("relation", relation(2, n, n + 1, n * 2), binary=binary)
        yield message("relation", relation(1, n, 3, 0), binary=binary)
        yield message("speech", tensors + [fp32("grad_output", 1, (n + 3) // 2, 32)], "gradient", binary)
    yield message("proj", [fp32("q", 0, 4, 32)])
    yield message("speech", [fp32("k", 1, 0, 32), fp32("v", 1, 0, 32), fp32("q", 1, 2, 32)])


def bad():
    for n in (1, 4, 30):
        yield message("relation", relation(2, n, n, n, past=1))
        path, body, headers = message("speech", [fp32("k", 1, n, 32), fp32("v", 1, n, 32), fp32("q", 1, 2, 32)])
        yield path, body[:-n], headers
        yield message("speech", [fp32("k", 1, n, 32), fp32("v", 1, n + 1, 32), fp32("q", 1, 2, 32)])
        yield message("causal", [fp32("input", 1, n, 31)])
        yield message("proj", [fp32("q", 1, n, 32)], outputs=[{"name": "nothing"}])


def ask(connection, request):
    path, body, headers = request
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, content


def connect():
    return http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)


def client(number, requests, alone, faults):
    order = random.Random(number)
    connection = connect()
    for _ in range(ROUNDS):
        for index in order.sample(range(len(requests)), len(requests)):
            answer = ask(connection, requests[index])
            if answer != alone[index]:
                faults.append((requests[index][0], requests[index][1][:80], answer[0], answer[1][:80], alone[index][1][:80]))
    connection.close()


def same_as_file(alone, path):
    content = b"".join(b"%d %d\n" % (status, len(body)) + body for status, body in alone)
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(content)
        return True
    with open(path, "rb") as file:
        return file.read() == content


def main():
    wanted = [(200, request) for request in good()] + [(400, request) for request in bad()]
    requests = [request for _, request in wanted]
    connection = connect()
    alone = [ask(connection, request) for request in requests]
    faults = [
        (request[0], request[1][:80], answer[0], answer[1][:200], b"status %d" % status)
        for (status, request), answer in zip(wanted, alone)
        if answer[0] != status
    ]
    clients = [threading.Thread(target=client, args=(n, requests, alone, faults)) for n in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    if not same_as_file(alone, sys.argv[4]):
        faults.append(("alone", "other bytes than", sys.argv[4]))
    for fault in faults[:10]:
        print(*fault)
    print("%d requests at once, %d answers that differ" % (CLIENTS * ROUNDS * len(requests), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
