#!/usr/bin/env python3
"""A sequence's file with something else in it: spoil.py FILE WHAT [VALUE] > SPOILT.

WHAT is a key of the metadata (VALUE takes its place; none: it goes), or one of
    shape TENSOR=JSON   dtype TENSOR=NAME   rename OLD=NEW   drop TENSOR   cut BYTES   nan"""
import json
import struct
import sys

name, what, value = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
content = open(name, "rb").read()
n = int.from_bytes(content[:8], "little")
header, data = json.loads(content[8 : 8 + n]), content[8 + n :]
if what == "shape":
    tensor, shape = value.split("=")
    header[tensor]["shape"] = json.loads(shape)
elif what == "dtype":
    tensor, dtype = value.split("=")
    header[tensor]["dtype"] = dtype
elif what == "rename":
    old, new = value.split("=")
    header[new] = header.pop(old)
elif what == "drop":
    begin, end = header.pop(value)["data_offsets"]
    data = data[:begin] + data[end:]
    for tensor in header:
        if tensor != "__metadata__" and header[tensor]["data_offsets"][0] >= end:
            header[tensor]["data_offsets"] = [at - (end - begin) for at in header[tensor]["data_offsets"]]
elif what == "cut":
    data = data[: -int(value)]
elif what == "nan":
    data = struct.pack("<f", float("nan")) + data[4:]
elif value is None:
    del header["__metadata__"][what]
else:
    header["__metadata__"][what] = value
text = json.dumps(header).encode()
sys.stdout.buffer.write(struct.pack("<Q", len(text)) + text + data)
