"""The LASR router of one peer: publisher, components, replicas and its offer of room, joined."""

from __future__ import annotations

from collections.abc import Mapping

from nearcast.errors import ConfigError
from nearcast.routing.chance import Chance
from nearcast.routing.component import Component, Mandate, MandateState, sent_on
from nearcast.routing.delegation import Delegator
from nearcast.routing.holdings import Holding
from nearcast.routing.index_mapping import IndexMapping, ShuffleMapping
from nearcast.routing.keys import (
    CLOUD,
    INDEX_END,
    PUBLISHER,
    SUBSCRIBER,
    UNIQUE_MAX,
    Key,
    NetPath,
    check_range,
    subscriber_key,
)
from nearcast.routing.net_share import Delegation, NetShare
from nearcast.routing.publisher import Publisher
from nearcast.routing.replica import Replica
from nearcast.routing.route_actions import AddKey, Reject, RemoveKey, RouteAction, SendPeer
from nearcast.routing.route_messages import (
    Adopt,
    Cancel,
    Data,
    Refused,
    Release,
    Return,
    RouteMessage,
    Search,
    TakeOver,
    Undelivered,
)
from nearcast.routing.router import RoutingCounts, RoutingSettings
from nearcast.routing.underloaded import UNDERLOADED, Underloaded

__all__ = ["LasrRouter"]


