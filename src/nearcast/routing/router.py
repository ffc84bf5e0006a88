"""The Router Protocol: what a broker or component asks of its routing; settings and counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nearcast.errors import ConfigError
from nearcast.routing.route_actions import RouteAction
from nearcast.routing.route_messages import RouteMessage

__all__ = ["Router", "RoutingCounts", "RoutingSettings"]


class Router(Protocol):
    """Brings messages of a topic to the component that has their index.

    Every method returns what is to be done now, in this order. Times are seconds of one clock.
    """

    def publish(self, topic: str, body: bytes, now: float) -> list[RouteAction]:
        """Send a message of a device or component."""

    def subscribe(self, topic: str, low: int, high: int, now: float) -> list[RouteAction]:
        """Start a component that takes a range of a topic's indexes from all nets."""

    def on_message(self, sender: str, message: RouteMessage, now: float) -> list[RouteAction]:
        """Take what another peer sent directly."""

    def on_timer(self, now: float) -> list[RouteAction]:
        """Let time pass; call it about once in `RoutingSettings.timer_s`."""


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """How a router waits, and how much it keeps."""

    timer_s: float = 0.5
    idle_s: float = 60.0
    """A publisher that sends nothing for so long leaves the overlay."""
    reply_s: float = 2.0
    """How long another peer, or the overlay, may take for one step of a reconfiguration."""
    renew_s: float = 5.0
    """How often a replica tells its original that it is there."""
    missed_renewals: int = 3
    search_tries: int = 3
    replica_joins_first: bool = False
    """The paper's order of a split: the replica briefly gets the whole net, misdelivered."""
    max_topics: int = 10_000
    """Topics of one publisher."""
    max_backlog: int = 1_000
    """Messages of a topic that wait until its publisher's key is in."""
    max_nets: int = 1_000
    """Nets for which a component has keys of its own."""
    max_delegations: int = 1_000
    """Of a component in one net."""
    max_seen: int = 100_000
    """Messages by whose ids a component knows duplicates."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if name != "replica_joins_first" and getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")


@dataclass(slots=True)
class RoutingCounts:
    """What a router did with messages, and what it refused."""

    published: int = 0
    delivered: int = 0
    duplicates: int = 0
    fallbacks: int = 0
    """Sent on to the cloud's owner: the net has no subscriber yet, or the wrong one."""
    misdelivered: int = 0
    """Processed by the original although a replica has the index now."""
    undeliverable: int = 0
    """Messages of a topic that no component has."""
    backlog_full: int = 0
    """Not taken from a device: too many wait for the key, or too many topics."""
    mapping_errors: int = 0
    nets_refused: int = 0
    """Nets that got no keys of their own; their messages are processed all the same."""
    refused: int = 0
    """Messages of other peers that fit nothing here: old, unknown, or lies."""
