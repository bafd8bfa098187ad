#!/usr/bin/env python3
"""Run README's examples against a daemon and hold the answers that README shows against it.

    readme.py README PORT [--write]

A ```console block holds one command behind "$ " and, after it, the answer; a ```python block with a ```text
block right after it is a program and what it prints. Port 8000 is replaced by PORT. Numbers in answers agree when
they are within 1e-5, printed ones when they are within 2 of their last digit. --write puts the daemon's answers
into README where README has others. The last line printed is the count."""
import json
import re
import subprocess
import sys

COMMAND = re.compile(r"```console\n\$ (.*?)\n```", re.S)
PROGRAM = re.compile(r"```python\n((?:(?!```).)*)```\n```text\n(.*?)```", re.S)


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


def same_answer(got, want):
    return bool(want) and close(json.loads(got), json.loads(want))


def same_words(got, want):
    def same(a, b):
        digits = len(b.partition(".")[2])
        number = re.fullmatch(r"-?\d+\.\d+", a) and re.fullmatch(r"-?\d+\.\d+", b)
        return a == b or (number and abs(float(a) - float(b)) <= 2.1 * 10**-digits)

    got, want = got.split(), want.split()
    return len(got) == len(want) > 0 and all(map(same, got, want))


def run(arguments, text, port):
    """What bash or Python prints for this text."""
    text = text.replace("localhost:8000", "127.0.0.1:" + port)
    done = subprocess.run([*arguments, text], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr.strip()


def examples(text, port):
    """For each: the block as README has it, the same with the answer that came, and whether they agree."""
    for block in COMMAND.finditer(text):
        command, answer = split(block[1])
        got = run(["bash", "-c"], command, port)
        yield block[0], "```console\n$ %s\n%s\n```" % (command, got), same_answer(got, answer)
    for block in PROGRAM.finditer(text):
        got = run([sys.executable, "-I", "-c"], block[1], port)
        yield block[0], "```python\n%s```\n```text\n%s\n```" % (block[1], got), same_words(got, block[2])


def main():
    path, port = sys.argv[1], sys.argv[2]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    passed = failed = 0
    written = text
    for block, answered, agree in examples(text, port):
        passed += agree
        failed += not agree
        if not agree:
            print("README:\n%s\n  answers\n%s" % (block, answered))
            written = written.replace(block, answered)
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(written)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
