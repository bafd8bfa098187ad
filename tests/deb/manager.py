#!/usr/bin/env python3
"""Starts a service as its unit file says, in a root folder, and notes what it is told.

    manager.py ROOT UNIT NOTES

ExecStart, User, UMask, Environment, LimitNOFILE, RuntimeDirectory, LogsDirectory and WatchdogSec count;
of this process's environment only what begins with ATTENTIOND_. SIGTERM and SIGHUP go to the service,
and its exit status is this one's."""
import os
import resource
import shlex
import signal
import socket
import sys


def read_unit(path):
    """What [Service] says; a key that comes again adds to its list."""
    settings, section = {}, None
    for line in open(path):
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            key, _, value = line.partition("=")
            settings.setdefault(key.strip(), []).append(value.strip())
    return settings


def find_user(root, name):
    for line in open(root + "/etc/passwd"):
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2]), int(fields[3])
    sys.exit("manager: no user %s" % name)


def make_folder(path, mode, owner):
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)
    os.chown(path, *owner)


def listen_for_notes(root, owner):
    path = root + "/run/notify"
    if os.path.exists(path):
        os.unlink(path)
    notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notes.bind(path)
    os.chown(path, *owner)
    return notes


def become_service(root, settings, owner, environment):
    limit = min(int(settings["LimitNOFILE"][-1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.chroot(root)
    os.chdir("/")
    os.umask(int(settings["UMask"][-1], 8))
    os.setgroups([])
    os.setgid(owner[1])
    os.setuid(owner[0])
    environment["WATCHDOG_PID"] = str(os.getpid())
    command = shlex.split(settings["ExecStart"][-1])
    os.execve(command[0], command, environment)


def main():
    root, unit, noted = sys.argv[1:4]
    settings = read_unit(unit)
    owner = find_user(root, settings["User"][-1])
    make_folder("%s/run/%s" % (root, settings["RuntimeDirectory"][-1]), 0o755, owner)
    make_folder("%s/var/log/%s" % (root, settings["LogsDirectory"][-1]),
                int(settings["LogsDirectoryMode"][-1], 8), owner)
    notes = listen_for_notes(root, owner)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "NOTIFY_SOCKET": "/run/notify",
                   "WATCHDOG_USEC": str(int(settings["WatchdogSec"][-1]) * 1000000)}
    environment.update(word.split("=", 1) for line in settings.get("Environment", [])
                       for word in shlex.split(line))
    environment.update(item for item in os.environ.items() if item[0].startswith("ATTENTIOND_"))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
    service = os.fork()
    if service == 0:
        become_service(root, settings, owner, environment)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(service, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGHUP])
    notes.settimeout(0.05)
    with open(noted, "w", buffering=1) as out:
        out.write("PID=%d\n" % service)
        ended = 0
        while not ended:
            ended, status = os.waitpid(service, os.WNOHANG)
            try:
                out.write(notes.recv(65536).decode().rstrip("\n") + "\n")
            except TimeoutError:
                pass
    sys.exit(os.waitstatus_to_exitcode(status) % 256)


main()
