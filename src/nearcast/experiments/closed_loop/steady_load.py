"""All publishers of a site publish by turns, all the time; who heard what, and how soon."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from nearcast.sdk import Receipt
from nearcast.site.swarm import Arrival, Membership, Swarm

__all__ = ["LoadCounts", "SteadyLoad", "run_steady_load"]

_SETTLE_S = 20.0
_BYTES = 120
_LOOK_S = 0.1
_MOST_LATE_S = 0.1
"""A process that was held up does not send all at once what it missed."""


class _Sent(NamedTuple):
    at_s: float
    topic: str
    publisher: str


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """What became of all messages."""

    published: int
    acknowledged: int
    expected: int
    """Notifications: each subscriber of a topic but the publisher hears of each message."""
    lost: int
    doubled: int
    """Heard twice and not marked as a copy."""


class SteadyLoad:
    """A load on a swarm of clients that have subscribed; times are Unix time."""

    def __init__(
        self, swarm: Swarm, members: Sequence[Membership], rate_hz: float, seed: int
    ) -> None:
        self._swarm, self._rng = swarm, random.Random(seed)
        self._turns = [one for one in members if one.publishes]
        self._step_s = 1 / rate_hz
        self.turn_s = len(self._turns) * self._step_s
        """Until each publisher has had its turn."""
        self._hearers: dict[str, set[str]] = defaultdict(set)
        for one in members:
            if one.subscribes:
                self._hearers[one.topic].add(one.client)
        self._sent: list[_Sent] = []
        self._receipts: list[Receipt] = []
        self._first = len(swarm.arrivals)

    async def publish(self) -> None:
        """Publish until cancelled."""
        due_s = time.monotonic()
        while True:
            self._rng.shuffle(self._turns)
            for one in self._turns:
                due_s = max(due_s + self._step_s, time.monotonic() - _MOST_LATE_S)
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                number = len(self._sent)
                self._sent.append(_Sent(time.time(), one.topic, one.client))
                client = self._swarm.client(one.client)
                self._receipts.append(await client.publish(one.topic, f"{number:<{_BYTES}}"))

    async def settle(self) -> LoadCounts:
        """Wait for what is under way; return what became of all that was sent."""
        acknowledged = 0
        try:
            async with asyncio.timeout(_SETTLE_S):
                for receipt in self._receipts:
                    await receipt
                    acknowledged += 1
                while self._count(acknowledged).lost:  # noqa: ASYNC110 - counts, not events
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            pass  # the counts tell
        return self._count(acknowledged)

    def mean_ms(self, since_s: float, until_s: float) -> float:
        """Return the mean delay of messages sent in a span, each the mean over its subscribers."""
        return _mean([ms for at_s, ms in self._delays() if since_s <= at_s < until_s])

    def by_second(self) -> list[tuple[float, float]]:
        """Return the mean delay of the messages sent in each second: when it began, and ms."""
        seconds: dict[int, list[float]] = defaultdict(list)
        for at_s, ms in self._delays():
            seconds[int(at_s)].append(ms)
        return [(float(at_s), _mean(seconds[at_s])) for at_s in sorted(seconds)]

    def _delays(self) -> list[tuple[float, float]]:
        """Return of each message that was heard: when it was sent, and its mean delay."""
        first: dict[tuple[int, str], float] = {}
        for number, one in self._heard():  # a new home may tell something once more, as a copy
            first.setdefault((number, one.client), one.notification.total_ms or 0.0)
        each: dict[int, list[float]] = defaultdict(list)
        for (number, _), delay_ms in first.items():
            each[number].append(delay_ms)
        return [(self._sent[number].at_s, _mean(some)) for number, some in each.items()]

    def _heard(self) -> list[tuple[int, Arrival]]:
        """Return what came of this load; something that was sent before it may come late."""
        found = []
        for one in self._swarm.arrivals[self._first :]:
            number = one.notification.payload.strip()
            if number.isdigit():
                found.append((int(number), one))
        return found

    def _count(self, acknowledged: int) -> LoadCounts:
        heard: Counter[tuple[int, str]] = Counter()
        copies: set[tuple[int, str]] = set()
        for number, one in self._heard():
            if one.notification.is_copy:  # it says itself that it may be a second one
                copies.add((number, one.client))
            else:
                heard[number, one.client] += 1
        expected = {
            (number, client)
            for number, sent in enumerate(self._sent)
            for client in self._hearers[sent.topic] - {sent.publisher}
        }
        return LoadCounts(
            published=len(self._sent),
            acknowledged=acknowledged,
            expected=len(expected),
            lost=len(expected - heard.keys() - copies),
            doubled=sum(count - 1 for count in heard.values()),
        )


@asynccontextmanager
async def run_steady_load(load: SteadyLoad) -> AsyncIterator[None]:
    """Publish inside the block."""
    publishing = asyncio.create_task(load.publish())
    try:
        yield
        if publishing.done():
            publishing.result()  # complains
    finally:
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)


def _mean(some: Sequence[float]) -> float:
    return sum(some) / len(some) if some else float("nan")
