"""Messages of each class at a low rate, and how long each takes to its subscriber."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nearcast.experiments.percentiles import percentile
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import Credentials
from nearcast.wire.message_class import MessageClass

__all__ = ["Probe", "probe_classes"]

_LAST_S = 2.0
"""How long the last messages are waited for: twice what any class allows."""


@dataclass(slots=True)
class Probe:
    """What became of the messages of one class."""

    message_class: str
    deadline_ms: float
    sent: int = 0
    delays_ms: list[float] = field(default_factory=list)
    """Of those that arrived."""

    @property
    def share_in_time(self) -> float:
        """Share of all that were sent."""
        return sum(one <= self.deadline_ms for one in self.delays_ms) / max(1, self.sent)

    def at(self, share: float) -> float | None:
        """Return a percentile of the delays of those that arrived."""
        return percentile(self.delays_ms, share) if self.delays_ms else None


async def probe_classes(
    publisher: Credentials,
    subscriber: Credentials,
    classes: Mapping[str, MessageClass],
    *,
    seconds: float,
    interval_s: float,
    with_classes: bool,
    load: Callable[[], None] = lambda: None,
) -> Sequence[Probe]:
    """Publish a message of each class in turn; return what became of them.

    Parameters
    ----------
    with_classes
        Whether the messages name their class.
    load
        Called when all is ready; returns when other messages come too.
    """
    probes = {name: Probe(name, one.deadline_ms) for name, one in classes.items()}
    async with Client.connect(publisher) as sender, Client.connect(subscriber) as hearer:
        await hearer.subscribe("probe/#")
        listening = asyncio.ensure_future(_hear(hearer, probes))
        try:
            for name in probes:  # what is new at the server is made ready before it counts
                await sender.publish_and_wait(f"probe/{name}", b"0")
            await asyncio.to_thread(load)
            await _send(sender, probes, seconds, interval_s, with_classes)
            await asyncio.sleep(_LAST_S)
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
    return list(probes.values())


async def _hear(client: Client, probes: Mapping[str, Probe]) -> None:
    async for one in client.notifications():
        sent_ns = _sent_ns(one.payload)
        if sent_ns:
            took_ms = (time.monotonic_ns() - sent_ns) / 1e6
            probes[one.topic.removeprefix("probe/")].delays_ms.append(took_ms)


def _sent_ns(payload: bytes) -> int:
    """Return when a message was sent, also from behind what a processor made of it; 0: no probe."""
    digits = payload.partition(b" ")[0]
    return int(digits) if digits.isdigit() else 0


async def _send(
    client: Client,
    probes: Mapping[str, Probe],
    seconds: float,
    interval_s: float,
    with_classes: bool,
) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for name, probe in probes.items():
            said, sent_ns = name if with_classes else "", b"%d" % time.monotonic_ns()
            client.publish_now(f"probe/{name}", sent_ns, durable=False, message_class=said)
            probe.sent += 1
            await asyncio.sleep(interval_s / len(probes))
