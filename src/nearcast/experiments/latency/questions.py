"""Questions that clients of other servers ask this one, which servers were revoked, at their rate."""

from __future__ import annotations

import socket
import time

from nearcast.wire.actions import Home
from nearcast.wire.framing import InitKeys
from nearcast.wire.settings import WireSettings

__all__ = ["Questions"]

_READ_BYTES = 2048


class Questions:
    """As many as so many clients ask that know the server; all from one address."""

    def __init__(self, clients: int, server: Home) -> None:
        settings = WireSettings()
        self._address, self._keys = server.address, InitKeys(server.server_key)
        self._size_bytes = settings.datagram_limit
        self._each_s = settings.second_opinion_s / clients
        self._due = time.monotonic()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.asked = self.answered = 0

    def ask(self) -> bool:
        """Ask what is due and read answers; False, as there is no end to it."""
        while time.monotonic() >= self._due:
            self._due += self._each_s
            data = self._keys.write_question(self.asked & 0xFFFFFFFF, 0, self._size_bytes)
            try:
                self._socket.sendto(data, self._address)
            except BlockingIOError:
                break
            self.asked += 1
        while True:
            try:
                self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return False
            self.answered += 1

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
