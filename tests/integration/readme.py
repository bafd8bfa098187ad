#!/usr/bin/env python3
"""Run README's curl examples against a daemon and hold the answers that README shows against it.

    readme.py README PORT [--write]

A ```console block holds one command behind "$ " and, after it, the answer. Port 8000 is replaced by PORT.
Numbers agree when they are within 1e-5. --write puts the daemon's answers into README instead.
The last line printed is the count."""
import json
import re
import subprocess
import sys

def split(block):
    """The command, and the answer behind it: the command ends with its closing quote or first line."""
    lines = block.split("\n")
    command = lines[0]
    at = 1
    while command.count("'") % 2:
        command += "\n" + lines[at]
        at += 1
    return command, "\n".join(lines[at:]).strip()


def close(got, want):
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(close(got[k], want[k]) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(close, got, want))
    if isinstance(want, float) and isinstance(got, (int, float)):
        return abs(got - want) <= 1e-5
    return got == want


def main():
    path, port = sys.argv[1], sys.argv[2]
    text = open(path, encoding="utf-8").read()
    passed = failed = 0
    written = text
    for block in re.findall(r"```console\n\$ (.*?)\n```", text, re.S):
        command, answer = split(block)
        run = command.replace("localhost:8000", "127.0.0.1:" + port)
        got = subprocess.run(["bash", "-c", run], capture_output=True, text=True, timeout=30).stdout.strip()
        if "--write" in sys.argv:
            written = written.replace("$ " + block + "\n```", "$ " + command + "\n" + got + "\n```")
        if answer and close(json.loads(got), json.loads(answer)):
            passed += 1
        else:
            failed += 1
            print("README: %s\n  answers %s\n  README shows %s" % (command.split("\n")[0], got, answer))
    if "--write" in sys.argv:
        open(path, "w", encoding="utf-8").write(written)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
