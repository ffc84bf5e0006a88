"""What every system is asked to carry: topics, connections, and the bytes of a message.

A payload begins with the time at which it was to be sent (monotonic clock of the load process)
and its number; then comes the value that the processor works on.
"""

from __future__ import annotations

from struct import Struct

__all__ = [
    "HEAD",
    "PAYLOAD_BYTES",
    "PUBLISHERS",
    "SUBSCRIBERS",
    "TOPICS",
    "VALUE",
    "make_payload",
    "topic_name",
]

TOPICS = 20
PUBLISHERS = 3
"""Connections; no divisor of the number of topics, so that each of them publishes to all."""
SUBSCRIBERS = 10
"""Connections; each hears all topics."""
PAYLOAD_BYTES = 220
HEAD = Struct(">QQ")
"""Intended send time in ns, number of the message; the processor leaves them as they are."""
VALUE = Struct(">d")
_REST = b"-" * (PAYLOAD_BYTES - HEAD.size - VALUE.size)


def make_payload(due_ns: int, number: int) -> bytes:
    """Return the payload of a message."""
    return HEAD.pack(due_ns, number) + VALUE.pack(number * 7919 % 1000 / 10) + _REST


def topic_name(number: int) -> str:
    """Return the topic of a message by its number."""
    return f"t{number % TOPICS}"
