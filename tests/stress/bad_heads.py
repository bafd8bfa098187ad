"""Faults in request lines, headers and keys, and in what operators' routes take. Standard library only."""
import base64
import json
import struct

import scaled
from bad_bodies import FAULTS, Bad, Request, fault, other_kinds
from talk import message

# path, verbs that it takes
ROUTES = [("/v2", "GET HEAD"), ("/v2/health/live", "GET HEAD"), ("/v2/health/ready", "GET HEAD"), ("/v2/logging", "GET HEAD POST"),
          ("/v2/models", "GET HEAD"), ("/v2/models/stats", "GET HEAD"), ("/v2/models/mha", "GET HEAD"),
          ("/v2/models/mha/ready", "GET HEAD"), ("/v2/models/mha/config", "GET HEAD"), ("/v2/models/mha/stats", "GET HEAD"),
          ("/v2/models/mha/infer", "POST"), ("/v2/models/mha/gradient", "POST"), ("/v2/models/mha/sequences", "GET HEAD"),
          ("/v2/models/mha/sequences/x", "GET HEAD POST DELETE"), ("/v2/models/mha/versions/1", "GET HEAD"),
          ("/v2/models/mha/versions/1/infer", "POST"), ("/v2/models/mha/versions/1/gradient", "POST"),
          ("/v2/repository/index", "POST"), ("/v2/repository/models/mha/load", "POST"), ("/v2/repository/models/mha/unload", "POST"),
          ("/v2/systemsharedmemory/status", "GET HEAD"), ("/v2/systemsharedmemory/unregister", "POST"),
          ("/v2/systemsharedmemory/region/r/status", "GET HEAD"), ("/v2/systemsharedmemory/region/r/register", "POST"),
          ("/v2/systemsharedmemory/region/r/unregister", "POST"), ("/v1/models", "GET HEAD"), ("/v1/models/mha", "GET HEAD"),
          ("/v1/models/steps:predict", "POST"), ("/metrics", "GET HEAD")]
VERBS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get", "PROPFIND", "X" * 40)
ADMIN = ("/v2/logging", "/v2/models/stats", "/v2/models/mha/stats", "/v2/models/mha/sequences", "/metrics")


def asked(path, verb="GET", statuses=(404,), words=(), body=None, headers=()):
    return Bad(message(verb, path, body, headers), statuses, words)


def edited(rng, old, new, statuses, words=(), ends=True):
    """A good request whose head is edited."""
    content = Request(rng, "mha", "infer").send()
    head, body = content.split(b"\r\n\r\n", 1)
    assert old in head, (old, head)
    return Bad(head.replace(old, new, 1) + b"\r\n\r\n" + body, statuses, words, ends)


# ---- lines --------------------------------------------------------------------------------------


@fault("line: a verb that the path does not take", 6)
def verb(rng):
    path, taken = rng.choice(ROUTES)
    word = rng.choice([verb for verb in VERBS if verb not in taken.split()])
    return asked(path, word, (405,), ("Not Allowed",), rng.choice((b"", b"{}", b"junk")))


@fault("line: a path that there is not", 4)
def path(rng):
    base, _ = rng.choice(ROUTES)
    segments = base[1:].split("/")
    at, how = rng.randrange(len(segments)), rng.randrange(5)
    if how == 0:
        segments.insert(at, rng.choice(("x", "v2", "models", "é", "a" * 300)).encode().decode("latin-1"))
        segments.append("x")
    elif how == 1:
        segments[0] = rng.choice(("V2", "v3", "v22", "V1", "Metrics"))
    elif how == 2:
        segments += ["x"] * rng.randint(4, 12)
    elif how == 3:
        segments[-1:] = [segments[-1], "", ""]
    else:
        segments[0] += "x"
    return asked("/" + "/".join(segments), rng.choice(("GET", "POST")), (404, 400), body=b"")


