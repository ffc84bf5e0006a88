"""What another broker of a topic misses: from the spool, as far as it is still there.

Only what is durable here leaves the server: a copy says that a message has had its effect for good,
so a broker that has it lets nobody process the message again.
"""

from __future__ import annotations

from nearcast.broker.sequence_gate import Ranges, Stream
from nearcast.broker.topic_spool import TopicSpool
from nearcast.wire.publication import Origin, Publication

__all__ = ["is_durable", "recall"]


def is_durable(message: Publication, stream: Stream | None) -> bool:
    """Return whether no crash can undo a spooled message; `stream` is its publisher's."""
    if message.origin is Origin.ONCE:
        return False
    if stream is None:  # forgotten, which only those are that were durable
        return True
    return stream.durable is not None and (message.epoch, message.sequence) <= stream.durable[1:]


def recall(
    spool: TopicSpool, publisher: str, epoch: int, missing: Ranges, stream: Stream | None
) -> tuple[list[Publication], int]:
    """Return what is still spooled of missing messages, and the last one that is not, or 0.

    The asking broker gets the messages first, then is told to `advance`.

    Parameters
    ----------
    stream
        The publisher's; what is not durable of it comes as a copy when it is.
    """
    spooled = {
        message.sequence: message
        for message in spool.view()
        if message.publisher == publisher and message.epoch == epoch and is_durable(message, stream)
    }
    found = [
        message
        for sequence, message in spooled.items()
        if any(first <= sequence <= last for first, last in missing)
    ]
    gone = 0
    reached = stream.durable if stream is not None else None
    if reached is not None and reached.epoch == epoch:
        for first, last in missing:
            sequence = min(last, reached.sequence)
            while sequence in spooled:
                sequence -= 1
            if sequence >= first:
                gone = max(gone, sequence)
    return found, gone
