"""Clients that go away as soon as they have asked, or in the middle of it; leavers.py PORT PATH BODY-FILE N."""
import random
import socket
import struct
import sys
import threading


def leave(port, message, seed):
    """Sends all of it, or less, and hangs up hard, at once or a moment later."""
    rng = random.Random(seed)
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sendall(message if rng.random() < 0.9 else message[:rng.randrange(1, len(message))])
    if rng.random() < 0.5:
        client.settimeout(rng.random() * 3e-4)
        try:
            client.recv(1)
        except socket.timeout:
            pass
    client.close()


def main():
    port, path, body = int(sys.argv[1]), sys.argv[2], open(sys.argv[3], "rb").read()
    message = (f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
    threads = [threading.Thread(target=lambda n=n: [leave(port, message, n * 10 ** 6 + i)
                                                    for i in range(int(sys.argv[4]))]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