@fault("line: a path with a bad segment", 2)
def segment(rng):
    bad = rng.choice(("%zz", "%", "%4", "%00", "a%00b", "%2f", "a%2Fb", "..", ".", "%2e%2e", "%01", "%0a", "%7f"))
    at = rng.choice(("/v2/models/{}/infer", "/v2/models/{}", "/v2/models/mha/versions/{}/infer", "/v2/repository/models/{}/load",
                     "/v1/models/{}", "/v2/systemsharedmemory/region/{}/status", "/{}"))
    return asked(at.format(bad), rng.choice(("GET", "POST")), (400,), body=b"{}")


@fault("line: a model or version that there is not", 3)
def nobody(rng):
    name = rng.choice(("nobody", "MHA", "mha ", "mh", "m" * 250, "n%C3%A9", "%E2%82%AC")).replace(" ", "%20")
    version = rng.choice(("9", "0", "-1", "01", "1.0", "x", "99999999999999999999"))
    good = Request(rng, "mha", "infer")
    model, shown = rng.choice(((name, "unknown model"), (f"mha/versions/{version}", version)))
    what = rng.choice(("infer", "gradient", "config", ""))
    if what in ("infer", "gradient"):
        return asked(f"/v2/models/{model}/{what}", "POST", (404,), (shown,), good.text())
    return asked(f"/v2/models/{model}" + (f"/{what}" if what else ""), "GET", (404,), (shown,))


@fault("line: no HTTP, or another")
def line(rng):
    words = rng.choice((b"GET /v2 HTTP/3.0", b"GET /v2 HTTP/2.0", b"POST /v2/models/mha/infer HTTP/9.9"))
    return Bad(words + b"\r\nHost: test\r\n\r\n", (505, 400), ends=True)


# ---- headers ------------------------------------------------------------------------------------


@fault("head: no Host, or two", 2)
def host(rng):
    return edited(rng, b"\r\nHost: test", rng.choice((b"", b"\r\nHost: test\r\nHost: test", b"\r\nHost: a\r\nHost: b")), (400,), ("Host",))


@fault("head: lengths that contradict", 2)
def lengths(rng):
    return edited(rng, b"\r\nContent-Length: ", rng.choice((b"\r\nContent-Length: 5\r\nContent-Length: ",
                                                           b"\r\nTransfer-Encoding: chunked\r\nContent-Length: ")), (400,))


@fault("head: a length that is no number")
def length(rng):
    bad = rng.choice((b"abc", b"-1", b"1.5", b"0x10", b"99999999999999999999999", b"5 5", b"+5"))
    return edited(rng, b"\r\nContent-Length: ", b"\r\nContent-Length: " + bad + b"\r\nX-Was: ", (400, 413))


@fault("head: a body over the limit")
def too_long(rng):
    n = rng.choice((b"1048577", b"67108864", b"9223372036854775807"))
    return edited(rng, b"\r\nContent-Length: ", b"\r\nContent-Length: " + n + b"\r\nX-Was: ", (413,), ("http-max-input-size",))


@fault("head: a coding of the transfer that is none")
def transfer(rng):
    """501, as RFC 9112 wants it: the one answer of 5xx beside 505."""
    word = rng.choice((b"gzip", b"gzip, chunked", b"identity", b"x"))
    return edited(rng, b"\r\nContent-Length: ", b"\r\nTransfer-Encoding: " + word + b"\r\nX-Was: ", (501, 400))


@fault("head: a blank before the colon")
def blank(rng):
    return edited(rng, b"\r\nHost: test", b"\r\nHost: test\r\nX-Blank : 1", (400,))


@fault("head: over its limit")
def large(rng):
    return edited(rng, b"\r\nHost: test", b"\r\nHost: test\r\nX-Large: " + b"x" * rng.randint(33000, 40000), (431,))


@fault("head: a coding where none is taken")
def coding(rng):
    path = rng.choice(("/v2/repository/index", "/v2/logging", "/v2/repository/models/mha/load", "/v2/systemsharedmemory/unregister"))
    return asked(path, "POST", (415,), body=b"{}", headers=[("Content-Encoding", rng.choice(("gzip", "br", "zstd")))])


