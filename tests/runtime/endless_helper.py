"""A helper process that never says anything; it ends with the one that started it."""

from __future__ import annotations

import socket
import sys

if __name__ == "__main__":
    sys.stderr.write("waiting\n")
    with socket.socket(fileno=int(sys.argv[1])) as sock:
        while sock.recv(1 << 16):
            pass
