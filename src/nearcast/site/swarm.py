"""Many clients in one process: connect, subscribe, publish on a schedule, note what arrives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nearcast.domain.scenario import Scenario
from nearcast.errors import NearcastError
from nearcast.links.garbage import freeze_gc
from nearcast.links.steady_clock import steady_now
from nearcast.sdk import Notification
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import Credentials

__all__ = [
    "Arrival",
    "Swarm",
    "SwarmResult",
    "expected_arrivals",
    "memberships",
]

_CONNECTS_AT_ONCE = 64
OnCount = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A notification and who got it."""

    client: str
    notification: Notification


@dataclass(frozen=True, slots=True)
class Membership:
    """What a client does in a topic."""

    topic: str
    client: str
    publishes: bool
    subscribes: bool


@dataclass(slots=True)
class SwarmResult:
    """What became of a schedule."""

    arrivals: list[Arrival] = field(default_factory=list)
    published: int = 0
    acknowledged: int = 0
    expected: int = 0
    """Notifications that must have arrived."""
    own_delay_ms: float = 0.0
    """How late the clients' process woke up on average: it is part of every measured delay."""


def memberships(scenario: Scenario) -> list[Membership]:
    """Return who takes part in what, by names."""
    members = scenario.members
    topics = [str(one) for one in scenario.topics.ids.to_pylist()]
    clients = [str(one) for one in scenario.clients.ids.to_pylist()]
    return [
        Membership(
            topics[members.topic[row]],
            clients[members.client[row]],
            bool(members.publishes[row]),
            bool(members.subscribes[row]),
        )
        for row in range(len(members))
    ]


def expected_arrivals(members: Iterable[Membership], rounds: int) -> int:
    """Return how many notifications follow when each publisher publishes `rounds` times.

    That is for a processor that forwards: each subscriber but the publisher hears of it.
    """
    rows = list(members)
    subscribers: dict[str, set[str]] = {}
    for one in rows:
        if one.subscribes:
            subscribers.setdefault(one.topic, set()).add(one.client)
    return rounds * sum(
        len(subscribers.get(one.topic, set()) - {one.client}) for one in rows if one.publishes
    )


class Swarm:
    """Clients that act together; use it with ``async with``."""

    def __init__(self, credentials: Mapping[str, Credentials]) -> None:
        self._clients = {name: Client(one, timeout_s=60.0) for name, one in credentials.items()}
        self._arrivals: list[Arrival] = []
        self._on_arrival: Callable[[], None] = lambda: None
        for name, client in self._clients.items():
            client.on_notification(self._note(name))

    def _note(self, name: str) -> Callable[[Notification], None]:
        def note(notification: Notification) -> None:
            self._arrivals.append(Arrival(name, notification))
            self._on_arrival()

        return note

    async def __aenter__(self) -> Swarm:
        return self

    async def __aexit__(self, *_: object) -> None:
        closing = (client.close(timeout_s=2.0) for client in self._clients.values())
        await asyncio.gather(*closing, return_exceptions=True)

    def client(self, name: str) -> Client:
        """Return one of them."""
        return self._clients[name]

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """What has arrived since the clients last began to publish by `publish`."""
        return self._arrivals

    async def connect(self, on_count: OnCount = lambda count: None) -> None:
        """Open all sessions, some at a time."""
        gate, done = asyncio.Semaphore(_CONNECTS_AT_ONCE), 0

        async def connect(client: Client) -> None:
            nonlocal done
            async with gate:
                client.start()
                await client.wait_connected()
            done += 1
            on_count(done)

        await _all(connect(client) for client in self._clients.values())

    async def subscribe(
        self, members: Iterable[Membership], on_count: OnCount = lambda count: None
    ) -> None:
        """Subscribe all that subscribe, and wait until their homes have said yes."""
        done = 0

        async def subscribe(one: Membership) -> None:
            nonlocal done
            await self._clients[one.client].subscribe(one.topic)
            done += 1
            on_count(done)

        await _all(subscribe(one) for one in members if one.subscribes)

    async def publish(
        self,
        members: Sequence[Membership],
        *,
        rounds: int,
        rate_hz: float,
        payload: Callable[[Membership, int], bytes],
        settle_s: float,
        seed: int = 0,
        durable: bool = True,
        on_count: OnCount = lambda count: None,
    ) -> SwarmResult:
        """Have every publisher publish `rounds` times, in random order, at a total rate.

        Parameters
        ----------
        settle_s
            How long to wait for the last notifications, at most.
        """
        turns = [(one, at) for at in range(rounds) for one in members if one.publishes]
        chance = random.Random(seed)
        for start in range(0, len(turns), max(1, len(turns) // rounds)):
            part = turns[start : start + len(turns) // rounds]
            chance.shuffle(part)
            turns[start : start + len(part)] = part
        result = SwarmResult(expected=expected_arrivals(members, rounds))
        receipts = []
        self._arrivals.clear()
        freeze_gc()
        started_s = steady_now()
        for number, (one, at) in enumerate(turns):
            due_s = started_s + number / rate_hz
            wait_s = due_s - steady_now()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            client = self._clients[one.client]
            receipts.append(await client.publish(one.topic, payload(one, at), durable=durable))
            on_count(number + 1)
        result.published = len(turns)
        await self._settle(result.expected, settle_s)
        for receipt in receipts:
            if not durable:
                break
            try:
                async with asyncio.timeout(settle_s):
                    await receipt
                result.acknowledged += 1
            except TimeoutError:
                break
        result.arrivals = list(self._arrivals)
        return result

    async def _settle(self, expected: int, settle_s: float) -> None:
        complete = asyncio.Event()

        def check() -> None:
            if len(self._arrivals) >= expected:
                complete.set()

        self._on_arrival = check
        check()
        try:
            async with asyncio.timeout(settle_s):
                await complete.wait()
        except TimeoutError:
            pass
        finally:
            self._on_arrival = lambda: None


async def _all(work: Iterable[object]) -> None:
    """Run everything; NearcastError of the first that failed."""
    results = await asyncio.gather(*work, return_exceptions=True)  # type: ignore[call-overload]
    for result in results:
        if isinstance(result, BaseException):
            raise NearcastError(str(result)) if not isinstance(result, NearcastError) else result
