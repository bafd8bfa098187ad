"""A stand-in for a service manager.

run FOLDER [WORDS...] -- DAEMON ARGUMENTS...
    Become the daemon, with what the words ask for: notify (messages go to FOLDER/messages, one a line, its parts
    between bars), abstract (the same, by a name that is in no folder), gone (nobody listens there), NAME=value (in its
    environment; @ stands for its process id), and descriptors from 3 on: tcp, unix:PATH, file, datagram, unbound,
    closed. LISTEN_FDS and LISTEN_PID are set when there are any, unless the words do.
restart FOLDER DAEMON ARGUMENTS...
    Start it twice on one socket that stays open, with a request that comes in between, which must be answered.
hang PATH FILE
    Take the place of the unix socket PATH until FILE is there, and answer nothing.
"""
import os
import signal
import socket
import sys
import time

PATIENCE = 30


def wait_for(found, what):
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def listen_for_messages(folder, receiver):
    """In a process of its own, which ends with the daemon."""
    daemon = os.getpid()
    if os.fork() != 0:
        return
    receiver.settimeout(0.2)
    with open(folder + "/messages", "a", encoding="utf-8", buffering=1) as out:
        while True:
            try:
                out.write(receiver.recv(65536).decode().replace("\n", "|") + "\n")
            except TimeoutError:
                if os.getppid() != daemon:
                    os._exit(0)


def notify_socket(folder, word):
    path = "\0attentiond-%d" % os.getpid() if word == "abstract" else folder + "/notify"
    if word != "abstract" and os.path.exists(path):
        os.unlink(path)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(path)
    if word == "gone":
        os.unlink(path)
    else:
        open(folder + "/messages", "w", encoding="utf-8").close()
        listen_for_messages(folder, receiver)
    receiver.close()
    return path.replace("\0", "@")


def descriptor(word):
    kind, _, path = word.partition(":")
    if kind == "closed":
        return None
    if kind == "file":
        return os.open("/dev/null", os.O_RDWR)
    if kind == "datagram":
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    elif kind == "unbound":
        opened = socket.socket()
    elif kind == "unix":
        opened = socket.socket(socket.AF_UNIX)
        opened.bind(path)
        opened.listen()
    else:
        opened = socket.create_server(("127.0.0.1", 0))
    return opened.detach()


def put_descriptors(opened):
    """From 3 on, in that order; what is None is closed."""
    safe = [fd and os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate(opened)]
    os.closerange(3, 100)
    for i, fd in enumerate(safe):
        if fd is not None:
            os.dup2(fd, 3 + i, inheritable=True)


def run(folder, *rest):
    at = rest.index("--")
    words, command = rest[:at], rest[at + 1 :]
    environment = dict(os.environ)
    opened = []
    given = {}
    for word in words:
        if "=" in word:
            name, _, value = word.partition("=")
            given[name] = value.replace("@", str(os.getpid()))
        elif word in ("notify", "abstract", "gone"):
            environment["NOTIFY_SOCKET"] = notify_socket(folder, word)
        else:
            opened.append(descriptor(word))
    if opened:
        put_descriptors(opened)
        environment.update(LISTEN_FDS=str(len(opened)), LISTEN_PID=str(os.getpid()))
    environment.update(given)
    os.execve(command[0], command, environment)


def start_on(listening, log, command):
    pid = os.fork()
    if pid == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        put_descriptors([listening.fileno()])
        os.execve(command[0], command, dict(os.environ, LISTEN_FDS="1", LISTEN_PID=str(os.getpid())))
    wait_for(lambda: os.path.exists(log) and " started " in open(log, encoding="utf-8").read(), log)
    return pid


def stop(pid):
    os.kill(pid, signal.SIGTERM)
    assert os.waitpid(pid, 0)[1] == 0


def restart(folder, *command):
    listening = socket.create_server(("127.0.0.1", 0))
    pid = start_on(listening, folder + "/first", command)
    stop(pid)
    with socket.create_connection(listening.getsockname(), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        pid = start_on(listening, folder + "/second", command)
        answer = connection.recv(65536)
    stop(pid)
    assert answer.startswith(b"HTTP/1.1 200 "), answer


def hang(path, file):
    os.rename(path, path + ".aside")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        wait_for(lambda: os.path.exists(file), file)
    os.rename(path + ".aside", path)


globals()[sys.argv[1]](*sys.argv[2:])
