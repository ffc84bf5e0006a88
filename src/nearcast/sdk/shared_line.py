"""One delay line for all clients of a loop: each costs a file descriptor, clients are many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nearcast.links.delay_line import DelayLine

__all__ = ["Held", "borrow_line", "return_line"]

Held = tuple[Callable[[list[Any]], None], Any]
"""Who takes the item when it is due, with all others of the moment; and the item."""


@dataclass(slots=True)
class _Share:
    line: DelayLine[Held]
    users: set[object] = field(default_factory=set)


_SHARES: dict[asyncio.AbstractEventLoop, _Share] = {}


def borrow_line(loop: asyncio.AbstractEventLoop, user: object) -> DelayLine[Held]:
    """Return the loop's line; it is closed when its last user returns it."""
    share = _SHARES.get(loop)
    if share is None:
        share = _SHARES[loop] = _Share(DelayLine(loop, _hand_over))
    share.users.add(user)
    return share.line


def return_line(loop: asyncio.AbstractEventLoop, user: object) -> None:
    """Give the line back; calling it twice or without a line does no harm."""
    share = _SHARES.get(loop)
    if share is None:
        return
    share.users.discard(user)
    if not share.users:
        share.line.close()
        del _SHARES[loop]


def _hand_over(held: list[Held]) -> None:
    """Give each taker its items in one go."""
    by_taker: dict[Callable[[list[Any]], None], list[Any]] = {}
    for take, item in held:
        by_taker.setdefault(take, []).append(item)
    for take, items in by_taker.items():
        take(items)
