"""A component's side of routing: which messages are for it, and which go elsewhere."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

from nearcast.routing.chance import Chance
from nearcast.routing.holdings import Holding
from nearcast.routing.keys import CLOUD, Key, NetPath, fallback_target, fresh_unique_id
from nearcast.routing.keys import subscriber_key as key_at
from nearcast.routing.net_share import NetShare
from nearcast.routing.route_actions import AddKey, Deliver, RemoveKey, Route, RouteAction
from nearcast.routing.route_messages import Data
from nearcast.routing.router import RoutingCounts, RoutingSettings

__all__ = ["Component", "Mandate", "MandateState", "sent_on"]


class MandateState(StrEnum):
    """How far a replica is."""

    JOINING = "joining"
    HELD = "held"
    RETURNING = "returning"
    """It asked its original to take everything back."""
    LEAVING = "leaving"


@dataclass(slots=True)
class Mandate:
    """For whom a replica works."""

    number: int
    original: str
    net: NetPath
    state: MandateState
    next_s: float
    """When to tell the original again."""


def sent_on(data: Data) -> Route:
    """Return a message on its way to the cloud's owner of its index."""
    fallback = Data(
        data.topic, data.net, data.index, data.origin, data.number, data.body, is_fallback=True
    )
    return Route(fallback_target(data.topic, data.index), fallback)


class Component:
    """What one peer processes of one topic: as its initial component, or as a replica."""

    def __init__(
        self,
        topic: str,
        settings: RoutingSettings,
        counts: RoutingCounts,
        rng: Chance,
    ) -> None:
        self.topic = topic
        self.home: Holding | None = None
        """In the cloud's part of the topic; stays while the component runs."""
        self.shares: dict[NetPath, NetShare] = {}
        self._settings, self._counts, self._rng = settings, counts, rng
        self._seen: OrderedDict[tuple[str, int], None] = OrderedDict()

    def start(self, low: int, high: int) -> list[RouteAction]:
        """Take a range from all nets."""
        key = key_at(self.topic, CLOUD, low, fresh_unique_id(self._rng))
        self.home = Holding(low, high, key)
        return [AddKey(key)]

    def on_data(self, key: Key, data: Data) -> list[RouteAction]:
        """Process a message that reached one of the own keys, or send it on."""
        if data.is_fallback or data.net == CLOUD:
            # The cloud's owner is the last resort: it takes whatever reaches it there.
            opened = self._open_share(data.net) if data.net != CLOUD else []
            return [*opened, *self._deliver(data)]
        share = self.shares.get(key.net)
        if share is None or key.net != data.net:
            return self._send_on(data)
        if share.holdings.find(data.index) is not None:
            return self._deliver(data)
        if share.given(data.index) is not None:
            # On its way since before the replica's key was in: better done here than late.
            self._counts.misdelivered += 1
            return self._deliver(data)
        return self._send_on(data)

    def on_key_added(self, key: Key) -> bool:
        """Note that a key is in; return whether it is still wanted."""
        holding = self._of_key(key)
        if holding is not None:
            holding.is_in = True
        return holding is not None

    def on_key_failed(self, key: Key) -> list[RouteAction]:
        """Try again, if the key is still wanted."""
        return [AddKey(key)] if self._of_key(key) is not None else []

    def open_share(self, net: NetPath) -> list[RouteAction]:
        """Get keys of its own in a net, if there are none yet."""
        return self._open_share(net)

    def end(self) -> list[RouteAction]:
        """Take all keys out."""
        keys = [one.key for share in self.shares.values() for one in share.holdings]
        if self.home is not None:
            keys.append(self.home.key)
        return [RemoveKey(key) for key in keys]

    def _of_key(self, key: Key) -> Holding | None:
        if self.home is not None and self.home.key == key:
            return self.home
        share = self.shares.get(key.net)
        return share.holdings.of_key(key) if share is not None else None

    def _open_share(self, net: NetPath) -> list[RouteAction]:
        if net in self.shares or self.home is None:
            return []
        if len(self.shares) >= self._settings.max_nets:
            self._counts.nets_refused += 1
            return []
        share = self.shares[net] = NetShare()
        key = key_at(self.topic, net, self.home.low, fresh_unique_id(self._rng))
        share.holdings.add(Holding(self.home.low, self.home.high, key))
        return [AddKey(key)]

    def _send_on(self, data: Data) -> list[RouteAction]:
        self._counts.fallbacks += 1
        return [sent_on(data)]

    def _deliver(self, data: Data) -> list[RouteAction]:
        identity = (data.origin, data.number)
        if identity in self._seen:
            self._counts.duplicates += 1
            return []
        self._seen[identity] = None
        if len(self._seen) > self._settings.max_seen:
            self._seen.popitem(last=False)
        self._counts.delivered += 1
        return [Deliver(data)]
