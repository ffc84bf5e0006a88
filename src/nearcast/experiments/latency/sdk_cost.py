"""What a program with one client of the SDK pays for each notification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.experiments.latency.target import ask_worker

__all__ = ["GOAL_US", "SdkPoint", "run"]

GOAL_US = {1_000: 41.5, 5_000: 26.0}
"""By rate: half of what it was, 83 to 52 us."""


@dataclass(frozen=True, slots=True)
class SdkPoint:
    """Notifications at one rate."""

    rate: int
    """Notifications per second."""
    sent: int
    lost: int
    cpu_us_per_notification: float
    """Of the receiving process, its event loop and receipts included."""
    bound_cpu_us_per_notification: float
    """Of a process that takes as many datagrams from asyncio and does nothing with them."""


def run(
    rates_hz: Sequence[int],
    *,
    seconds: float,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[SdkPoint]:
    """Measure each rate with a receiving process of its own."""
    begin("starting the server")
    with run_nearcast(subscribers=1) as server:
        for rate_hz in rates_hz:
            begin(f"{rate_hz:,} notifications/s")
            question = {
                "publishers": [str(one) for one in server.publishers],
                "subscriber": str(server.subscribers[0]),
                "rate_hz": rate_hz,
                "messages": max(1, round(rate_hz * seconds)),
            }
            yield SdkPoint(rate_hz, **ask_worker("sdk_worker", question))
