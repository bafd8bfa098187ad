"""Forms of a request to the same layer: JSON beside bytes, the memory that each takes, compressed bodies."""
import array
import ctypes
import gzip
import json
import pathlib
import zlib

import serve_models
from serve_peers import decimal
from serve_process import Request, ask, count, draw, floats, megabytes, message, milliseconds, ratio, table

AIM_TWIN = 3
LARGE = 2048, 512  # queries and as many keys, and their width, of the request whose memory is measured
DIGITS = 4096      # numbers that are written; longer texts repeat them
CLIENTS = 1, 16


def json_request(model, names, shape, numbers):
    """(path, headers, body) with the same numbers in every input, written as most clients do."""
    data = ",".join(numbers)
    inputs = ",".join(f'{{"name":"{name}","datatype":"FP32","shape":{json.dumps(shape)},"data":[{data}]}}' for name in names)
    return f"/v2/models/{model}/infer", {"Content-Type": "application/json"}, f'{{"inputs":[{inputs}]}}'.encode()


# ---- JSON beside bytes -------------------------------------------------------------------------


def twins(wire):
    server, plan, shapes = wire.start(), {}, {}
    for name, model, names in ("three inputs", "medium", "kvq"), ("one input", "medium-one", "q"):
        length, width, _ = serve_models.SHAPES["medium"]
        words = [f"--model={model}", *(f"--input={n}:FP32:1x{length}x{width}" for n in names)]
        shapes[name] = f"1 x {length} x {width}, {name}"
        plan[name, "binary"] = server, 1, words
        plan[name, "json"] = server, 1, [*words, "--json"]
    try:
        cells = wire.take_turns(plan)
    finally:
        server.stop()
    print("\nJSON beside the same request as bytes, end to end, one connection\n")
    rows = [["layer", "binary req/s", "p50 ms", "p99 ms", "cpu us", "json req/s", "p50 ms", "p99 ms", "cpu us", "p50 ratio",
             "aim", "more, ms"]]
    for name, shape in shapes.items():
        binary, text = cells[name, "binary"], cells[name, "json"]
        row = [shape]
        for cell in binary, text:
            row += [count(cell.rps), milliseconds(cell.p50), milliseconds(cell.p99), count(cell.cpu)]
        rows.append(row + [ratio(text.p50, binary.p50), f"< {AIM_TWIN}", milliseconds(text.p50 - binary.p50)])
    table(rows)


# ---- memory ------------------------------------------------------------------------------------


def status_bytes(server, name):
    for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"the system does not tell {name}")


def growth(wire, path, body, headers):
    """(bytes that the most resident memory grew by, reply headers, reply) of one request to a fresh daemon."""
    server = wire.start()
    try:
        warm = Request("scores", [(name, [1, 1, LARGE[1]], draw(LARGE[1])) for name in ("query", "key")])
        warm.send(server.connect())
        pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # the peak starts anew
        before = status_bytes(server, "VmRSS")
        status, found, reply = ask(server.connect(), path, body, headers)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {reply[:200]}")
        return status_bytes(server, "VmHWM") - before, found, reply
    finally:
        server.stop()


def read_floats(headers, reply):
    n_json = headers.get("Inference-Header-Content-Length")
    return floats(reply[int(n_json):]) if n_json else array.array("f", json.loads(reply)["outputs"][0]["data"])


