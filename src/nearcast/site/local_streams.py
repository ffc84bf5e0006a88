"""Notifications of one client for several programs, each with a bounded queue of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator

from nearcast.errors import ConfigError
from nearcast.sdk.client import Client
from nearcast.trust.topic_pattern import matches
from nearcast.wire.notification import Notification

__all__ = ["LocalQueue", "LocalStreams"]

_QUEUE_LIMIT = 1_000
"""Notifications that wait for one program; the oldest are dropped and counted."""


class LocalQueue:
    """What waits for one program."""

    def __init__(self, topic: str, limit: int = _QUEUE_LIMIT) -> None:
        self.topic, self._limit = topic, limit
        self._waiting: deque[Notification] = deque()
        self._dropped = 0
        self._has_some = asyncio.Event()

    def put(self, notification: Notification) -> None:
        """Let a notification wait."""
        if len(self._waiting) >= self._limit:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(notification)
        self._has_some.set()

    async def get(self) -> tuple[Notification, int]:
        """Return the oldest one, and how many were dropped since the last one."""
        while not self._waiting:
            self._has_some.clear()
            await self._has_some.wait()
        dropped, self._dropped = self._dropped, 0
        return self._waiting.popleft(), dropped


class LocalStreams:
    """Who of the programs wants which topic."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queues: list[LocalQueue] = []
        self._wanted: Counter[str] = Counter()

    @property
    def topics(self) -> list[str]:
        """What is subscribed to for programs."""
        return sorted(+self._wanted)

    def start(self) -> None:
        """Take the client's notifications from now on."""
        self._task = asyncio.ensure_future(self._share())

    async def close(self) -> None:
        """Take no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _share(self) -> None:
        async for notification in self._client.notifications():
            for queue in self._queues:
                if matches(queue.topic, notification.topic):
                    queue.put(notification)

    @contextlib.asynccontextmanager
    async def subscribed(self, topic: str, timeout_s: float) -> AsyncIterator[LocalQueue]:
        """Subscribe for the block, together with other programs that want the same."""
        if not topic:
            raise ConfigError("the topic is empty")
        queue = LocalQueue(topic)
        self._queues.append(queue)
        self._wanted[topic] += 1
        try:
            await self._client.subscribe(topic, timeout_s=timeout_s)
            yield queue
        finally:
            self._queues.remove(queue)
            self._wanted[topic] -= 1
            if not self._wanted[topic] and self._client.is_connected:
                with contextlib.suppress(Exception):
                    await self._client.unsubscribe(topic, timeout_s=timeout_s)
