#!/usr/bin/env python3
"""A second process that shares memory with the daemon: regions.py PORT WHAT. Standard library only. Exit status 0 when
the daemon does the right thing; what it did wrong is printed.

The objects are files of /dev/shm, as shm_open makes them, whose names begin with NAME; all are gone at the end."""
import http.client
import json
import math
import mmap
import os
import random
import struct
import sys
import threading
import time

PORT = int(sys.argv[1])
NAME = "attentiond_test_%d" % os.getpid()
FOLDER = "/dev/shm/"
WIDTH = 4  # of the model `causal`, which has three positions
BYTES = 3 * WIDTH * 4


class Client:
    def __init__(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)

    def ask(self, verb, path, body=None):
        self.connection.request(verb, path, None if body is None else json.dumps(body))
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def register(self, region, key, size, offset=0):
        path = "/v2/systemsharedmemory/region/%s/register" % region
        return self.ask("POST", path, {"key": key, "offset": offset, "byte_size": size})

    def unregister(self, region=None):
        where = "/region/%s" % region if region else ""
        return self.ask("POST", "/v2/systemsharedmemory%s/unregister" % where)

    def infer(self, source, target=None, batch=1, model="causal"):
        """Places are (region, offset, size)."""
        tensor = {"name": "input", "datatype": "FP32", "shape": [batch, 3, WIDTH], "parameters": place(source)}
        body = {"inputs": [tensor]}
        if target:
            body["outputs"] = [{"name": "output", "parameters": place(target)}]
        return self.ask("POST", "/v2/models/%s/infer" % model, body)


def place(where):
    region, offset, size = where
    parameters = {"shared_memory_region": region, "shared_memory_byte_size": size}
    return {**parameters, "shared_memory_offset": offset} if offset else parameters


class Object:
    """Shared memory of the system, mapped here."""

    def __init__(self, suffix, size):
        self.key = "/%s%s" % (NAME, suffix)
        self.fd = os.open(FOLDER + self.key, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)

    def cut(self, size):
        os.ftruncate(self.fd, size)

    def write(self, offset, numbers):
        self.memory[offset : offset + 4 * len(numbers)] = struct.pack("<%df" % len(numbers), *numbers)

    def read(self, offset, n):
        return struct.unpack_from("<%df" % n, self.memory, offset)


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(str, what)))


def expect(answer, status, *texts):
    check(answer[0] == status, answer, "expected", status)
    check(status == 200 or json.loads(answer[1])["error"], answer)
    for text in texts:
        check(text.encode() in answer[1], answer, "expected", text)


def close(a, b):
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-5) for x, y in zip(a, b))


ROWS = [1.0, 2.0, 3.0, 4.0] * 3  # equal rows come out as they went in


def use():
    """Two regions of two objects, one tensor from this to that and back, by two connections."""
    client, other = Client(), Client()
    source, target = Object("a", 4096), Object("b", 8192)
    source.write(100, ROWS)
    expect(client.register("in", source.key, 1000, 60), 200)
    expect(client.register("out", target.key[1:], 8192), 200)
    status, body = other.ask("GET", "/v2/systemsharedmemory/status")
    check(status == 200, status)
    wanted = [
        {"name": "in", "key": source.key, "offset": 60, "byte_size": 1000},
        {"name": "out", "key": target.key, "offset": 0, "byte_size": 8192},
    ]
    check(json.loads(body) == wanted, body)
    status, body = other.ask("GET", "/v2/systemsharedmemory/region/out/status")
    check(status == 200 and json.loads(body) == wanted[1:], body)
    status, body = other.infer(("in", 40, BYTES), ("out", 4096, 100))
    output = json.loads(body)["outputs"][0]
    check(output["shape"] == [1, 3, WIDTH] and "data" not in output, body)
    check(output["parameters"] == place(("out", 4096, BYTES)), body)
    check(close(target.read(4096, 12), ROWS), target.read(4096, 12))
    check(set(target.memory[4096 + BYTES :]) == {0} and set(target.memory[:4096]) == {0}, "written beside it")
    status, body = other.infer(("in", 40, BYTES))
    check(status == 200 and close(json.loads(body)["outputs"][0]["data"], ROWS), body)
    # in place: what goes in was copied
    expect(other.infer(("in", 40, BYTES), ("in", 40, BYTES)), 200)
    check(close(source.read(100, 12), ROWS), source.read(100, 12))
    expect(client.unregister("in"), 200)
    expect(other.infer(("in", 40, BYTES)), 400, "unknown shared memory region 'in'")
    expect(client.unregister("in"), 200)
    expect(client.ask("GET", "/v2/systemsharedmemory/region/in/status"), 404, "unknown shared memory region 'in'")
    expect(client.register("in", source.key, 1), 200)
    expect(client.unregister(), 200)
    check(client.ask("GET", "/v2/systemsharedmemory/status") == (200, b"[]"), "regions are left")


