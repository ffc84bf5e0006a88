"""Batches for a processor that runs elsewhere, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from nearcast.broker.messages import Message
from nearcast.broker.notifications import Notification
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import SpoolView

__all__ = ["Ending", "Failure", "ProcessRequest", "ProcessResult"]


class ProcessRequest(msgspec.Struct, frozen=True):
    """A batch to be processed outside the server's loop; a topic has one at a time.

    Exactly one `ProcessResult` is due for each request that is not `ended`. Until it is in, the
    topic's spool does not change, so the host may read `spool` as late as it likes.
    """

    settings: TopicSettings
    """Of the topic: processor, options and spool size are what its host needs."""
    request: int
    """Its name, never used twice by a broker."""
    batch: tuple[Message, ...]
    spool: SpoolView
    """The spool before the batch."""
    state: bytes | None
    """The processor's last good state; a host that has none of this topic begins from it."""
    first: bool = False
    """A processor that the host may still have of this topic is out of date."""
    ended: bool = False
    """The topic is no longer managed here: forget its processor; there is no batch."""

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


class Failure(msgspec.Struct, frozen=True):
    """Something that a processor could not do."""

    detail: str
    message: Message | None = None
    """The message of the batch that it failed at; None: loading, saving or restoring its state."""


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
