"""Reads a server's port: datagrams of sessions, and of strangers no more than helps newcomers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nearcast.links.sorted_port import SortedPort
from nearcast.wire.settings import Address

__all__ = ["STRANGERS_PER_S", "PortReader"]

STRANGERS_PER_S = 20_000.0
"""Several times what is ever answered; the kernel drops what comes beyond it, which costs less."""
_WINDOW_S = 0.01
_PER_PASS = 16
"""Few: datagrams of sessions that come meanwhile wait for no more than these."""


class PortReader:
    """Tells of datagrams between `start` and `stop`.

    Parameters
    ----------
    on_readable
        Called when there are datagrams of sessions.
    on_strangers
        Called with each batch of others.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        port: SortedPort,
        on_readable: Callable[[], None],
        on_strangers: Callable[[list[tuple[bytes, Address]]], None],
    ) -> None:
        self._loop, self._port = loop, port
        self._on_readable, self._on_strangers = on_readable, on_strangers
        self._left = 0
        """How many strangers may still be read in this window."""
        self._window_ends_s = float("-inf")
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Read from now on."""
        self._loop.add_reader(self._port.sessions.fileno(), self._on_readable)
        self._heed_strangers()

    def stop(self) -> None:
        """Read no more."""
        self._loop.remove_reader(self._port.sessions.fileno())
        if self._port.strangers is not None:
            self._loop.remove_reader(self._port.strangers.fileno())
        if self._pause is not None:
            self._pause.cancel()

    def _heed_strangers(self) -> None:
        if self._port.strangers is not None:
            self._loop.add_reader(self._port.strangers.fileno(), self._read_strangers)

    def _read_strangers(self) -> None:
        strangers = self._port.strangers
        assert strangers is not None
        now_s = self._loop.time()
        if now_s >= self._window_ends_s:
            self._left, self._window_ends_s = round(STRANGERS_PER_S * _WINDOW_S), now_s + _WINDOW_S
        batch = strangers.take(min(_PER_PASS, self._left))
        self._left -= len(batch)
        if self._left <= 0:
            self._loop.remove_reader(strangers.fileno())
            self._pause = self._loop.call_at(self._window_ends_s, self._heed_strangers)
        if batch:
            self._on_strangers(batch)
