"""Ports for the servers of a site, which listen a moment after they were chosen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import tempfile
from collections.abc import Collection
from pathlib import Path

from nearcast.errors import ConfigError

__all__ = ["PORTS", "free_ports"]

PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections. One of those could be taken before its
server listens, or, on loopback, by a connection to itself while the server is away."""
_HOST = "127.0.0.1"
_NUMBER_BYTES = 8


def free_ports(count: int, kind: socket.SocketKind, taken: Collection[int] = ()) -> list[int]:
    """Return free ports that no other site of this user was given of late.

    Sites that start together would find the same ones free: so each begins where the last one
    ended, whichever process chose.

    Raises
    ------
    ConfigError
        When there are not so many.
    """
    if not count:
        return []
    anywhere = secrets.randbelow(len(PORTS))
    with contextlib.ExitStack() as opened:
        try:
            noted = os.open(_noted(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            opened.callback(os.close, noted)
            is_ours = os.fstat(noted).st_uid == os.getuid()  # others could keep us waiting
        except OSError:
            is_ours = False
        if not is_ours:
            return _search(anywhere, count, kind, taken)
        fcntl.flock(noted, fcntl.LOCK_EX)
        said = os.pread(noted, _NUMBER_BYTES, 0)
        found = _search(int(said) if said.isdigit() else anywhere, count, kind, taken)
        with contextlib.suppress(OSError):  # the disk is full: others go by what it said before
            os.pwrite(noted, b"%0*d" % (_NUMBER_BYTES, found[-1] + 1 - PORTS.start), 0)
        return found


def _noted() -> Path:
    """Return the file that says where the last site's ports ended."""
    return Path(tempfile.gettempdir(), f"nearcast-ports-{os.getuid()}")


def _search(begin: int, count: int, kind: socket.SocketKind, taken: Collection[int]) -> list[int]:
    found: list[int] = []
    for step in range(len(PORTS)):
        port = PORTS[(begin + step) % len(PORTS)]
        if port in taken:
            continue
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            probe.bind((_HOST, port))
            found.append(port)
        if len(found) == count:
            return found
    raise ConfigError(f"no {count} ports between {PORTS[0]} and {PORTS[-1]} are free")
