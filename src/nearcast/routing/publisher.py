"""The publishing side: a key in each topic that devices send to, and none in idle ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from nearcast.routing.chance import Chance
from nearcast.routing.keys import Key, NetPath, fresh_unique_id, publisher_key, target_of
from nearcast.routing.route_actions import AddKey, Reject, RemoveKey, Route, RouteAction
from nearcast.routing.route_messages import Data
from nearcast.routing.router import RoutingCounts, RoutingSettings

__all__ = ["Publisher"]


@dataclass(slots=True)
class _Topic:
    key: Key
    last_s: float
    is_in: bool = False
    backlog: deque[Data] = field(default_factory=deque)


class Publisher:
    """Sends the messages of one peer's devices.

    A message is routed from the publisher's own key, so every hop lies between it and the target:
    within the net's part of the topic.
    """

    def __init__(
        self, net: NetPath, settings: RoutingSettings, counts: RoutingCounts, rng: Chance
    ) -> None:
        self._net, self._settings, self._counts, self._rng = net, settings, counts, rng
        self._topics: dict[str, _Topic] = {}

    def publish(self, data: Data, now: float) -> list[RouteAction]:
        """Route a message, or keep it until the topic's key is in."""
        topic = self._topics.get(data.topic)
        actions: list[RouteAction] = []
        if topic is None:
            if len(self._topics) >= self._settings.max_topics:
                self._counts.backlog_full += 1
                return [Reject(data.topic, "too many topics at this publisher")]
            key = publisher_key(data.topic, self._net, fresh_unique_id(self._rng))
            topic = self._topics[data.topic] = _Topic(key, now)
            actions.append(AddKey(key))
        topic.last_s = now
        if topic.is_in:
            return [Route(target_of(data.topic, data.net, data.index), data)]
        if len(topic.backlog) >= self._settings.max_backlog:
            self._counts.backlog_full += 1
            return [Reject(data.topic, "too many messages wait for the overlay")]
        topic.backlog.append(data)
        return actions

    def on_key_added(self, key: Key) -> list[RouteAction]:
        """Send what waited."""
        topic = self._topics.get(key.topic)
        if topic is None or topic.key != key:
            return []
        topic.is_in = True
        waiting, topic.backlog = topic.backlog, deque()
        return [Route(target_of(one.topic, one.net, one.index), one) for one in waiting]

    def on_key_failed(self, key: Key) -> list[RouteAction]:
        """Try another key."""
        topic = self._topics.get(key.topic)
        if topic is None or topic.key != key:
            return []
        topic.key = publisher_key(key.topic, self._net, fresh_unique_id(self._rng))
        return [AddKey(topic.key)]

    def on_timer(self, now: float) -> list[RouteAction]:
        """Leave topics that nothing was sent to; a later message joins anew, with a fresh key."""
        idle = [
            name
            for name, topic in self._topics.items()
            if topic.is_in and now - topic.last_s >= self._settings.idle_s
        ]
        return [RemoveKey(self._topics.pop(name).key) for name in idle]
