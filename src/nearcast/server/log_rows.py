"""Rows of a site's event log: what a home saw of its clients, and what it sent to them.

Plain tuples, because a server makes one for each message; `runtime.event_log` writes them.
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "NOTIFICATION_FIELDS",
    "PUBLICATION_FIELDS",
    "LogAction",
    "NotificationRow",
    "PublicationRow",
]

LogAction = Literal["publish", "subscribe", "unsubscribe", "report"]

PublicationRow = tuple[str | None, str, int, float, float, int, LogAction, int, int, bool, str]
"""Something that a client told its home, and where the client was then; see the fields."""

PUBLICATION_FIELDS = (
    "topic",  # None for a report, which is a position only
    "client",
    "time_us",  # when the home got it; Unix time
    "x_km",
    "y_km",
    "size",  # bytes of the payload; 0 for all but publications
    # What the client asked for: the end of a session or a move to another home is not an
    # unsubscribe, since the last word on a topic counts, whichever home wrote it.
    "action",
    # Counts the client's publications of a topic and epoch, durable ones and others apart; 0 for
    # other actions.
    "sequence",
    "epoch",
    "durable",
    "server",  # the home that wrote the row
)

NotificationRow = tuple[
    str, str, int, int, int, tuple[str, ...], str, int, int, int, int, int, int, bool
]
"""A notification that a home sent to some of its clients; see the fields."""

NOTIFICATION_FIELDS = (
    "topic",
    "publisher",
    "epoch",
    "sequence",
    "part",
    "clients",  # all that were notified by this home
    "server",  # the home that wrote the row
    "published_us",  # times are Unix time
    "received_us",  # when the publisher's home got the message
    "processing_us",  # how long the broker took, waiting included; not a moment
    "processed_us",
    "notified_us",  # when this home sent it
    "size",  # bytes of the payload
    "durable",  # as published: (publisher, topic, epoch, durable, sequence) is the publication
)
