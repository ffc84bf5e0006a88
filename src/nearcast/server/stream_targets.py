"""Which server processes a publisher's messages: its home while there is room, else the cloud.

The orders name the server for each stream (topic, publisher) that the plan knew. Others stay at
their home as long as storage (the sum of spool sizes) and compute (spool size x publishers, summed
over topics) allow it. A stream stays where it is until orders say otherwise about it. Brokers that
were found while the manager is away come before the cloud.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from nearcast.routing.index_mapping import hashed_index
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder

__all__ = ["NOBODY", "Capacity", "StreamTargets"]

NOBODY = ""
"""Target of a stream that does not belong here: its publisher visits this server by mistake."""

Stream = tuple[str, str]
"""Topic and publisher."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a server can hold."""

    storage: float = float("inf")
    """Sum of the spool sizes of its topics, in messages."""
    compute: float = float("inf")
    """Sum over its topics of spool size x publishers."""
    streams: int = 100_000
    """Streams of its clients whose server is remembered; the oldest are decided anew."""


class _Rule(NamedTuple):
    """What the orders say about a stream."""

    ordered: str | None
    """The server that has to process it, where they name one."""
    spool: int
    found: tuple[str, ...] = ()
    """Brokers of a topic that the orders here do not name, see `learn_brokers`."""


@dataclass(slots=True)
class _Topic:
    spool: int
    publishers: set[str] = field(default_factory=set)


