"""Rows of a site's event log: what a home saw of its clients, and what it sent to them.

Plain tuples, since a server makes one for each message; `runtime.event_log` writes them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["LogAction", "NotificationRow", "PublicationRow", "Row"]

LogAction = Literal["publish", "subscribe", "unsubscribe", "report"]


class PublicationRow(NamedTuple):
    """Something that a client told its home, and where the client was then."""

    topic: str | None
    """None for a report, which is a position only."""
    client: str
    time_us: int
    """When the home got it; Unix time."""
    x_km: float
    y_km: float
    size: int
    """Bytes of the payload; 0 for all but publications."""
    action: LogAction
    """What the client asked for: the end of a session or a move to another home is not an unsubscribe,
    since the last word on a topic counts, whichever home wrote it."""
    sequence: int
    """Counts the client's publications of a topic and epoch, durable ones and others apart; 0
    for other actions."""
    epoch: int
    durable: bool
    server: str
    """The home that wrote the row."""
    payload: bytes = b""
    """Of a publication, as it came; empty for all others."""


class NotificationRow(NamedTuple):
    """A notification that a home sent to some of its clients; times are Unix time."""

    topic: str
    publisher: str
    epoch: int
    sequence: int
    part: int
    clients: tuple[str, ...]
    """All that were notified by this home."""
    server: str
    """The home that wrote the row."""
    published_us: int
    received_us: int
    """When the publisher's home got the message."""
    processing_us: int
    """How long the broker took, waiting included; not a moment."""
    processed_us: int
    notified_us: int
    """When this home sent it."""
    size: int
    """Bytes of the payload."""
    durable: bool = True
    """As published: (publisher, topic, epoch, durable, sequence) is the publication."""


Row = tuple[object, ...]
"""As servers make them for each message: plain tuples with the same fields cost a third."""
