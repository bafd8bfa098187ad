"""What the dashboard and the rules ask Prometheus for.

As a program, expressions.py DASHBOARD prints the dashboard's expressions as a file of rules, for promtool to look at.
"""
import json
import re
import sys

VARIABLES = {"$__rate_interval": "30s", "$model": ".*", "$instance": ".*"}
METRIC = re.compile(r"(?<![:\w])(?:attentiond_\w+|process_\w+|haproxy_\w+|up)(?![:\w])")
GROUPING = re.compile(r"\bby \([^)]*\)|\{[^}]*\}|\"[^\"]*\"")


def of_dashboard(path):
    """(title of the panel, expression), with every variable filled in."""
    with open(path, encoding="utf-8") as file:
        board = json.load(file)
    found = []
    for panel in board["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            found.append((panel["title"], text))
    return found


def places(path):
    """Panels whose places overlap, or that have the same number."""
    with open(path, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    taken, faults, numbers = {}, [], set()
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["title"])
                if other != panel["title"] or x >= 24:
                    faults.append("%s lies over %s" % (panel["title"], other))
        if panel["id"] in numbers:
            faults.append("%s has the number of another" % panel["title"])
        numbers.add(panel["id"])
    return sorted(set(faults))


def metrics_in(text):
    """Names of the metrics in an expression."""
    return set(METRIC.findall(GROUPING.sub("", text)))


def of_rules(path):
    """The text of a file of rules, without its annotations and names."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    kept = [line for line in lines if not re.match(r"\s*(#|- (record|alert|name):|summary:|description:)", line)]
    return "\n".join(kept)


def main():
    path = sys.argv[1]
    faults = places(path)
    if faults:
        sys.exit("\n".join(faults))
    rules = [{"record": "panel:%d" % i, "expr": text} for i, (_, text) in enumerate(of_dashboard(path))]
    json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, sys.stdout)


if __name__ == "__main__":
    main()
