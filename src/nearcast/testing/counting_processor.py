"""A processor that counts how often each message took effect; its state is the proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from nearcast.broker.notifications import Notification
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = ["COUNTING", "CountingProcessor", "read_effects"]

COUNTING = "nearcast.testing.counting_processor:CountingProcessor"
"""Its name in rules and orders."""


def read_effects(state: bytes | None) -> Counter[str]:
    """Return how often each payload took effect, as a state says."""
    return (
        Counter() if state is None else Counter(msgspec.msgpack.decode(state, type=dict[str, int]))
    )


class CountingProcessor:
    """Counts messages by payload, which must be text, and forwards them."""

    def __init__(self) -> None:
        self._effects: Counter[str] = Counter()

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Count the messages of a batch and notify all subscribers of each."""
        for message in batch:
            self._effects[message.payload.decode()] += 1
            yield Notification(message.payload, cause=message)

    def state(self) -> bytes:
        """Return the counts."""
        return msgspec.msgpack.encode(self._effects)

    def restore(self, state: bytes) -> None:
        """Go on from earlier counts."""
        self._effects = read_effects(state)

    def merge(self, state: bytes) -> None:
        """Add what was counted on another server."""
        self._effects += read_effects(state)
