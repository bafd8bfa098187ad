"""What a traced process has changed of files: writes.py TRACE. Prints each call that succeeded once, as "what path",
sorted. The trace is strace's, of calls that take a path."""
import re
import sys

CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
READING = {"access", "faccessat", "faccessat2", "stat", "lstat", "newfstatat", "statx", "statfs", "readlink"}
READING |= {"readlinkat", "getcwd", "chdir", "execve", "connect", "getxattr", "lgetxattr", "inotify_add_watch"}

found = set()
with open(sys.argv[1], encoding="utf-8", errors="replace") as trace:
    for line in trace:
        call = CALL.match(line)
        if not call or int(call[3]) < 0:
            continue
        name, arguments = call[1], call[2]
        paths = re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)
        if name in READING or (name.startswith("open") and not WRITING.search(arguments)):
            continue
        if name == "bind" and "AF_UNIX" not in arguments:
            continue
        found.add("%s %s" % ("open" if name.startswith("open") else name, " ".join(paths)))
print("\n".join(sorted(found)))
