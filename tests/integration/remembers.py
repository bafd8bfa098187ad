"""What of some secrets is in a process's memory? remembers.py PID FILE [URL]

Each line of FILE is a secret of 16 bytes or more, of which any such piece counts. Prints which one is found,
and where. With a URL, each is sent there first as a key, on connections that stay open. Takes rights over the
process."""
import http.client
import re
import ssl
import sys
import urllib.parse

PIECE = 16
LARGEST = 1 << 32  # what is larger only keeps addresses for a sanitizer


def pieces(secret):
    starts = [*range(0, len(secret) - PIECE, PIECE), len(secret) - PIECE]
    return [secret[start : start + PIECE] for start in starts]


def areas(pid):
    with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "rb", 0) as memory:
        for area in maps:
            begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)", area).groups()
            begin, end = int(begin, 16), int(end, 16)
            if rights[:2] != "rw" or end - begin > LARGEST:  # what is only read, files hold
                continue
            try:
                memory.seek(begin)
                yield begin, " ".join(area.split()[5:]) or "memory", memory.read(end - begin)
            except OSError:  # it is gone, or belongs to a device
                continue


def connect(url):
    if url.scheme == "https":
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(url.netloc, timeout=20, context=context)
    return http.client.HTTPConnection(url.netloc, timeout=20)


def send(url, secret):
    """Twice in the same connection; the last answer is that to a request with the key."""
    connection = connect(url)
    for headers in ({"X-API-Key": secret}, {"Authorization": "Bearer " + secret}):
        connection.request("GET", url.path, headers=headers)
        assert connection.getresponse().read() != b""
    return connection


pid, path, *urls = sys.argv[1:]
with open(path, "rb") as file:
    secrets = [line for line in file.read().split(b"\n") if line]
assert secrets and min(map(len, secrets)) >= PIECE, "no secrets"
open_connections = [send(urllib.parse.urlsplit(url), secret.decode()) for url in urls for secret in secrets]
n_bytes = 0
for begin, name, content in areas(pid):
    n_bytes += len(content)
    for n, secret in enumerate(secrets, 1):
        places = [content.find(piece) for piece in pieces(secret)]
        if max(places) >= 0:
            print("secret %d: %s" % (n, name), ["%x" % (begin + at) for at in places if at >= 0])
assert n_bytes > 1 << 20, "no memory could be read"