def memory(wire):
    length, width = LARGE
    names, shape = ("query", "key"), [1, length, width]
    numbers = [decimal(x) for x in floats(draw(DIGITS))] * (length * width // DIGITS)
    content = array.array("f", map(float, numbers)).tobytes()
    binary = Request("scores", [(name, shape, content) for name in names])
    path, headers, text = json_request("scores", names, shape, numbers)
    pieces = [binary.body[i:i + 65536] for i in range(0, len(binary.body), 65536)]
    converted = 2 * len(content) + 4 * length * length  # of the text: what it says, and what becomes the reply's
    forms = [("bytes", binary.body, binary.headers, len(binary.body), 0),
             ("bytes, chunked", iter(pieces), binary.headers, len(binary.body), 0),
             ("JSON", text, headers, len(text), converted)]
    rows = [["form", "body", "converted", "reply", "sum", "grew by", "of the sum", "aim", "beyond"]]
    results = []
    for name, body, head, n_body, n_converted in forms:
        grown, found, reply = growth(wire, path, body, head)
        total = n_body + n_converted + len(reply)
        rows.append([name, *(megabytes(x) for x in (n_body, n_converted, len(reply), total, grown)), ratio(grown, total),
                     "<= 1", megabytes(grown - total)])
        results.append(read_floats(found, reply))
    print(f"\nhow much the most resident memory grows with one request, MB, beside what it has to hold: scores of {length} "
          f"queries\nand {length} keys of width {width}; what is beyond is the scratch of the computation too\n")
    table(rows)
    if any(result != results[0] for result in results):
        wire.faults.append("a large request: JSON, bytes and chunks do not give the same result")


# ---- compression -------------------------------------------------------------------------------


class Zstd:
    """What Python's library does not have yet, from the one that the daemon uses."""

    def __init__(self):
        self.shared_object = ctypes.CDLL("libzstd.so.1")
        for name in "ZSTD_compress", "ZSTD_decompress", "ZSTD_compressBound":
            getattr(self.shared_object, name).restype = ctypes.c_size_t

    def compress(self, content):
        room = ctypes.create_string_buffer(self.shared_object.ZSTD_compressBound(ctypes.c_size_t(len(content))))
        n = self.shared_object.ZSTD_compress(room, ctypes.c_size_t(len(room)), content, ctypes.c_size_t(len(content)), 3)
        return room.raw[:n]

    def decompress(self, content, n_most):
        room = ctypes.create_string_buffer(n_most)
        n = self.shared_object.ZSTD_decompress(room, ctypes.c_size_t(n_most), content, ctypes.c_size_t(len(content)))
        return room.raw[:n] if n <= n_most else b""


def codings():
    """(name, compress, decompress) of those that can be tried here."""
    found = [("gzip", gzip.compress, lambda content, _: gzip.decompress(content)),
             ("deflate", zlib.compress, lambda content, _: zlib.decompress(content))]
    try:
        zstd = Zstd()
        found.append(("zstd", zstd.compress, zstd.decompress))
    except OSError:
        message("bench: zstd left out: there is no libzstd.so.1")
    return found


def try_coding(wire, server, path, coding, plain):
    """[(name, body, headers, bytes of the reply)] that the daemon takes, with one coding. plain: (body, headers, reply)."""
    name, compress, decompress = coding
    body, headers, expected = plain
    packed, found = compress(body), []
    for title, more in ((f"{name} request", {}), (f"{name} both ways", {"Accept-Encoding": name})):
        more = {**headers, "Content-Encoding": name, **more}
        status, head, reply = ask(server.connect(), path, packed, more)
        if status != 200:
            message(f"bench: {title} left out: the daemon answers {status} {reply[:100].decode(errors='replace')}")
            break
        coded = head.get("Content-Encoding")
        if "Accept-Encoding" in more and coded != name:
            message(f"bench: {title} left out: the daemon answers without it")
            break
        if (decompress(reply, len(expected)) if coded else reply) != expected:
            wire.faults.append(f"{title}: the answer is not that of the plain request")
        found.append((title, packed, more, len(reply)))
    return found


def compression(wire):
    length, width, _ = serve_models.SHAPES["medium"]
    numbers = [decimal(x) for x in floats(draw(length * width))]
    path, headers, body = json_request("medium", "kvq", [1, length, width], numbers)
    server = wire.start()
    try:
        _, _, expected = ask(server.connect(), path, body, headers)
        forms = [("plain", body, headers, len(expected))]
        for coding in codings():
            forms += try_coding(wire, server, path, coding, (body, headers, expected))
        if len(forms) == 1:
            return
        plan = {}
        for i, (name, content, more, _) in enumerate(forms):
            file = pathlib.Path(wire.scratch) / f"packed.{i}"
            file.write_bytes(content)
            words = [f"--path={path}", f"--body={file}", *(f"--header={key}: {value}" for key, value in more.items())]
            for clients in CLIENTS:
                plan[name, clients] = server, clients, words
        cells = wire.take_turns(plan)
    finally:
        server.stop()
    print("\nJSON requests of the medium layer, compressed\n")
    rows = [["form", "KB sent", "KB received", "clients", "req/s", "p50 ms", "p99 ms", "cpu us", "x plain req/s"]]
    for name, content, _, n_reply in forms:
        for clients in CLIENTS:
            cell = cells[name, clients]
            rows.append([name, count(len(content) / 1024), count(n_reply / 1024), str(clients), count(cell.rps),
                         milliseconds(cell.p50), milliseconds(cell.p99), count(cell.cpu),
                         ratio(cell.rps, cells["plain", clients].rps)])
    table(rows)
