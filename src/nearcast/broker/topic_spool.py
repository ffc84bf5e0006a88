"""A topic's recent messages: a ring that discards the oldest, and the view processors get."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from nearcast.errors import ConfigError
from nearcast.wire.publication import Origin, Publication

__all__ = ["SpoolView", "TopicSpool"]

_ONCE = Origin.ONCE


class TopicSpool:
    """The last messages of a topic.

    Parameters
    ----------
    capacity
        Messages that are kept, u_n of the papers.
    capacity_bytes
        Bytes of payload that are kept, None for no such limit; the newest message always stays.
    """

    def __init__(self, capacity: int, capacity_bytes: int | None = None) -> None:
        if capacity < 1 or (capacity_bytes is not None and capacity_bytes < 1):
            raise ConfigError("a spool must hold at least one message and one byte")
        self._capacity, self._capacity_bytes = capacity, capacity_bytes
        self._messages: deque[Publication] = deque()
        self.size_bytes = 0
        """Bytes of payload that are kept."""
        self.durable = 0
        """Messages that are kept and not only until a restart: those that a log has too."""
        self.total = 0
        """Messages ever spooled; the n-th has the number n - 1."""

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, message: Publication) -> None:
        """Spool a message and discard the oldest ones for which there is no room."""
        messages = self._messages
        messages.append(message)
        self.total += 1
        self.size_bytes += len(message.payload)
        self.durable += message.origin is not _ONCE
        while len(messages) > self._capacity or (
            self._capacity_bytes is not None
            and self.size_bytes > self._capacity_bytes
            and len(messages) > 1
        ):
            oldest = messages.popleft()
            self.size_bytes -= len(oldest.payload)
            self.durable -= oldest.origin is not _ONCE

    def view(self, end: int | None = None) -> SpoolView:
        """Return the messages before number `end`, all by default."""
        return SpoolView(self._messages, self.total, self.total if end is None else end)


class SpoolView(Sequence[Publication]):
    """What a processor sees of the spool, oldest first; good until the next message comes."""

    def __init__(self, messages: deque[Publication], total: int, end: int) -> None:
        self._messages = messages
        self._after = total - end
        self.end = end
        """Number of the message after the last one: how many there ever were."""

    def __len__(self) -> int:
        return max(0, len(self._messages) - self._after)

    def __iter__(self) -> Iterator[Publication]:
        return islice(self._messages, len(self))

    @overload
    def __getitem__(self, index: int) -> Publication: ...

    @overload
    def __getitem__(self, index: slice) -> list[Publication]: ...

    def __getitem__(self, index: int | slice) -> Publication | list[Publication]:
        """Return a message, or the messages of a slice."""
        if isinstance(index, slice):
            return list(self)[index]
        length = len(self)
        place = index + length if index < 0 else index
        if not 0 <= place < length:
            raise IndexError(index)
        return self._messages[place]

    def recent(self, count: int) -> list[Publication]:
        """Return the last `count` messages, fewer when it holds fewer."""
        count = max(0, min(count, len(self)))
        newest_first = islice(reversed(self._messages), self._after, self._after + count)
        return list(newest_first)[::-1]

    def since(self, number: int) -> list[Publication]:
        """Return the messages from number `number` on that are still there."""
        return self.recent(self.end - number)

    def until(self, end: int) -> SpoolView:
        """Return the view as it was when it ended before number `end`."""
        return SpoolView(self._messages, self.end + self._after, end)
