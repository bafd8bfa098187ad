"""In which order requests were computed, from a file of traces: order.py FILE PREFIX. Prints those request ids that
begin so, by the start of their stage `compute`."""
import json
import sys

starts = []
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        attributes = [a for s in spans for a in s.get("attributes", ())]
        ids = [a["value"]["stringValue"] for a in attributes if a["key"] == "attentiond.request_id"]
        computed = [int(s["startTimeUnixNano"]) for s in spans if s["name"] == "compute"]
        starts += [(at, name) for at in computed for name in ids if name.startswith(sys.argv[2])]
print(*(name for _, name in sorted(starts)))