class LasrRouter:
    """Locality-aware stream routing as one peer does it; a pure state machine.

    Parameters
    ----------
    peer : its id in the overlay.
    net : the network that it is in; `CLOUD` for the data centre where components start.
    mappings : how messages get their index, by topic; any index by chance where there is none.
    """

    def __init__(
        self,
        peer: str,
        net: NetPath,
        rng: Chance,
        settings: RoutingSettings | None = None,
        mappings: Mapping[str, IndexMapping] | None = None,
    ) -> None:
        self.peer, self.net = peer, net
        self.counts = RoutingCounts()
        self._settings, self._rng = settings or RoutingSettings(), rng
        self._mappings = dict(mappings or {})
        self._publisher = Publisher(net, self._settings, self.counts, rng)
        self._underloaded = Underloaded(net, self._settings, rng)
        self._components: dict[str, Component] = {}
        self._delegators: dict[str, Delegator] = {}
        self._replicas: dict[str, Replica] = {}
        self._number = rng.getrandbits(62)

    @property
    def timer_s(self) -> float:
        """How often `on_timer` wants to be called."""
        return self._settings.timer_s

    # --- from above ---

    def publish(self, topic: str, body: bytes, now: float) -> list[RouteAction]:
        """Send a message of a device or component."""
        if topic == UNDERLOADED:
            return [Reject(topic, "this topic is the routers' own")]
        mapped = self._mappings.get(topic, ShuffleMapping()).index_of(body, self._rng)
        self.counts.mapping_errors += bool(mapped.error)
        self._number += 1
        data = Data(topic, self.net, mapped.index, self.peer, self._number, body)
        self.counts.published += 1
        return self._publisher.publish(data, now)

    def subscribe(self, topic: str, low: int, high: int, now: float) -> list[RouteAction]:
        """Start a component.

        Raises
        ------
        ConfigError
            When the range is none, or the peer has a component of the topic already.
        """
        check_range(low, high)
        if topic == UNDERLOADED or topic in self._components:
            raise ConfigError(f"topic {topic!r}: is taken at this peer")
        return self._new_component(topic, None).start(low, high)

    def offload(
        self,
        topic: str,
        net: NetPath,
        now: float,
        *,
        split_at: int | None = None,
        replica: str | None = None,
    ) -> list[RouteAction]:
        """Give the lower part of a range in a net to a replica; see `Delegator.offload`."""
        if topic not in self._delegators:
            raise ConfigError(f"topic {topic!r}: has no component at this peer")
        replica_here = self._replicas.get(topic)
        if replica_here is not None and replica_here.mandate.state is not MandateState.HELD:
            # What it gives away now would be missing from what it returns.
            raise ConfigError(f"topic {topic!r}: a split or merge is under way")
        return self._delegators[topic].offload(net, split_at, replica, now)

    def scale_in(self, topic: str, now: float) -> list[RouteAction]:
        """End the replica of a topic at this peer; see `Replica.scale_in`."""
        if topic not in self._replicas:
            raise ConfigError(f"topic {topic!r}: has no replica at this peer")
        return self._replicas[topic].scale_in(now)

    def offer_room(self) -> list[RouteAction]:
        """Say that this peer is underloaded: it would run a replica."""
        return self._underloaded.offer()

    def held(self, topic: str, net: NetPath) -> list[tuple[int, int]]:
        """Return the ranges of a topic that a component here has in a net."""
        share = self._components[topic].shares.get(net) if topic in self._components else None
        return [(one.low, one.high) for one in share.holdings] if share is not None else []

    # --- from the overlay ---

    def on_routed(self, key: Key, message: Data | Search, now: float) -> list[RouteAction]:
        """Take what was routed to one of the own keys, or send it on if it is not meant."""
        if isinstance(message, Search):
            return self._underloaded.on_search(key, message, now)
        net = CLOUD if message.is_fallback else message.net
        component = self._components.get(message.topic)
        if key[:3] == (message.topic, net, SUBSCRIBER) and component is not None:
            return component.on_data(key, message)
        if net != CLOUD:
            self.counts.fallbacks += 1
            return [sent_on(message)]
        return [SendPeer(message.origin, Undelivered(message.number, message.topic))]

    def on_key_added(self, key: Key, now: float) -> list[RouteAction]:
        """Go on with what waited for a key; take out one that nobody wants any more."""
        if key.flag == PUBLISHER:
            return self._publisher.on_key_added(key)
        if key.topic == UNDERLOADED:
            return [] if self._underloaded.is_key(key) else [RemoveKey(key)]
        component, replica = self._components.get(key.topic), self._replicas.get(key.topic)
        is_leaving = replica is not None and replica.mandate.state is MandateState.LEAVING
        if component is None or is_leaving or not component.on_key_added(key):
            return [RemoveKey(key)]
        actions = self._delegators[key.topic].on_key_added(key, now)
        return [*(replica.on_key_added(now) if replica is not None else []), *actions]

    def on_key_failed(self, key: Key, now: float) -> list[RouteAction]:
        """Try again what is still wanted."""
        if key.flag == PUBLISHER:
            return self._publisher.on_key_failed(key)
        if key.topic == UNDERLOADED:
            return self._underloaded.on_key_failed(key)
        replica, component = self._replicas.get(key.topic), self._components.get(key.topic)
        if replica is not None and replica.mandate.state is MandateState.LEAVING:
            return self.on_key_removed(key, now)
        return component.on_key_failed(key) if component is not None else []

    def on_key_removed(self, key: Key, now: float) -> list[RouteAction]:
        """Note that a key is out."""
        replica = self._replicas.get(key.topic)
        if replica is None:
            return []
        actions = replica.on_key_removed(key)
        self._forget_ended(key.topic)
        return actions

    # --- from other peers ---

    def on_message(self, sender: str, message: RouteMessage, now: float) -> list[RouteAction]:
        """Take what another peer sent directly; what it says is checked."""
        if isinstance(message, Search):
            if message.searcher == sender:
                return self._underloaded.on_search(None, message, now)
        elif isinstance(message, Undelivered):
            self.counts.undeliverable += 1
            return [Reject(message.topic, "no component has the topic")]
        elif isinstance(message, TakeOver):
            return self._on_take_over(sender, message, now)
        elif isinstance(message, Cancel | Release | Adopt):
            for topic, replica in self._replicas.items():
                if replica.mandate.number == message.delegation:
                    actions = replica.on_message(sender, message)
                    self._forget_ended(topic)
                    return actions
        else:
            number = getattr(message, "delegation", None)
            for topic, net, one in self._delegations():
                if one.number == number:
                    if self._is_returning(topic) and isinstance(message, Return):
                        return []  # the original adopts it, and is asked again
                    return self._delegators[topic].on_message(sender, message, net, one, now)
            if number is not None:
                self.counts.refused += 1
                # A replica of an original that does not know it has to go.
                return [SendPeer(sender, Cancel(number))]
        self.counts.refused += 1
        return []

    def on_timer(self, now: float) -> list[RouteAction]:
        """Let time pass."""
        actions = [*self._publisher.on_timer(now), *self._underloaded.on_timer(now)]
        for topic, delegator in self._delegators.items():
            if not self._is_returning(topic):
                actions += delegator.on_timer(now)
        for replica in self._replicas.values():
            actions += replica.on_timer(now)
        return actions

    def _delegations(self) -> list[tuple[str, NetPath, Delegation]]:
        return [
            (topic, net, one)
            for topic, component in self._components.items()
            for net, share in component.shares.items()
            for one in share.delegations.values()
        ]

    def _is_returning(self, topic: str) -> bool:
        """Return whether a replica here has told its original what it has: that must not change."""
        replica = self._replicas.get(topic)
        return replica is not None and replica.mandate.state in (
            MandateState.RETURNING,
            MandateState.LEAVING,
        )

    def _new_component(self, topic: str, mandate: Mandate | None) -> Component:
        component = Component(topic, self._settings, self.counts, self._rng)
        self._components[topic] = component
        self._delegators[topic] = Delegator(
            self.peer, component, self._settings, self.counts, self._rng
        )
        if mandate is not None:
            self._replicas[topic] = Replica(component, mandate, self._settings, self.counts)
        return component

    def _on_take_over(self, sender: str, message: TakeOver, now: float) -> list[RouteAction]:
        is_sound = (
            message.net == self.net
            and 0 <= message.low < message.high <= INDEX_END
            and 0 < message.unique_id < UNIQUE_MAX
            and message.topic not in (*self._components, UNDERLOADED)
        )
        if not is_sound or not self._underloaded.take(sender, message.delegation):
            self.counts.refused += 1
            return [SendPeer(sender, Refused(message.delegation))]
        mandate = Mandate(message.delegation, sender, message.net, MandateState.JOINING, now)
        component = self._new_component(message.topic, mandate)
        share = component.shares[message.net] = NetShare()
        key = subscriber_key(message.topic, message.net, message.low, message.unique_id)
        share.holdings.add(Holding(message.low, message.high, key))
        return [AddKey(key)]

    def _forget_ended(self, topic: str) -> None:
        if self._replicas[topic].has_ended:
            for table in (self._replicas, self._components, self._delegators):
                del table[topic]
