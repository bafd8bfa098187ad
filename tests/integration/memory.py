#!/usr/bin/env python3
"""What the memory suite sends. Standard library only.

memory.py json SAMPLES KEYS        a request to `mha` in JSON, of numbers of 8 characters
memory.py slow PORT N LENGTH SENT PID
    N requests that announce LENGTH bytes and send SENT of them, all at once; prints by how many KiB the
    process PID is larger then
"""
import json
import socket
import sys
import time


def shapes(n, k):
    return {"query": [n, 1, 4], "key": [n, k, 4], "value": [n, k, 4]}


def numbers(count):
    some = ",".join("%.6f" % ((i * 0.6180339887) % 1) for i in range(1000))
    return (some + ",") * (count // 1000) + some[: 9 * (count % 1000)].rstrip(",")


def in_json(n, k):
    tensors = (
        '{"name":"%s","datatype":"FP32","shape":%s,"data":[%s]}'
        % (name, json.dumps(shape), numbers(shape[0] * shape[1] * 4).rstrip(","))
        for name, shape in shapes(n, k).items()
    )
    return '{"inputs":[%s]}' % ",".join(tensors)


def resident(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def slow(port, n, length, sent, pid):
    head = "POST /v2/models/mha/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length
    before = resident(pid)
    connections = []
    for _ in range(n):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(head.encode() + b" " * sent)
        connections.append(connection)
    time.sleep(0.5)
    return resident(pid) - before


def main(command, *rest):
    if command == "json":
        sys.stdout.write(in_json(*map(int, rest)))
    elif command == "slow":
        print(slow(*map(int, rest)))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))
