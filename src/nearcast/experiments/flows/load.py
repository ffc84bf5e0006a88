"""Publishers of a flow's source at a steady rate, one hearer of what comes out, and the check."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from nearcast.experiments.flows.flow_site import HEARER, OUTPUT, PUBLISHERS, SOURCE, FlowSite
from nearcast.links.garbage import without_gc
from nearcast.links.steady_clock import steady_now
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import load_credentials
from nearcast.sdk.failures import ClientError
from nearcast.wire.notification import Notification

__all__ = ["Findings", "Heard", "Load", "check", "drive"]

_STEP_S = 0.005
_DRAIN_S = 300.0
_QUIET_S = 10.0


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that came out of the flow."""

    publisher: str
    number: int
    key: str
    count: int
    at_s: float
    server: str = ""
    """That made it."""


@dataclass(slots=True)
class Load:
    """What was published and heard; times are seconds of one clock."""

    sent_s: dict[tuple[str, int], float] = field(default_factory=dict)
    keys: dict[tuple[str, int], str] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    acknowledged: int = 0

    def delays_s(self, since_s: float, until_s: float, keys: Collection[str]) -> list[float]:
        """Return the delays of messages with these keys that were sent in a time."""
        sent = self.sent_s
        return [
            one.at_s - at
            for one in self.heard
            if since_s <= (at := sent[one.publisher, one.number]) < until_s and one.key in keys
        ]


@dataclass(frozen=True, slots=True)
class Findings:
    """What should not be; all 0 when all is well."""

    lost: int
    """Messages of which nothing shows that they were processed."""
    untold: int
    """Messages that were counted, as later counts show, but did not come out here."""
    doubled: int
    """Messages that came out twice, or that were counted twice."""
    out_of_order: int
    """Messages that were processed before an earlier one of their publisher and key, as the counts
    of the key show."""
    told_late: int
    """Messages that were heard after a later one of their publisher and key: two servers that had
    the key tell what they made of it each for itself, and one may be away meanwhile."""


def check(load: Load) -> Findings:
    """Compare what came out with what was published, one by one."""
    came = Counter((one.publisher, one.number) for one in load.heard)
    missing = sum(1 for one in load.sent_s if one not in came)
    untold = 0
    doubled = sum(often - 1 for often in came.values())
    per_key = Counter(load.keys[one] for one in came)
    counts: dict[str, list[int]] = {}
    for one in load.heard:
        if one.count:
            counts.setdefault(one.key, []).append(one.count)
    for key, told in counts.items():
        # each count once, from 1 on: a state at two places, or lost, would repeat some
        doubled += len(told) - len(set(told)) + abs(len(told) - per_key[key])
        untold += max(told) - len(set(told))
    out_of_order = _count_inversions(sorted(load.heard, key=lambda one: one.count))
    told_late = _count_inversions(load.heard)
    return Findings(max(0, missing - untold), untold, doubled, out_of_order, told_late)


def _count_inversions(messages: Iterable[Heard]) -> int:
    """Return how many messages follow a later one of their publisher and key."""
    count = 0
    last: dict[tuple[str, str], int] = {}
    for one in messages:
        stream = (one.publisher, one.key)
        count += one.number < last.get(stream, -1)
        last[stream] = max(one.number, last.get(stream, -1))
    return count


async def drive(
    site: FlowSite,
    rate_hz: float,
    keys: int,
    meanwhile: Callable[[Load], Coroutine[Any, Any, None]],
) -> Load:
    """Publish until something is done, and wait for all that comes out."""
    load = Load()
    folder = site.live.site
    clients = {
        name: Client(load_credentials(folder.credentials_file(name)))
        for name in (*PUBLISHERS, HEARER)
    }

    def hear(one: Notification) -> None:
        body = json.loads(one.payload)
        told = body.get("count", 0)
        server = one.publisher.rpartition("@")[2]
        load.heard.append(Heard(body["p"], body["n"], body["key"], told, steady_now(), server))

    clients[HEARER].on_notification(hear)
    try:
        for client in clients.values():
            client.start()
            await client.wait_connected()
        await clients[HEARER].subscribe(OUTPUT)
        doing = asyncio.ensure_future(meanwhile(load))
        with without_gc():  # a search among all that is noted here takes up to 0.2 s
            receipts = await _publish(load, clients, rate_hz, keys, doing)
            await doing
            await _drain(load)
        load.acknowledged = sum(one.done() and one.result() for one in receipts)
    finally:
        await asyncio.gather(
            *(one.close(timeout_s=2.0) for one in clients.values()), return_exceptions=True
        )
    return load


async def _publish(
    load: Load,
    clients: dict[str, Client],
    rate_hz: float,
    keys: int,
    until: asyncio.Future[None],
) -> list[asyncio.Future[bool]]:
    receipts: list[asyncio.Future[bool]] = []
    began_s = steady_now()
    for number in count():
        if until.done():
            break
        ahead_s = began_s + number / rate_hz - steady_now()
        if ahead_s > 0:
            await asyncio.sleep(max(ahead_s, _STEP_S))
        name, key = PUBLISHERS[number % len(PUBLISHERS)], f"k{number // 7 % keys}"
        body = json.dumps({"p": name, "n": number, "key": key, "pad": "x" * 100})
        load.sent_s[name, number], load.keys[name, number] = steady_now(), key
        receipt = await clients[name].publish(SOURCE, body.encode())
        receipts.append(asyncio.ensure_future(_is_acknowledged(receipt)))
    return receipts


async def _is_acknowledged(receipt: Awaitable[object]) -> bool:
    try:
        await receipt
    except ClientError:  # the client was closed
        return False
    return True


async def _drain(load: Load) -> None:
    """Wait until all came out, or nothing has for a while."""
    began_s = steady_now()
    while len(load.heard) < len(load.sent_s):
        last_s = load.heard[-1].at_s if load.heard else began_s
        if steady_now() > max(last_s, began_s) + _QUIET_S or steady_now() > began_s + _DRAIN_S:
            return
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)  # what comes twice comes late