def wrong():
    """Everything that cannot be meant is refused, and the daemon stays."""
    client = Client()
    memory = Object("a", 4096)
    memory.write(0, ROWS)
    os.symlink("/etc/passwd", FOLDER + NAME + "link")
    os.mkfifo(FOLDER + NAME + "fifo")
    for key, size, offset, texts in (
        ("/etc/passwd", 1, 0, ["expected the name of an object"]),
        ("/../etc/passwd", 1, 0, ["expected the name"]),
        ("/" + NAME + "link", 1, 0, ["cannot be opened"]),
        ("/" + NAME + "fifo", 1, 0, ["is no shared memory object"]),
        ("/" + NAME + "none", 1, 0, ["there is no shared memory object"]),
        ("", 1, 0, ["expected the name"]),
        ("//" + NAME + "a", 1, 0, ["expected the name"]),
        ("/triton_python_backend_shm_region_1", 1, 0, ["reserved"]),
        ("triton_python_backend_shm_region_1", 1, 0, ["reserved"]),
        (memory.key, 4097, 0, ["has 4096 bytes now"]),
        (memory.key, 1, 4096, ["has 4096 bytes now"]),
        (memory.key, 0, 0, ["byte_size of at least 1"]),
        (memory.key, 2**63 - 1, 2**63 - 1, ["below 2^63"]),
        (memory.key, 2**63, 0, ["2^63 - 1"]),
        (memory.key, 1, 2**64, ["2^63 - 1"]),
        (memory.key, -1, 0, ["whole number"]),
        (memory.key, 1.5, 0, ["whole number"]),
        (memory.key, 1, "0", ["whole number"]),
        (5, 1, 0, ["a string"]),
        (memory.key + "\0x", 1, 0, ["u0000"]),
    ):
        expect(client.register("r", key, size, offset), 400, *texts)
    path = "/v2/systemsharedmemory/region/r/register"
    for body in ({}, {"key": memory.key}, {"byte_size": 1}, {"key": memory.key, "byte_size": 1, "x": 1}, [], "x"):
        expect(client.ask("POST", path, body), 400)
    for name in ("a%2fb", "%2e%2e", "..", "a%00b", "x%0ay"):
        expect(client.register(name, memory.key, 1), 400)
    expect(client.register("a/b", memory.key, 1), 404)
    expect(client.register("x" * 256, memory.key, 1), 404)
    expect(client.register("x" * 255, memory.key, 4096), 200)
    expect(client.register("a%20b%25", memory.key, 4096), 200)
    status, body = client.ask("GET", "/v2/systemsharedmemory/region/a%20b%25/status")
    check(json.loads(body)[0]["name"] == "a b%", body)
    expect(client.register("a%20b%25", memory.key, 1), 400, "registered already; unregister it first")
    for source, target, texts in (
        (("a b%", 4049, BYTES), None, ["not inside shared memory region"]),
        (("a b%", 2**63 - 1, BYTES), None, ["not inside"]),
        (("a b%", 2**63, BYTES), None, ["range of 64-bit integers"]),
        (("a b%", -4, BYTES), None, ["must not be negative"]),
        (("a b%", 0, BYTES + 4), None, ["shared_memory_byte_size must be 48"]),
        (("a b%", 0, BYTES), ("a b%", 0, BYTES - 4), ["output 'output' takes 48 bytes"]),
        (("a b%", 0, BYTES), ("a b%", 4064, BYTES), ["not inside"]),
        (("a b%", 0, BYTES), ("none", 0, BYTES), ["unknown shared memory region 'none'"]),
        (("none", 0, BYTES), None, ["unknown shared memory region 'none'"]),
    ):
        expect(client.infer(source, target), 400, *texts)
    tensor = {"name": "input", "datatype": "FP32", "shape": [1, 3, WIDTH], "data": ROWS}
    outputs = [
        {"name": "output", "parameters": place(("a b%", 0, BYTES))},
        {"name": "attention", "parameters": place(("x" * 255, 40, 4000))},
    ]
    answer = client.ask("POST", "/v2/models/causal/infer", {"inputs": [tensor], "outputs": outputs})
    expect(answer, 400, "overlap")
    outputs[1]["parameters"] = place(("x" * 255, 48, 4000))
    expect(client.ask("POST", "/v2/models/causal/infer", {"inputs": [tensor], "outputs": outputs}), 200)
    # cut short between registration and use, and grown again
    memory.cut(40)
    expect(client.infer(("a b%", 0, BYTES)), 400, "has 40 bytes now")
    expect(client.infer(("a b%", 0, 0), batch=0), 200)
    answer = client.ask(
        "POST", "/v2/models/causal/infer", {"inputs": [tensor], "outputs": outputs[:1]}
    )
    expect(answer, 400, "has 40 bytes now")
    check(os.fstat(memory.fd).st_size == 40, "the daemon made the object larger")
    memory.cut(4096)
    expect(client.infer(("a b%", 0, BYTES)), 200)
    expect(client.unregister(), 200)


