"""Keywords of clients: how one works, and what a publication has besides topic and payload."""

from __future__ import annotations

from typing import TypedDict

from nearcast.content.attributes import Attributes
from nearcast.sdk.driver import Area
from nearcast.wire.cursors import SavedCursors

__all__ = ["ClientOptions", "PublishOptions"]


class ClientOptions(TypedDict, total=False):
    """Keywords of `Client`, where they are explained."""

    timeout_s: float
    cursors: SavedCursors | None
    ordered: bool
    degrees: bool
    discover: str


class PublishOptions(TypedDict, total=False):
    """Keywords of `Client.publish`, and of all that publishes in its way."""

    position: tuple[float, float] | None
    """Where it happens; without it where the client is."""
    attributes: Attributes | None
    """What subscribers' filters look at."""
    area: Area | None
    """Who gets it: clients there."""
    valid_s: float | None
    """For how long it is worth telling."""
    message_class: str
    """How urgent it is."""
