#!/usr/bin/env python3
"""Is a page of metrics well formed? exposition.py text|openmetrics FILE: says what is not.

By the rules of Prometheus' text format 0.0.4 and of OpenMetrics 1.0. Where the client library of Prometheus is
installed, its parsers must take the page too."""
import math
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r'(%s)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$' % NAME)
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
SUFFIXES = {
    "text": {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]},
    "openmetrics": {
        "counter": ["_total", "_created"],
        "gauge": [""],
        "unknown": [""],
        "info": ["_info"],
        "histogram": ["_bucket", "_sum", "_count", "_created"],
    },
}


def fail(*words):
    sys.exit(" ".join(map(str, words)))


def check_histogram(name, samples):
    series = {}
    for sample, labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        series.setdefault(key, []).append((sample, labels, value))
    for key, entries in series.items():
        buckets = [(float(l["le"].replace("+Inf", "inf")), v) for s, l, v in entries if s.endswith("_bucket")]
        (count,) = [v for s, _, v in entries if s.endswith("_count")]
        if buckets != sorted(buckets) or [v for _, v in buckets] != sorted(v for _, v in buckets):
            fail(name, key, "has buckets that fall")
        if not buckets or buckets[-1] != (math.inf, count):
            fail(name, key, "has a last bucket other than its count")


def check(text, form):
    families, current, seen = {}, None, set()
    lines = text.split("\n")
    if lines.pop() != "":
        fail("the last line does not end")
    if form == "openmetrics" and lines.pop() != "# EOF":
        fail("no EOF")
    for line in lines:
        if line.startswith(("# HELP ", "# TYPE ", "# UNIT ")):
            _, kind, name, value = line.split(" ", 3)
            if name != current and name in families:
                fail(name, "comes in two places")
            current = name
            family = families.setdefault(name, {"samples": []})
            if kind in family or family["samples"]:
                fail(line, "comes too late or twice")
            family[kind] = value
            if kind == "UNIT" and not name.endswith("_" + value):
                fail(line, "is not the name's end")
            continue
        found = SAMPLE.match(line)
        if not found or current is None:
            fail("not a line:", line)
        name, labels, value = found[1], dict(LABEL.findall(found[2] or "")), float(found[3])
        family = families[current]
        if name not in [current + suffix for suffix in SUFFIXES[form].get(family.get("TYPE"), [])]:
            fail(line, "is no sample of", current, family.get("TYPE"))
        if (name, found[2]) in seen:
            fail(line, "comes twice")
        seen.add((name, found[2]))
        family["samples"].append((name, labels, value))
    for name, family in families.items():
        if "HELP" not in family or "TYPE" not in family:
            fail(name, "lacks HELP or TYPE")
        if family["TYPE"] == "histogram":
            check_histogram(name, family["samples"])
    return families


def check_with_library(text, form):
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        from prometheus_client import openmetrics, parser
        import prometheus_client.openmetrics.parser
    except ImportError:
        return
    read = openmetrics.parser.text_string_to_metric_families if form == "openmetrics" else parser.text_string_to_metric_families
    if not list(read(text)):
        fail("the library finds nothing")


def main():
    form, path = sys.argv[1:]
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    if len(check(text, form)) < 20:
        fail("hardly any metrics")
    check_with_library(text, form)


main()