def large():
    """What is not there costs no memory: a sparse object of a terabyte, and tensors of it."""
    client = Client()
    memory = Object("a", 4096)
    memory.cut(1 << 40)
    expect(client.register("r", memory.key, 1 << 40), 200)
    expect(client.infer(("r", 0, BYTES << 30), batch=1 << 30), 413, "--http-max-input-size")
    expect(client.infer(("r", (1 << 40) - BYTES, BYTES)), 200)
    expect(client.unregister(), 200)


def many():
    """As many regions as there may be, and not one more."""
    client = Client()
    memory = Object("a", 64)
    n = 0
    while True:
        status, body = client.register("r%d" % n, memory.key, 64)
        if status != 200:
            break
        n += 1
    check(status == 400 and b"can be registered" in body, body)
    check(n >= 64, n)
    expect(client.ask("GET", "/v2/health/live"), 200)
    expect(client.unregister(), 200)
    expect(client.register("r", memory.key, 64), 200)
    expect(client.unregister(), 200)


def storm():
    """Clients that infer while the object is cut and grown, and the region taken away and put back."""
    memory = Object("a", 1 << 20)
    batch = 2000
    size = batch * BYTES
    for i in range(batch):
        memory.write(i * BYTES, ROWS)
    until = time.monotonic() + 4
    faults, counts = [], {200: 0, 400: 0}

    def ask(number):
        client = Client()
        while time.monotonic() < until and not faults:
            status, body = client.infer(("storm", 0, size), ("storm", size + number * size, size), batch=batch)
            if status not in (200, 400):
                faults.append((status, body))
            else:
                counts[status] += 1

    def cut():
        while time.monotonic() < until:
            memory.cut(random.choice([0, 1, 4096, 100000, size, 1 << 20]))
            time.sleep(random.random() / 1000)
            memory.cut(1 << 20)
            time.sleep(random.random() / 500)

    def take():
        client = Client()
        while time.monotonic() < until:
            client.unregister("storm" if random.random() < 0.8 else None)
            client.register("storm", memory.key, 1 << 20)
            time.sleep(random.random() / 100)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
    threads += [threading.Thread(target=cut), threading.Thread(target=take)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not faults, faults)
    check(counts[200] > 0 and counts[400] > 0, counts)
    client = Client()
    client.unregister()
    memory.cut(1 << 20)
    expect(client.register("storm", memory.key, 1 << 20), 200)
    os.pwrite(memory.fd, struct.pack("<12f", *ROWS), 0)
    expect(client.infer(("storm", 0, BYTES), ("storm", 4096, BYTES)), 200)
    check(close(struct.unpack("<12f", os.pread(memory.fd, BYTES, 4096)), ROWS), "the numbers")
    expect(client.unregister(), 200)


def main():
    try:
        globals()[sys.argv[2]]()
    finally:
        for name in os.listdir(FOLDER):
            if name.startswith(NAME):
                os.remove(FOLDER + name)


main()
