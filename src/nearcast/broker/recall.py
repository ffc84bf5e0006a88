"""What another broker of a topic misses: from the spool, as far as it is still there."""

from __future__ import annotations

from nearcast.broker.sequence_gate import Ranges
from nearcast.broker.topic_spool import TopicSpool
from nearcast.spool.changes import Position
from nearcast.wire.publication import Origin, Publication

__all__ = ["recall"]


def recall(
    spool: TopicSpool, publisher: str, epoch: int, missing: Ranges, reached: Position | None
) -> tuple[list[Publication], int]:
    """Return what is still spooled of missing messages, and the last one that is not, or 0.

    Parameters
    ----------
    reached
        How far the publisher has come here; what is beyond may still be spooled.
    """
    spooled = {
        message.sequence: message
        for message in spool.view()
        if message.publisher == publisher
        and message.epoch == epoch
        and message.origin is not Origin.ONCE
    }
    found = [
        message
        for sequence, message in spooled.items()
        if any(first <= sequence <= last for first, last in missing)
    ]
    gone = 0
    if reached is not None and reached.epoch == epoch:
        for first, last in missing:
            sequence = min(last, reached.sequence)
            while sequence in spooled:
                sequence -= 1
            if sequence >= first:
                gone = max(gone, sequence)
    return found, gone
