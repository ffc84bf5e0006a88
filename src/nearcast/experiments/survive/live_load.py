"""Clients that publish all the time and note what was acknowledged and what was heard."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from nearcast.experiments.survive.live_trial import PUBLISHERS, SUBSCRIBERS, TOPICS
from nearcast.sdk import Client, Credentials, Notification, Receipt

__all__ = ["LiveLoad", "run_load"]

_IN_FLIGHT = 200
_TICK_S = 0.01
_END_WITHIN_S = 60.0


@dataclass(slots=True)
class LiveLoad:
    """What clients did and heard; a message is known by its payload."""

    attempted: int = 0
    acknowledged: set[str] = field(default_factory=set)
    acknowledged_s: dict[str, float] = field(default_factory=dict)
    """When that was heard, by the machine's clock."""
    unknown: int = 0
    """Publications whose receipt failed: they may be there or not."""
    heard: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in SUBSCRIBERS}
    )
    is_over: bool = False

    def hear(self, name: str, notification: Notification) -> None:
        """Count a notification; one that says to be a copy may be a second one."""
        if not notification.is_copy:
            self.heard[name][notification.text] += 1

    @property
    def unheard(self) -> int:
        """Acknowledged messages that some subscriber has not heard, one for each of these."""
        return sum(len(self.acknowledged - one.keys()) for one in self.heard.values())


@asynccontextmanager
async def run_load(credentials: dict[str, Credentials]) -> AsyncIterator[LiveLoad]:
    """Publish inside the block; afterwards all receipts are in."""
    load = LiveLoad()
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(Client(one, timeout_s=60.0))
            for name, one in credentials.items()
        }
        for name in SUBSCRIBERS:
            clients[name].on_notification(partial(load.hear, name))
            for topic in TOPICS:
                await clients[name].subscribe(topic)
        publishing = [asyncio.create_task(_publish(clients[name], load)) for name in PUBLISHERS]
        try:
            yield load
            load.is_over = True
            async with asyncio.timeout(_END_WITHIN_S):
                await asyncio.gather(*publishing)
                while load.unheard:  # noqa: ASYNC110 - too costly for each notification
                    await asyncio.sleep(0.2)
        except TimeoutError:
            return  # the counts will tell
        finally:
            for task in publishing:
                task.cancel()


async def _publish(client: Client, load: LiveLoad) -> None:
    room = asyncio.Semaphore(_IN_FLIGHT)
    receipts: list[Receipt] = []

    def done(receipt: Receipt, payload: str) -> None:
        room.release()
        if receipt.error is None:
            load.acknowledged.add(payload)
            load.acknowledged_s[payload] = time.time()
        else:
            load.unknown += 1

    while not load.is_over:
        await room.acquire()
        payload = f"{client.name} {len(receipts)}"
        topic = TOPICS[len(receipts) % len(TOPICS)]
        receipt = await client.publish(topic, payload)
        load.attempted += 1
        receipts.append(receipt)
        receipt.when_done(partial(done, receipt, payload))
        await asyncio.sleep(_TICK_S)
    await asyncio.gather(*receipts, return_exceptions=True)
