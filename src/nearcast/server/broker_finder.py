"""Brokers of topics that the orders here do not name, found on the ring while the manager is away.

A server without room for a stream of such a topic would give it to the cloud server, or process it
all the same when that is away. Who claims in the directory to be a broker has to show the orders
that the manager signed for it.
"""

from __future__ import annotations

from nearcast.server.directory import Directory, topic_name
from nearcast.server.peers import Peers
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.site_orders import Orders
from nearcast.server.stream_targets import StreamTargets
from nearcast.wire.backoff import next_wait_s

__all__ = ["BrokerFinder"]

_AWAY_S = 2.0
"""How long the manager takes nothing before others are asked."""
_LOOK_S = 1.0
_ASK_AGAIN_S = 3.0
_LONGEST_PAUSE_S = 300.0
_MOST_TOPICS = 1_000
"""Topics that are looked for at a time; others go to the cloud."""


class BrokerFinder:
    """Looks for brokers, and has streams go to them."""

    def __init__(
        self, peers: Peers, directory: Directory, shown: ShownOrders, targets: StreamTargets
    ) -> None:
        self._peers, self._directory = peers, directory
        self._shown, self._targets = shown, targets
        self._revision = 0
        self._wanted: dict[str, tuple[float, float]] = {}
        """By topic: when it is looked for, and how long to wait after that."""
        self._claimed: dict[str, dict[str, None]] = {}
        """By server that claims to be a broker: topics."""
        self._look_at = float("inf")
        targets.on_unplaced = self._want
        directory.on_broker_claims = self._on_claims
        shown.listeners.append(self._on_shown)

    def obey(self, orders: Orders) -> None:
        """Note the orders here: what others show has to be as new."""
        self._revision = orders.revision
        for topic in [one.topic for one in orders.topics if one.topic in self._wanted]:
            self._drop(topic)
        self._claimed.clear()

    def _want(self, topic: str) -> None:
        if len(self._wanted) < _MOST_TOPICS:
            self._wanted.setdefault(topic, (float("-inf"), _ASK_AGAIN_S))
            self._look_at = min(self._look_at, float("-inf"))

    def on_timer(self, now: float) -> None:
        """Look for topics while the manager is away."""
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_S if self._wanted else float("inf")
        manager = self._peers.manager
        if not manager or not self._peers.is_away(manager, now, _AWAY_S):
            return
        for topic, (due, pause_s) in self._wanted.items():
            if due <= now:
                self._wanted[topic] = (now + pause_s, next_wait_s(pause_s, _LONGEST_PAUSE_S))
                self._directory.ask(topic_name(topic), now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return self._look_at

    def _on_claims(self, topic: str, servers: tuple[str, ...], now: float) -> None:
        for server in servers:
            if topic in self._wanted and server in self._peers.others:
                self._claimed.setdefault(server, {})[topic] = None
                self._shown.ask(server, now)

    def _on_shown(self, server: str, orders: Orders, now: float) -> None:
        claimed = self._claimed.pop(server, {})
        if orders.revision < self._revision:
            return  # by older orders it may have been a broker
        for order in orders.topics:
            if order.topic in claimed and server in order.brokers:
                self._targets.learn_brokers(order)
                self._drop(order.topic)

    def _drop(self, topic: str) -> None:
        self._wanted.pop(topic, None)
        self._directory.forget(topic_name(topic))
