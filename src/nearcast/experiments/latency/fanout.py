"""One message to many subscribers: how long the last one waits, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.experiments.latency.target import ask_worker

__all__ = ["GOAL_SUBSCRIBERS", "GOAL_US", "FanoutPoint", "run"]

GOAL_SUBSCRIBERS = 1_000
GOAL_US = 8.0
"""CPU time of the server per notification, at so many subscribers."""


@dataclass(frozen=True, slots=True)
class FanoutPoint:
    """Medians over messages that were sent one after the other."""

    subscribers: int
    messages: int
    first_ms: float
    """Until the first subscriber had it."""
    last_ms: float
    """Until the last one had it."""
    lost: int
    cpu_us_per_notification: float
    """Of all server processes, receipts included."""
    load_cpu_us_per_notification: float


def run(
    subscribers: Sequence[int],
    *,
    messages: int = 30,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[FanoutPoint]:
    """Measure each number of subscribers on one edge server."""
    begin("starting the server")
    with run_nearcast(publishers=1, subscribers=max(subscribers), topics=1) as server:
        for count in subscribers:
            begin(f"{count:,} subscribers")
            question = {
                "publishers": [str(one) for one in server.publishers],
                "subscribers": [str(one) for one in server.subscribers[:count]],
                "messages": messages,
                "pids": server.pids,
            }
            found = ask_worker("fanout_worker", question)
            yield FanoutPoint(count, messages, **found)
