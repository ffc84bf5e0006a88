"""Notifications of one client for several programs, each with a bounded queue of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator

from nearcast.errors import ConfigError, FilterError
from nearcast.sdk.client import Client
from nearcast.trust.topic_pattern import matches
from nearcast.wire.notification import Notification
from nearcast.wire.terms import expression_of

__all__ = ["LocalQueue", "LocalStreams"]

_QUEUE_LIMIT = 1_000
"""Notifications that wait for one program; the oldest are dropped and counted."""


class LocalQueue:
    """What waits for one program, which wants a topic or pattern, and maybe a part of it only."""

    def __init__(self, topic: str, where: str = "", limit: int = _QUEUE_LIMIT) -> None:
        self.topic, self.where, self._limit = topic, where, limit
        self._filter = expression_of(where) if where else None
        self._waiting: deque[Notification] = deque()
        self._dropped = 0
        self._has_some = asyncio.Event()

    def wants(self, notification: Notification) -> bool:
        """Tell whether the program asked for a notification."""
        if not matches(self.topic, notification.topic):
            return False
        return self._filter is None or self._filter.matches(notification.attributes)

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
                if queue.wants(notification):
                    queue.put(notification)

    @contextlib.asynccontextmanager
    async def subscribed(
        self, topic: str, timeout_s: float, where: str = ""
    ) -> AsyncIterator[LocalQueue]:
        """Subscribe for the block, together with other programs that want the topic.

        The server is asked for what any of them wants, and each gets what it wants itself.
        """
        if not topic:
            raise ConfigError("the topic is empty")
        queue = LocalQueue(topic, where)
        self._queues.append(queue)
        self._wanted[topic] += 1
        try:
            await self._client.subscribe(topic, where=self._where(topic), timeout_s=timeout_s)
            yield queue
        finally:
            self._queues.remove(queue)
            self._wanted[topic] -= 1
            if self._client.is_connected:
                with contextlib.suppress(Exception):
                    if not self._wanted[topic]:
                        await self._client.unsubscribe(topic, timeout_s=timeout_s)
                    elif where:
                        narrower = self._where(topic)
                        await self._client.subscribe(topic, where=narrower, timeout_s=timeout_s)

    def _where(self, topic: str) -> str:
        """Return a filter for all that any program wants of a topic; empty: all of it."""
        asked = dict.fromkeys(one.where for one in self._queues if one.topic == topic)
        if "" in asked or len(asked) == 1:
            return "" if "" in asked else next(iter(asked))
        joined = " or ".join(f"({one})" for one in asked)
        try:
            expression_of(joined)
        except FilterError:  # too many comparisons for one filter
            return ""
        return joined
