"""Groups of changes that are not durable yet, and what may happen once they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from nearcast.broker.actions import Actions, Copy
from nearcast.broker.settlement import Deferred
from nearcast.spool.changes import Group, TopicChange
from nearcast.wire.publication import Publication

__all__ = ["DeferredGroups", "Tap", "no_tap"]

Tap = Callable[[str, Sequence[Publication], int], Sequence[TopicChange]]
"""From a topic, what was processed of it and a group's ticket to what else the group stores."""


def no_tap(
    _topic: str, _publications: Sequence[Publication], _ticket: int
) -> tuple[TopicChange, ...]:
    """Store nothing besides."""
    return ()


class DeferredGroups:
    """Puts changes into groups and remembers what waits for each.

    Parameters
    ----------
    next_ticket
        Gives the names of groups.
    """

    def __init__(self, tap: Tap, next_ticket: Callable[[], int]) -> None:
        self._tap, self._next_ticket = tap, next_ticket
        self._last = 0
        self._waiting: dict[int, list[Deferred]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def store(self, deferred: Sequence[Deferred], actions: Actions) -> None:
        """Have what events changed stored, all in one group."""
        changed, changes = list[Deferred](), list[TopicChange]()
        for one in deferred:
            if one.change is not None:
                changes.append(one.change)
            if one.change is not None or one.processed:
                changed.append(one)
        if not changed:
            return
        ticket = self._next_ticket()
        for one in changed:
            if one.processed:
                changes += self._tap(one.processed[0].topic, one.processed, ticket)
        if changes:
            self._last, self._waiting[ticket] = ticket, changed
            actions.to_store = Group(ticket, tuple(changes))

    def take(self, tickets: Iterable[int]) -> Iterator[Deferred]:
        """Return what has waited for groups that are durable now."""
        for ticket in tickets:
            yield from self._waiting.pop(ticket, ())

    def put_off(self, copy: Copy) -> bool:
        """Let a copy wait until all is durable; False: all is."""
        last = self._waiting.get(self._last)
        if last is not None:
            last.append(Deferred(copies=[copy]))
        return last is not None
