"""What a router wants done: by the overlay, by the links, or by the component above it."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.routing.keys import Key
from nearcast.routing.route_messages import Data, RouteMessage, Search

__all__ = [
    "AddKey",
    "Deliver",
    "Offloaded",
    "Reject",
    "RemoveKey",
    "ReplicaEnded",
    "Route",
    "RouteAction",
    "SendPeer",
]


@dataclass(frozen=True, slots=True)
class AddKey:
    """Insert a key into the overlay; answered by `on_key_added`, or `on_key_failed`."""

    key: Key


@dataclass(frozen=True, slots=True)
class RemoveKey:
    """Take a key out of the overlay; answered by `on_key_removed`."""

    key: Key


@dataclass(frozen=True, slots=True)
class Route:
    """Bring a message to the peer with the largest key up to the target."""

    target: Key
    message: Data | Search


@dataclass(frozen=True, slots=True)
class SendPeer:
    """Send a message directly."""

    peer: str
    message: RouteMessage


@dataclass(frozen=True, slots=True)
class Deliver:
    """Give a message to the component of its topic on this peer."""

    data: Data


@dataclass(frozen=True, slots=True)
class Reject:
    """Tell the publisher of a message why it is not sent, or that it found no component."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Offloaded:
    """An offload ended; without a replica when none was found or it did not answer."""

    topic: str
    replica: str | None


@dataclass(frozen=True, slots=True)
class ReplicaEnded:
    """A replica on this peer has no range any more: once its queue is empty it may stop."""

    topic: str


RouteAction = AddKey | RemoveKey | Route | SendPeer | Deliver | Reject | Offloaded | ReplicaEnded
