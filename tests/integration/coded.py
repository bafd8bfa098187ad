#!/usr/bin/env python3
"""Bytes in the codings gzip and deflate (its zlib form), from standard input to standard output. Standard
library only.

coded.py pack CODING           pack what comes
coded.py unpack CODING         unpack it, all of it
coded.py bomb CODING BYTES     so many zeros, packed; reads nothing
coded.py floats N              N floats of random bits, between 1 and 2; reads nothing
"""
import random
import struct
import sys
import zlib

WINDOWS = {"gzip": 31, "deflate": 15}
PIECE = bytes(1 << 20)


def bomb(coding, n_bytes):
    packer = zlib.compressobj(9, zlib.DEFLATED, WINDOWS[coding])
    packed = b""
    while n_bytes > 0:
        packed += packer.compress(PIECE[:n_bytes])
        n_bytes -= len(PIECE)
    return packed + packer.flush()


def unpack(coding, data):
    unpacker = zlib.decompressobj(WINDOWS[coding])
    unpacked = unpacker.decompress(data)
    if not unpacker.eof or unpacker.unused_data:
        sys.exit("not exactly one stream")
    return unpacked


def floats(n):
    draw = random.Random(1)
    return struct.pack("<%dI" % n, *(0x3F800000 | draw.getrandbits(23) for _ in range(n)))


def main(command, *rest):
    if command == "pack":
        packer = zlib.compressobj(6, zlib.DEFLATED, WINDOWS[rest[0]])
        result = packer.compress(sys.stdin.buffer.read()) + packer.flush()
    elif command == "unpack":
        result = unpack(rest[0], sys.stdin.buffer.read())
    elif command == "bomb":
        result = bomb(rest[0], int(rest[1]))
    elif command == "floats":
        result = floats(int(rest[0]))
    else:
        sys.exit(__doc__)
    sys.stdout.buffer.write(result)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))
