"""Notifications between their arrival and the application: a bounded queue."""

from __future__ import annotations

import asyncio
from collections import deque

from nearcast.errors import ConfigError
from nearcast.sdk.notification import Notification
from nearcast.sdk.outcome import Outcome

__all__ = ["Mailbox"]


class Mailbox:
    """Keeps the newest notifications; what does not fit is dropped and counted."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ConfigError(f"notification_limit must be 1 or more, not {limit}")
        self._limit = limit
        self._kept: deque[Notification] = deque()
        self._changed: Outcome[None] = Outcome()
        self._is_closed = False
        self.dropped = 0

    def put(self, notification: Notification) -> None:
        """Keep a notification."""
        if len(self._kept) >= self._limit:
            self._kept.popleft()
            self.dropped += 1
        self._kept.append(notification)
        self._tell()

    async def take(self, timeout_s: float | None) -> Notification | None:
        """Return the oldest; None after the timeout, or when closed and empty."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._kept and not self._is_closed:
                    await self._changed
        except TimeoutError:
            return None
        return self._kept.popleft() if self._kept else None

    def close(self) -> None:
        """Take no more; who waits gets the rest."""
        self._is_closed = True
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, Outcome()
        changed.resolve(None)
