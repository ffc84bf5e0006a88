"""What a component says to clients: publications of its output topic, counted without gaps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from nearcast.spool.changes import LiveTopic, TopicChange
from nearcast.wire.publication import Publication, decode_record

__all__ = ["Outputs"]


class Outputs:
    """Publications of an instance that the topic's broker does not have yet.

    Parameters
    ----------
    name
        Of the pseudo-topic.
    live
        What the log has of it.
    publisher, epoch
        Of all publications.
    """

    def __init__(
        self, name: str, topic: str, publisher: str, epoch: int, limit: int, live: LiveTopic
    ) -> None:
        self.name, self.topic, self.publisher = name, topic, publisher
        self._epoch, self._limit = epoch, limit
        self._waiting = deque(decode_record(topic, record) for record in live.records)
        self._unsent = deque(self._waiting)
        self._fresh: list[Publication] = []
        self._trimmed = 0
        self.last = msgspec.msgpack.decode(live.state, type=int) if live.state else 0
        """The last sequence that was given."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the instance has to wait."""
        return len(self._waiting) >= self._limit

    def append(self, payload: bytes, cause: Publication) -> Publication:
        """Return the publication that a message of the component's input caused."""
        self.last += 1
        made = Publication(
            self.topic,
            self.publisher,
            self._epoch,
            self.last,
            cause.published_us,
            cause.received_us,
            cause.x_km,
            cause.y_km,
            payload,
        )
        self._waiting.append(made)
        self._fresh.append(made)
        return made

    def has_change(self, trims: int) -> bool:
        """Tell whether there are publications to store, or `trims` to discard."""
        return bool(self._fresh) or self._trimmed >= trims

    def take_change(self) -> tuple[TopicChange, list[Publication]]:
        """Return what is to be stored now, and what may be sent then: see `on_durable`."""
        fresh, self._fresh, self._trimmed = self._fresh, [], 0
        records = tuple(one.record() for one in fresh)
        state = msgspec.msgpack.encode(self.last)
        return TopicChange(self.name, records, len(self._waiting), state=state), fresh

    def on_durable(self, publications: list[Publication]) -> None:
        """Let stored publications be sent."""
        self._unsent.extend(publications)

    def take_unsent(self) -> Iterator[Publication]:
        """Return what has to be given to the router, in order."""
        while self._unsent:
            yield self._unsent.popleft()

    def on_published(self, epoch: int, through: int) -> None:
        """Drop what its broker has."""
        while epoch == self._epoch and self._waiting and self._waiting[0].sequence <= through:
            self._waiting.popleft()
            self._trimmed += 1