class StreamTargets:
    """The streams of an edge server and who processes them.

    Parameters
    ----------
    is_visitor
        Tells whether a client has its home elsewhere and is here to publish only: no streams of
        it are processed here but those that the orders name.
    """

    def __init__(
        self,
        server: str,
        capacity: Capacity,
        default_spool: int,
        is_visitor: Callable[[str], bool] = lambda client: False,
    ) -> None:
        self._server, self.capacity, self._default_spool = server, capacity, default_spool
        self._is_visitor = is_visitor
        self._cloud, self._limit = "", capacity.streams
        self._orders: dict[str, TopicOrder] = {}
        self._publish: dict[str, Mapping[str, str]] = {}
        """By client: the servers that process its messages, by topic, as the manager said."""
        self._targets: dict[Stream, str] = {}
        self._rules: dict[Stream, _Rule] = {}
        """What the orders said when a stream's target was chosen."""
        self._before: dict[Stream, str] = {}
        """Targets before the last change: their answers may still be on the way."""
        self._local: dict[str, _Topic] = {}
        self._guests: dict[str, ClientOrder] = {}
        """What the manager said of clients here that the orders do not name."""
        self._away: frozenset[str] = frozenset()
        self._found: dict[str, TopicOrder] = {}
        """Topics that the orders do not name, as their brokers have shown."""
        self.on_unplaced: Callable[[str], None] = lambda topic: None
        """Hears of topics without orders for which there is no room here."""
        self._stood_in_for: dict[Stream, str] = {}
        """Streams that are processed here while their server is away."""

    def obey(self, orders: Orders) -> None:
        """Take new orders; streams about which they say something else are decided anew."""
        self._cloud = orders.cloud
        self._orders = {one.topic: one for one in orders.topics}
        self._found.clear()
        for one in orders.clients:
            self._guests.pop(one.client, None)
        self._publish = {
            one.client: one.publish for one in (*self._guests.values(), *orders.clients)
        }
        self._forget([one for one, rule in self._rules.items() if self._rule(one) != rule])

    def learn(self, order: ClientOrder) -> None:
        """Take what the manager says of a guest; its streams are decided anew where it matters."""
        self._guests[order.client] = order
        self._publish[order.client] = order.publish
        own = [(topic, order.client) for topic in order.publish]
        self._forget(
            [one for one in own if one in self._rules and self._rule(one) != self._rules[one]]
        )

    def learn_brokers(self, order: TopicOrder) -> bool:
        """Take how a topic is managed that the orders here do not name; tell whether that is new.

        Its streams that have no room here are decided anew.
        """
        known = self._found.get(order.topic)
        if order.topic in self._orders or (known is not None and known.version >= order.version):
            return False
        self._found[order.topic] = order
        streams = [one for one in self._rules if one[0] == order.topic]
        for one in streams:
            if self._targets[one] == self._server and one not in self._stood_in_for:
                self._rules[one] = self._rule(one)  # what is here stays
        self._forget([one for one in streams if self._rules[one] != self._rule(one)])
        return True

    def is_ordered(self, topic: str, publisher: str) -> bool:
        """Tell whether orders name the server that processes a stream."""
        rule = self._rules.get((topic, publisher))
        return rule is not None and rule.ordered is not None

    def guest_left(self, client: str) -> None:
        """Forget what the manager said of a client that is gone."""
        if self._guests.pop(client, None) is not None:
            del self._publish[client]

    def begin_visit(self, client: str) -> None:
        """Forget the streams of a client that were processed here while this was its home."""
        found = [
            one
            for one, rule in self._rules.items()
            if one[1] == client and rule.ordered != self._server
        ]
        if found:
            self._forget(found)

    def set_away(self, servers: frozenset[str]) -> bool:
        """Stand in for the servers that are away, and no longer for others; tell what is new.

        Returns whether some streams are processed by another server from now on.
        """
        if servers == self._away:
            return False
        self._away = servers
        found = [
            one
            for one, target in self._targets.items()
            if (self._stood_in_for.get(one, target) in servers) != (one in self._stood_in_for)
        ]
        self._forget(found)
        return bool(found)

    def _forget(self, streams: list[Stream]) -> None:
        """Let the targets of streams be decided anew."""
        for stream in streams:
            self._before.pop(stream, None)
            self._before[stream] = self._targets.pop(stream)
            del self._rules[stream]
            self._stood_in_for.pop(stream, None)
        for stream in list(islice(self._before, max(0, len(self._before) - self._limit))):
            del self._before[stream]
        self._local = {
            one.topic: _Topic(one.spool)
            for one in self._orders.values()
            if self._server in one.brokers
        }
        for stream, target in self._targets.items():
            self._note(stream, target)

    def target(self, topic: str, publisher: str) -> str:
        """Return the server that processes this stream, or NOBODY."""
        stream = (topic, publisher)
        target = self._targets.get(stream)
        if target is None:
            rule = self._rule(stream)
            if rule.ordered != self._server and self._is_visitor(publisher):
                return NOBODY
            if len(self._targets) >= self._limit:
                self._forget(list(islice(self._targets, self._limit // 10 + 1)))
            self._rules[stream] = rule
            target = self._choose(topic, publisher, rule)
            if target in self._away:
                self._stood_in_for[stream] = target
                target = self._server
            self._targets[stream] = target
            self._note(stream, target)
        return target

    def expected(self, client: str) -> dict[str, list[str]]:
        """Return what orders say that a client publishes: topics by the server that they go to."""
        found: dict[str, list[str]] = {}
        for topic in self._publish.get(client, ()):
            ordered = self._rule((topic, client)).ordered
            if ordered and ordered not in self._away:
                found.setdefault(ordered, []).append(topic)
        return found

    def version(self, topic: str) -> int:
        """Return the version of a topic's assignment; 0 where the orders do not name it."""
        order = self._orders.get(topic) or self._found.get(topic)
        return order.version if order is not None else 0

    def is_forwarded(self, topic: str, publisher: str, server: str) -> bool:
        """Tell whether a stream goes to a server, or went there before it went elsewhere."""
        stream = (topic, publisher)
        return server in (self._targets.get(stream), self._before.get(stream))

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def storage_used(self) -> float:
        """Sum of the spool sizes of topics that are managed here."""
        return float(sum(one.spool for one in self._local.values()))

    @property
    def compute_used(self) -> float:
        """Sum over topics managed here of spool size x publishers."""
        return float(sum(one.spool * len(one.publishers) for one in self._local.values()))

    @property
    def local_streams(self) -> int:
        """Streams that are processed here."""
        return sum(len(one.publishers) for one in self._local.values())

    @property
    def delegated_streams(self) -> int:
        """Streams that other servers process."""
        return sum(target != self._server for target in self._targets.values())

    def _rule(self, stream: Stream) -> _Rule:
        order = self._orders.get(stream[0])
        ordered = self._publish.get(stream[1], {}).get(stream[0])
        if order is None:
            found = self._found.get(stream[0])
            brokers = () if found is None else found.brokers
            return _Rule(ordered, self._default_spool, brokers)
        if ordered is not None and ordered not in order.brokers:
            ordered = self._cloud  # no broker there: the cloud does the work
        return _Rule(ordered, order.spool)

    def _choose(self, topic: str, publisher: str, rule: _Rule) -> str:
        if rule.ordered is not None:
            return rule.ordered
        more = 0 if topic in self._local else rule.spool
        is_local = (
            self.storage_used + more <= self.capacity.storage
            and self.compute_used + rule.spool <= self.capacity.compute
        )
        if is_local or not self._cloud:
            return self._server
        brokers = [one for one in rule.found if one not in (*self._away, self._server)]
        if brokers:
            return brokers[hashed_index(publisher.encode()) % len(brokers)]
        if topic not in self._orders:
            self.on_unplaced(topic)
        return self._cloud

    def _note(self, stream: Stream, target: str) -> None:
        if target == self._server:
            topic, publisher = stream
            spool = self._rules[stream].spool
            self._local.setdefault(topic, _Topic(spool)).publishers.add(publisher)
