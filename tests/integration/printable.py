"""Is text from outside shown as text alone? printable.py FILES... Exit status 0 when no file has a control
character but newlines, one that separates lines or turns the direction of text, or a byte that is not UTF-8."""
import sys

# What is neither C0, DEL nor C1 and still changes how the text around it is shown.
MARKS = {0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)}

n_bytes = 0
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        content = file.read()
    n_bytes += len(content)
    for n, line in enumerate(content.split(b"\n"), 1):
        for character in line.decode("utf-8"):
            code = ord(character)
            assert code >= 0x20 and not 0x7F <= code < 0xA0 and code not in MARKS, (name, n, hex(code), line)
assert n_bytes > 0, "there is nothing in them"
