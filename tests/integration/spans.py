"""The lines of a trace file against what was sent: spans.py FILE TRACE SPAN REQUEST. Exactly one line must belong to
the request, a child of that span of that trace; each line is one request's: its span, and stages below it."""
import json
import sys

STAGES = ["queue", "decode", "batch", "compute", "encode"]


def attributes(span):
    return {a["key"]: list(a["value"].values())[0] for a in span.get("attributes", ())}


def main(path, trace, parent, request):
    found = 0
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        (resource,) = line["resourceSpans"]
        assert {"key": "service.name", "value": {"stringValue": "attentiond"}} in resource["resource"]["attributes"]
        root, *stages = resource["scopeSpans"][0]["spans"]
        assert int(root["startTimeUnixNano"]) <= int(root["endTimeUnixNano"])
        names = [s["name"] for s in stages]
        assert names == [n for n in STAGES if n in names], names
        for span in stages:
            assert span["traceId"] == root["traceId"] and span["parentSpanId"] == root["spanId"], line
            assert int(root["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(root["endTimeUnixNano"])
        ids = [s["spanId"] for s in (root, *stages)]
        assert len(set(ids)) == len(ids) and all(len(i) == 16 for i in ids), ids
        if attributes(root)["attentiond.request_id"] == request:
            found += 1
            assert root["traceId"] == trace and root["parentSpanId"] == parent, root
            assert names == STAGES, names
            assert attributes(root)["http.response.status_code"] == "200", root
            assert attributes(root)["attentiond.model"] == "mha" and attributes(root)["attentiond.version"] == "1", root
            assert attributes(root)["http.route"] == "/v2/models/{model}/infer", root
    assert found == 1, "%d of %d lines" % (found, len(lines))


main(*sys.argv[1:])
