#!/usr/bin/env python3
"""Does what the compose files say fit the daemon, its image and HAProxy? Prints what does not."""
import json
import os
import re
import sys

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCKER = os.path.join(ROOT, "docker")


class Loader(yaml.SafeLoader):
    """With the tag by which one file takes back what another says."""


Loader.add_constructor("!reset", lambda loader, node: None)


def read(name):
    with open(os.path.join(DOCKER, name), encoding="utf-8") as file:
        return yaml.load(file, Loader)["services"]


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def hardened(name, service):
    wanted = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    return ["%s: %s is not %s" % (name, key, value) for key, value in wanted.items() if service.get(key) != value]


def mounts(name, service):
    """What is mounted from the tree has to be there, and is read only."""
    for text in service.get("volumes", []):
        source, _, rest = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).partition(":")
        if source.startswith(".") and not os.path.exists(os.path.join(DOCKER, source)):
            yield "%s: there is no %s" % (name, source)
        if source.startswith(".") and not rest.endswith(":ro"):
            yield "%s: %s may be written to" % (name, source)


def main():
    base, scaled = read("compose.yaml"), read("compose.scaled.yaml")
    faults = []
    for name, service in {**base, "haproxy": scaled["haproxy"]}.items():
        faults += hardened(name, service) + list(mounts(name, service))
    with open(os.path.join(ROOT, "config", "attentiond.json"), encoding="utf-8") as file:
        options = json.load(file)
    environment = {**base["attentiond"]["environment"], **scaled["attentiond"]["environment"]}
    for variable in environment:
        if variable.removeprefix("ATTENTIOND_").lower().replace("_", "-") not in options:
            faults.append("attentiond: %s is no option" % variable)
    grace = seconds(base["attentiond"]["stop_grace_period"])
    if grace <= int(environment["ATTENTIOND_DRAIN_SECONDS"]) + int(environment["ATTENTIOND_EXIT_TIMEOUT_SECS"]):
        faults.append("attentiond: stop_grace_period ends before draining and finishing may")
    with open(os.path.join(DOCKER, "haproxy.cfg"), encoding="utf-8") as file:
        proxy = file.read()
    for variable in scaled["haproxy"]["environment"]:
        if "presetenv " + variable not in proxy:
            faults.append("haproxy: %s means nothing to haproxy.cfg" % variable)
    if seconds(scaled["haproxy"]["stop_grace_period"]) <= seconds(re.search(r"hard-stop-after (\S+)", proxy)[1]):
        faults.append("haproxy: stop_grace_period ends before hard-stop-after")
    print("\n".join(faults), end="\n" if faults else "")


if __name__ == "__main__":
    sys.exit(main())
