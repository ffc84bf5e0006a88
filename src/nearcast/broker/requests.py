"""Batches for a processor that runs elsewhere, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from nearcast.broker.notifications import Notification
from nearcast.broker.topic_settings import TopicSettings
from nearcast.wire.publication import Publication

__all__ = ["Ending", "Failure", "MadeProcessor", "ProcessRequest", "ProcessResult"]


class ProcessRequest(msgspec.Struct, frozen=True):
    """A batch to be processed outside the server's loop.

    A topic may have several on their way; they are done in their order. Exactly one
    `ProcessResult` is due for each request that is not `ended`.
    """

    settings: TopicSettings
    """Of the topic: processor, options and spool size are what its host needs."""
    request: int
    """Its name, never used twice by a broker."""
    context: tuple[Publication, ...]
    """To be spooled before the batch, not processed; with `first` the whole spool so far."""
    batch: tuple[Publication, ...]
    state: bytes | None = None
    """The processor's last good state, from which one that is `first` begins."""
    first: bool = False
    """Make a new processor: one that the host may still have of this topic is out of date."""
    ended: bool = False
    """The topic is no longer managed here: forget its processor; there is no batch."""
    split: tuple[int, int] | None = None
    """Instead of a batch: take off the state of the content ids whose index is in this range."""
    merge: bytes | None = None
    """Instead of a batch: take this state in besides the own one."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.settings.topic


class Ending(StrEnum):
    """How a request ended."""

    DONE = "done"
    TIMED_OUT = "timed out"
    """It took too long, and its process was ended."""
    DIED = "died"
    """Its process died while it was at work."""
    CANCELLED = "cancelled"
    """It was not begun, because the process that has the topic's processor is gone: submit it
    again, as the `first`."""


class Failure(msgspec.Struct, frozen=True):
    """Something that a processor could not do."""

    detail: str
    """The error, and on further lines where it was raised."""
    message: Publication | None = None
    """What it failed at, of the batch; None: loading, saving or restoring its state."""


class MadeProcessor(msgspec.Struct, frozen=True, array_like=True):
    """What a host says of a processor that it was to make."""

    initial: bytes | None
    """The state of one that has processed nothing; None: it keeps none."""
    can_merge: bool
    can_split: bool
    problem: str = ""
    """Why there is none; empty: there is."""


class ProcessResult(msgspec.Struct, frozen=True):
    """What became of a request."""

    topic: str
    request: int
    notifications: Sequence[Notification] = ()
    """In order; each has one of the batch's messages as its cause."""
    state: bytes | None = None
    """The processor's new state; None when it did not change."""
    failures: Sequence[Failure] = ()
    elapsed_s: float = 0.0
    """How long the processor worked, waiting not included."""
    ending: Ending = Ending.DONE
    detail: str = ""
    """What there is to say about an ending other than done."""
    malformed: int = 0
    """Messages of the batch that the processor counted as unusable."""
    refused: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Messages of the batch that the processor could read and did not take, by its reason."""
    made: MadeProcessor | None = None
    """Of the first request."""
    part: bytes | None = None
    """The state that was taken off; None: that could not be done."""