@fault("head: another sequence than the body's")
def sequence_header(rng):
    request = Request(rng, "mha", "infer")
    request.json["parameters"] = {"sequence_id": "one", "sequence_start": True}
    return request.bad("X-Sequence-Id", headers=[("X-Sequence-Id", rng.choice(("two", "", "ONE")))])


# ---- keys ---------------------------------------------------------------------------------------


def with_key(bad):
    bad.keyless = True
    return bad


@fault("key: none, wrong, or malformed", 4)
def key(rng):
    headers = rng.choice(([], [("X-API-Key", "wrong")], [("X-API-Key", "")], [("X-API-Key", "x" * 4000)], [("Authorization", "Basic eDp4")],
                          [("Authorization", "Bearer")], [("Authorization", "Bearer ")], [("Authorization", "Bearer wrong")]))
    path, verbs = rng.choice([row for row in ROUTES if "health" not in row[0] and "ready" not in row[0] and row[0] != "/v1/models/mha"])
    return with_key(asked(path, "POST" if "POST" in verbs else "GET", (401,), body=b"{}", headers=headers))


@fault("key: without the right", 2)
def right(rng):
    headers = [("X-API-Key", "narrow-key")]  # may use score alone
    if rng.random() < 0.5:
        return with_key(asked(rng.choice(ADMIN), "GET", (403,), headers=headers))
    request = Request(rng, rng.choice(("mha", "tour", "speech")))
    return with_key(request.bad(statuses=(403,), headers=headers))


# ---- operators' routes --------------------------------------------------------------------------


@fault("load: a model that cannot be", 2)
def load(rng):
    name = rng.choice(("nobody", ".hidden", "fresh2", "m" * 250))
    return asked(f"/v2/repository/models/{name}/load", "POST", (400, 404), body=b"")


