#!/usr/bin/env python3
"""Move all sequences of a replica to the others, so that it can be stopped and nobody loses one.

    move-sequences.py SOCKET REPLICA [ADMIN-PORT]   before the replica is stopped; HAProxy then sends it nothing
    move-sequences.py SOCKET REPLICA ready          when it is back; without it it stays unused

SOCKET is HAProxy's (HAPROXY_SOCKET of haproxy.cfg): a path, or HOST:PORT. REPLICA is its name there: replica2. The
replicas have to be reached from here without TLS, at the address that HAProxy has and, for the list of their sequences, at their
admin listener (8002, unless ADMIN-PORT says otherwise). A key, where they want one, is in ATTENTIOND_KEY.

First HAProxy sends nothing new to the replica. Then requests of its sequences are held back (503 sequence_moving
with Retry-After, which a client takes as any 503: again later) until those that run have been answered. Each sequence is
then exported, imported at another replica, written down in HAProxy's table as living there, and let go.
"""
import http.client
import json
import os
import re
import socket
import sys
import time
import urllib.parse

PATIENCE_SECONDS = 60
POLL_SECONDS = 0.02


class Proxy:
    """HAProxy's runtime API."""

    def __init__(self, where):
        self.where = where

    def say(self, text):
        host, _, port = self.where.rpartition(":")
        if host and port.isdigit():
            channel = socket.create_connection((host, int(port)), timeout=10)
        else:
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            channel.connect(self.where)
        with channel:
            channel.sendall(text.encode() + b"\n")
            answer = b"".join(iter(lambda: channel.recv(65536), b"")).decode().strip()
        return answer

    def order(self, text):
        """Something that is done without a word."""
        answer = self.say(text)
        if answer:
            sys.exit("HAProxy: %s: %s" % (text, answer))

    def rows(self, backend):
        """Of each server that has an address, as its statistics have it."""
        head, *lines = self.say("show stat %s 4 -1" % backend).removeprefix("# ").splitlines()
        rows = [dict(zip(head.split(","), line.split(","))) for line in lines if line]
        return {row["svname"]: row for row in rows if row["addr"]}

    def living_at(self, number):
        """Ids of sequences that it sends to this server."""
        table = self.say("show table sequences data.server_id eq %s" % number)
        return [unescaped(key) for key in re.findall(r"key=(.*) use=\d+ exp=", table)]


class Daemon:
    """A listener of a replica."""

    def __init__(self, address, port):
        self.connection = http.client.HTTPConnection(address, port, timeout=PATIENCE_SECONDS)
        self.headers = {"X-API-Key": os.environ["ATTENTIOND_KEY"]} if "ATTENTIOND_KEY" in os.environ else {}

    def ask(self, verb, path, body=None):
        kind = {"Content-Type": "application/octet-stream"} if body else {}
        self.connection.request(verb, path, body, {**self.headers, **kind})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def get(self, path):
        status, body = self.ask("GET", path)
        if status != 200:
            sys.exit("%s: %d %s" % (path, status, body[:300].decode(errors="replace")))
        return json.loads(body)

    def sequences(self):
        """Where each lies: {id: [paths]}."""
        found = {}
        for model in self.get("/v2/models")["models"]:
            base = "/v2/models/" + quote(model)
            status, body = self.ask("GET", base)
            for version in json.loads(body)["versions"] if status == 200 else []:
                path = "%s/versions/%s/sequences" % (base, version)
                for each in self.get(path)["sequences"]:
                    found.setdefault(str(each["id"]), []).append("%s/%s" % (path, quote(str(each["id"]))))
        return found


def quote(text):
    return urllib.parse.quote(text, safe="")


def unescaped(key):
    """An id out of a table as HAProxy prints it."""
    parts = re.findall(rb"\\x([0-9A-F]{2})|\\(.)|([^\\])", key.encode())
    return b"".join(bytes.fromhex(code.decode()) or other or plain for code, other, plain in parts).decode(errors="replace")


def word(text):
    """An id, which is a client's choice, as one word of a command and nothing more."""
    return re.sub(r"([^A-Za-z0-9_.-])", r"\\\1", text)


def wait_for(holds, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end:
            sys.exit("not within %d s: %s" % (PATIENCE_SECONDS, what))
        time.sleep(POLL_SECONDS)


def carry(path, source, target):
    """From one daemon to another; False if the sequence has ended meanwhile."""
    status, body = source.ask("GET", path)
    if status == 409:
        return False
    if status == 200:
        status, body = target.ask("POST", path, body)
    if status not in (200, 201, 204):
        sys.exit("%s: %d %s" % (path, status, body[:300].decode(errors="replace")))
    source.ask("DELETE", path)
    return True


def move(proxy, replica, port):
    rows = proxy.rows("sequences")
    others = [name for name, row in rows.items() if name != replica and row["status"] == "UP"]
    if replica not in rows or not others:
        sys.exit("%s: %s" % (replica, "there is no other replica that is up" if replica in rows else
                             "HAProxy has %s" % ", ".join(rows)))
    for backend in "sequences", "stateless":
        proxy.order("set server %s/%s state drain" % (backend, replica))
    places = {name: row["addr"].rpartition(":")[::2] for name, row in rows.items()}
    daemons = {name: Daemon(*places[name]) for name in [replica, *others]}
    source, admin = daemons[replica], Daemon(places[replica][0], port)
    # An id that cannot stand in a header has never come by way of it.
    ids = sorted(name for name in set(proxy.living_at(rows[replica]["sid"])) | set(admin.sequences())
                 if name.isprintable())
    for name in ids:
        proxy.order("set table held key %s data.gpc0 1" % word(name))
    wait_for(lambda: proxy.rows("sequences")[replica]["scur"] == "0", "what runs at %s is answered" % replica)
    paths, moved = admin.sequences(), 0
    for i, name in enumerate(ids):
        target = others[i % len(others)]
        moved += sum(carry(path, source, daemons[target]) for path in paths.get(name, []))
        proxy.say("clear table sequences key %s" % word(name))
        proxy.order("set table sequences key %s data.server_id %s" % (word(name), rows[target]["sid"]))
        proxy.order("clear table held key %s" % word(name))
    print("%s: %d sequences moved to %s; it may be stopped" % (replica, moved, ", ".join(others)))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    proxy, replica, what = Proxy(sys.argv[1]), sys.argv[2], (sys.argv[3:] or ["8002"])[0]
    if what == "ready":
        for backend in "sequences", "stateless":
            proxy.order("set server %s/%s state ready" % (backend, replica))
    else:
        move(proxy, replica, int(what))


if __name__ == "__main__":
    main()
