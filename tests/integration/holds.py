"""Print whether a Python expression holds over a JSON file: holds.py EXPRESSION FILE.

In the expression j is the file's content, close(a, b) compares two lists of numbers, output(name) is
the data of one output of an infer reply, and named(list, name) the entry of that name.
"""
import json
import math
import sys


def close(a, b):
    same = len(a) == len(b)
    return same and all(math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-6) for x, y in zip(a, b))


def named(entries, name):
    return next(e for e in entries if e["name"] == name)


def output(name):
    return named(j["outputs"], name)["data"]


with open(sys.argv[2], encoding="utf-8") as file:
    j = json.load(file)
print(bool(eval("(%s)" % sys.argv[1])))
