"""The seam for users' code: a message processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from nearcast.broker.notifications import Notification
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = [
    "MergingProcessor",
    "Processor",
    "ProcessorWatch",
    "SplittingProcessor",
    "StatefulProcessor",
]


class Processor(Protocol):
    """Turns a topic's messages into notifications; one object per topic and broker.

    What it derives from the spool alone it need not save: after a restart the spool is there and
    ``spool.since(0)`` brings it back.
    """

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterable[Notification]:
        """Return the notifications that a batch causes.

        The batch is the end of the spool already; between two batches the spool may have got
        copies from other brokers, which are there to be looked at. The broker calls it once for
        each batch. When it raises, its state is restored and the messages come again one by one.
        """
        ...


@runtime_checkable
class StatefulProcessor(Processor, Protocol):
    """A processor whose state outlives a restart.

    The state is written with each batch that changes it, in one piece with the batch: so a message
    has its effect once. Keep it small.
    """

    def state(self) -> bytes:
        """Return all that `restore` needs; called after each batch."""
        ...

    def restore(self, state: bytes) -> None:
        """Become what `state` said, forgetting everything else; may be called at any time."""
        ...


@runtime_checkable
class MergingProcessor(StatefulProcessor, Protocol):
    """One that can go on from two states: when a plan brings two brokers' topics together."""

    def merge(self, state: bytes) -> None:
        """Become what this processor and one with `state` would be together."""
        ...


@runtime_checkable
class SplittingProcessor(MergingProcessor, Protocol):
    """One that keeps its state by content id: a part of it can move to another server."""

    def split(self, goes: Callable[[str], bool]) -> bytes:
        """Return the state of all content ids that go, and forget it; keep the rest."""
        ...


class ProcessorWatch(Protocol):
    """Is told when a processor runs in the server's loop: one that never returns hangs it."""

    def enter(self, topic: str, processor: str = "") -> None:
        """Note that a processor begins."""

    def leave(self) -> None:
        """Note that it has returned."""
