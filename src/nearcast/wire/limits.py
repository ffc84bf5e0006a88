"""How large a payload may be: what is accepted can be notified, whatever its numbers are.

A notification repeats its publication's topic and payload and adds the publisher's id, the
broker's id and times, so that it is the larger of the two. Client and server go by the same sum.
"""

from __future__ import annotations

from nearcast.errors import WireError
from nearcast.wire.codec import FRAME_BYTES
from nearcast.wire.framing import SEALED_OVERHEAD

__all__ = ["BROKER_ID_BYTES", "check_payload", "content_bytes", "payload_limit", "payload_room"]

BROKER_ID_BYTES = 64
"""Most bytes of a server's id."""

_NUMBER = 1 + 9
"""A number below 2^63 with its tag."""
_TEXT = 1 + 2
"""Tag and length of a text of less than 16 KiB."""
_NOTIFY_BYTES = (
    FRAME_BYTES
    + 2 * _TEXT  # topic, publisher
    + 2 * _NUMBER  # epoch, sequence
    + 2  # durable
    + 1 + 5  # part
    + 1 + 3  # tag and length of the payload
    + 5 * _NUMBER  # times
    + _TEXT + BROKER_ID_BYTES
    + 2 * _NUMBER  # offset, previous
)  # fmt: skip
"""Most bytes of a Notify frame beside its topic, publisher, payload and envelope."""
_ENVELOPE_BYTES = 2 + 3 + 8
"""Tag and length of an envelope, and the deadline that a server may write into it."""


def payload_room(publisher: str, datagram_limit: int) -> int:
    """Return how many bytes topic and payload may have together; none below 0."""
    return datagram_limit - SEALED_OVERHEAD - _NOTIFY_BYTES - len(publisher.encode())


def payload_limit(topic: str, publisher: str, datagram_limit: int) -> int:
    """Return how many bytes a payload may have; none below 0."""
    return payload_room(publisher, datagram_limit) - len(topic.encode())


def content_bytes(payload: bytes, envelope: bytes) -> int:
    """Return how many bytes count as payload."""
    return len(payload) + len(envelope) + _ENVELOPE_BYTES if envelope else len(payload)


def check_payload(topic: str, payload_bytes: int, publisher: str, datagram_limit: int) -> None:
    """Raise WireError when the notification of such a payload may not fit into a datagram."""
    limit = payload_limit(topic, publisher, datagram_limit)
    if payload_bytes > limit:
        raise WireError(
            f"{topic[:40]}: a payload of {payload_bytes} bytes exceeds the limit of "
            f"{max(0, limit)} bytes; send less at once or raise datagram_limit on both sides"
        )