@fault("load: a body that is none", 3)
def load_body(rng):
    good = base64.b64encode(scaled.weights("fresh", 1)).decode()
    config = json.dumps(scaled.config("fresh"))
    parameters = rng.choice((
        {"config": "{"}, {"config": 1}, {"config": "{}"}, {"config": json.dumps({"layer": {"kind": "nonsense"}})},
        {"config": config, "file:1/model.safetensors": "!!!"}, {"config": config, "file:1/model.safetensors": 1},
        {"config": config, "file:1/model.safetensors": good[: len(good) // 2]}, {"config": config, "file:x/y": good},
        {"config": config, "file:1/../../x": good}, {"file:1/model.safetensors": good}, {"stranger": "x"},
        {"config": config, "file:1/other.safetensors": good}, {"config": json.dumps({"layer": {"kind": "routing_mha", "embedding_dim": -1}})}))
    body = json.dumps(rng.choice(({"parameters": parameters}, {"parameters": parameters}, {"parameters": 1}, [], 1))).encode()
    return asked("/v2/repository/models/fresh/load", "POST", (400,), body=body if len(body) < 3 or rng.random() < 0.7 else body[:-1])


@fault("unload: one that there is not")
def unload(rng):
    return asked(f"/v2/repository/models/{rng.choice(('nobody', '.hidden', 'm' * 250))}/unload", "POST", (400, 404), body=b"")


@fault("unload: a body that is none")
def unload_body(rng):
    return asked("/v2/repository/models/mha/unload", "POST", (400,),
                 body=rng.choice((b"{", b"[]", b"1", b"junk", b'{"parameters": 1}', b'{"parameters": {"unload_dependents": 1}}')))


@fault("index: a body that is none")
def index(rng):
    return asked("/v2/repository/index", "POST", (400,), body=rng.choice((b"{", b"[]", b'{"ready": 1}', b'{"ready": "true"}', b"junk", b'{"x": true}')))


@fault("logging: a setting that is none", 2)
def logging(rng):
    name, kinds = rng.choice((("log_file", ("string",)), ("log_info", ("true",)), ("log_warning", ("true",)), ("log_error", ("true",)),
                              ("log_verbose_level", ("integer",)), ("log_format", ("string",))))
    value = other_kinds(rng, kinds)
    if rng.random() < 0.4:
        name, value = rng.choice((("log_verbose_level", -1), ("log_verbose_level", 10 ** 10), ("log_format", "xml"), ("stranger", 1),
                                  ("log_file", "../x"), ("log_file", "a/b"), ("log_file", "f" * 300), ("log_file", "/etc/x")))
    return asked("/v2/logging", "POST", (400,), (name,), json.dumps({name: value}).encode())


@fault("region: a registration that is none", 3)
def region(rng):
    good = {"key": "/bad_requests_nothing", "offset": 0, "byte_size": 64}
    name = rng.choice(list(good))
    how = rng.randrange(3)
    if how == 0 and name != "offset":
        del good[name]
    elif how == 1:
        good[name] = other_kinds(rng, ("string",) if name == "key" else ("integer",))
    else:
        good["key"] = rng.choice(("", "/", "/..", "/../etc/passwd", "/a/b", "/nothing_there", "/" + "k" * 300, "/triton_x"))
    return asked("/v2/systemsharedmemory/region/r/register", "POST", (400, 404), body=json.dumps(good).encode())


@fault("region: tensors in one that there is not", 2)
def no_region(rng):
    request = Request(rng)
    place = {"shared_memory_region": rng.choice(("nobody", "", "r" * 300, 1, None)), "shared_memory_byte_size": rng.choice((16, -1, "16", 0, 1 << 62)),
             "shared_memory_offset": rng.choice((0, -1, "0", (1 << 63) - 1))}
    victim = request.pick(rng)
    del victim["data"]
    victim["parameters"] = place
    return request.bad("shared_memory" if place["shared_memory_region"] in (1, None, "") else "")


# ---- sequences ----------------------------------------------------------------------------------


@fault("sequence: one that there is not", 2)
def lost(rng):
    if rng.random() < 0.5:
        return asked(f"/v2/models/mha/sequences/{rng.choice(('nobody', '%2F', '..', '%E2%82%AC'))}", rng.choice(("GET", "DELETE")), (409,))
    request = Request(rng, rng.choice(("tour", "steps")), "infer")
    request.json["inputs"] = request.json["inputs"][:1]
    request.json["parameters"] = {"sequence_id": rng.choice(("nobody", 7, "x" * 256))}
    return request.bad(statuses=(409,))


@fault("sequence: a file that is none", 3)
def sequence_file(rng):
    header = {"__metadata__": {"format": "attentiond sequence", "format_version": "1", "kind": "grows", "positions": "1", "fingerprint": "0" * 32},
              "key": {"dtype": "F32", "shape": [1, 2, 1, 2], "data_offsets": [0, 16]},
              "value": {"dtype": "F32", "shape": [1, 2, 1, 2], "data_offsets": [16, 32]}}
    how = rng.randrange(5)
    if how == 0:
        content = rng.randbytes(rng.randint(0, 200))
    else:
        if how == 1:
            header["key"]["data_offsets"] = rng.choice(([0, 17], [-1, 16], [16, 0], [0, 1 << 62], "x"))
        elif how == 2:
            header["key"]["shape"] = rng.choice(([1, 2, 1, -2], [1 << 62, 1 << 62, 1, 2], [], "x", [1.5]))
        elif how == 3:
            del header[rng.choice(list(header))]
        text = json.dumps(header).encode()
        content = struct.pack("<Q", len(text) + rng.choice((0, 0, 1, 1 << 40))) + text + bytes(32)
        content = content[: rng.randrange(len(content))] if rng.random() < 0.2 else content
    return asked("/v2/models/steps/sequences/taken", "POST", (400, 409), body=content)


__all__ = ["FAULTS"]
