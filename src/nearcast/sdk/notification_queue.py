"""Notifications between their arrival and the application: a bounded queue."""

from __future__ import annotations

import asyncio
from collections import deque

from nearcast.errors import ConfigError
from nearcast.sdk.outcome import Outcome
from nearcast.wire.notification import Notification

__all__ = ["NotificationQueue"]


class NotificationQueue:
    """Keeps the newest notifications; what does not fit is dropped and counted."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ConfigError(f"notification_limit must be 1 or more, not {limit}")
        self._kept: deque[Notification] = deque(maxlen=limit)
        self._changed: Outcome[None] | None = None
        """Made by the first who waits."""
        self._is_closed = False
        self.dropped = 0

    def put(self, notification: Notification) -> None:
        """Keep a notification."""
        if len(self._kept) == self._kept.maxlen:
            self.dropped += 1
        self._kept.append(notification)
        if self._changed is not None:
            self._wake()

    def take_now(self) -> Notification | None:
        """Return the oldest, or None when there is no notification; any thread may call it."""
        try:
            return self._kept.popleft()
        except IndexError:
            return None

    async def take(self, timeout_s: float | None) -> Notification | None:
        """Return the oldest; None after the timeout, or when closed and empty."""
        if timeout_s is None:
            return await self._next()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._next()
        except TimeoutError:
            return None

    async def _next(self) -> Notification | None:
        """Return the oldest; None when closed and empty."""
        while (notification := self.take_now()) is None and not self._is_closed:
            if self._changed is None:
                self._changed = Outcome()
            await self._changed
        return notification

    def close(self) -> None:
        """Take no more; who waits gets the rest."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.resolve(None)
