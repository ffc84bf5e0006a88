"""The order in which a topic's messages are processed when some are more urgent than others."""

from __future__ import annotations

from collections import deque

from nearcast.spool.changes import Position
from nearcast.wire.publication import Publication

__all__ = ["put_urgent_first"]


def put_urgent_first(steps: deque[Publication | Position]) -> None:
    """Put what is urgent before the rest, and each publisher's messages in the order they had.

    A message is as urgent as the most urgent one of its publisher behind it, which would have to
    wait for it. Messages of the same urgency stay in order.
    """
    needed: dict[str, int] = {}
    ranked = []
    for step in reversed(steps):
        own = step.urgency if type(step) is Publication else 0
        needed[step.publisher] = urgency = max(own, needed.get(step.publisher, 0))
        ranked.append((-urgency, step))
    ranked.reverse()
    ranked.sort(key=lambda pair: pair[0])
    steps.clear()
    steps.extend(step for _, step in ranked)
