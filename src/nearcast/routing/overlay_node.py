"""Joins a LASR router and an overlay peer into one state machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from nearcast.overlay.overlay import (
    Action,
    Delivered,
    KeyAbandoned,
    KeyAdded,
    KeyRemoved,
    Overlay,
    Send,
    Undeliverable,
)
from nearcast.routing.lasr import LasrRouter
from nearcast.routing.route_actions import (
    AddKey,
    Deliver,
    Offloaded,
    Reject,
    RemoveKey,
    ReplicaEnded,
    Route,
    RouteAction,
    SendPeer,
)
from nearcast.routing.route_messages import Data, RouteMessage, Search, Undelivered

__all__ = ["LasrNode", "Outcome", "RouterFrame"]

Outcome = Deliver | Reject | Offloaded | ReplicaEnded
"""What the component or broker above is told."""


class RouterFrame(msgspec.Struct, frozen=True):
    """A message between routers that does not go through the overlay."""

    message: RouteMessage


class LasrNode:
    """One peer: what it is asked and told goes in, messages to peers and outcomes come out."""

    def __init__(self, router: LasrRouter, overlay: Overlay) -> None:
        self.router, self.overlay = router, overlay
        self.on_route: Callable[[Delivered], None] = lambda _route: None
        """Called with each routed message that arrives, and its path."""
        self._next_s = 0.0

    def on_message(self, sender: str, message: Any, now: float) -> list[Send | Outcome]:
        """Take a message of another peer."""
        if isinstance(message, RouterFrame):
            return self.do(self.router.on_message(sender, message.message, now), now)
        return self._heard(self.overlay.on_message(sender, message, now), now)

    def on_timer(self, now: float) -> list[Send | Outcome]:
        """Do what is due in the overlay and the router; may be called early."""
        told = self._heard(self.overlay.on_timer(now), now)
        if now >= self._next_s:
            self._next_s = now + self.router.timer_s
            told += self.do(self.router.on_timer(now), now)
        return told

    def next_wakeup(self) -> float:
        """Return when `on_timer` has something to do."""
        return min(self._next_s, self.overlay.next_wakeup())

    def do(self, actions: list[RouteAction], now: float) -> list[Send | Outcome]:
        """Carry out what the router wants."""
        out: list[Send | Outcome] = []
        for action in actions:
            match action:
                case AddKey(key):
                    out += self._heard(self.overlay.add_key(key, now), now)
                case RemoveKey(key):
                    out += self._heard(self.overlay.remove_key(key, now), now)
                case Route(target, message):
                    out += self._heard(self.overlay.route(target, message, now), now)
                case SendPeer(peer, told) if peer == self.router.peer:
                    out += self.do(self.router.on_message(peer, told, now), now)
                case SendPeer(peer, told):
                    out.append(Send(peer, RouterFrame(told)))
                case _:
                    out.append(action)
        return out

    def _heard(self, events: list[Action], now: float) -> list[Send | Outcome]:
        out: list[Send | Outcome] = []
        for event in events:
            match event:
                case Send():
                    out.append(event)
                case Delivered():
                    if isinstance(event.payload, Data | Search):
                        self.on_route(event)
                        routed = self.router.on_routed(event.node.key, event.payload, now)
                        out += self.do(routed, now)
                case KeyAdded(node):
                    out += self.do(self.router.on_key_added(node.key, now), now)
                case KeyAbandoned(key, _):
                    out += self.do(self.router.on_key_failed(key, now), now)
                case KeyRemoved(node):
                    out += self.do(self.router.on_key_removed(node.key, now), now)
                case Undeliverable(_, Data() as data, _, _):
                    lost = SendPeer(data.origin, Undelivered(data.number, data.topic))
                    out += self.do([lost], now)
        return out
