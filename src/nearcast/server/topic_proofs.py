"""Which servers have a part in a topic though no orders here say so: those where its publishers are."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.broker.broker import Broker
from nearcast.server.home_witness import HomeWitness
from nearcast.server.mesh_messages import Manages
from nearcast.server.peers import Peers
from nearcast.server.topic_registry import TopicRegistry
from nearcast.server.vouching import Vouching
from nearcast.trust.flow_publishers import is_flow_publisher
from nearcast.wire.publication import Publication

__all__ = ["TopicProofs"]

_UNPROVED_LIMIT = 10_000


class TopicProofs:
    """What servers say of topics, until a publisher has proved it."""

    def __init__(
        self,
        peers: Peers,
        broker: Broker,
        topics: TopicRegistry,
        vouching: Vouching,
        witness: HomeWitness,
    ) -> None:
        self._peers, self._broker, self._topics = peers, broker, topics
        self._vouching, self._witness = vouching, witness
        self._unproved_count = 0
        self._limit = peers.tables.add(
            "unproved_topics", _UNPROVED_LIMIT, lambda: self._unproved_count
        )
        self._unproved: dict[tuple[str, str], dict[str, None]] = {}
        """By server and publisher: topics that the server says it manages for the publisher."""

    def announce(self, server: str, topic: str) -> None:
        """Tell a server that this one manages a topic, or did, and whom it can ask for a proof."""
        publisher, managed = "", self._broker.topics.get(topic)
        if managed is not None and not self._topics.is_ordered(topic):
            publisher = next(filter(self._witness.is_here, managed.claims.owners.owned()), "")
            self._vouching.show(server, (publisher,) if publisher else ())
        self._peers.send(server, Manages(topic, self._topics.is_past(topic), publisher))

    def look(self, server: str, topic: str, publisher: str, now: float) -> None:
        """Believe that a server manages a topic without orders once a publisher is there."""
        topics = self._topics
        if topic not in topics.here or topics.is_ordered(topic) or topics.is_proved(server, topic):
            return
        if not self._vouching.allows(server, publisher, "publish", topic, now):
            return
        if self._witness.may_speak(server, publisher, now):
            topics.prove(server, topic)
        elif self._unproved_count < self._limit:
            said = self._unproved.setdefault((server, publisher), {})
            self._unproved_count += topic not in said
            said[topic] = None

    def on_proved(self, server: str, publisher: str) -> None:
        """Believe what a server said of topics whose publisher is there indeed."""
        said = self._unproved.pop((server, publisher), {})
        self._unproved_count -= len(said)
        for topic in said:
            if topic in self._topics.here and not self._topics.is_ordered(topic):
                self._topics.prove(server, topic)

    def forget(self) -> None:
        """Forget what was not proved: orders may say it now, and servers may be gone."""
        self._unproved.clear()
        self._unproved_count = 0

    def may_copy(self, server: str, topic: str, copies: Iterable[Publication], now: float) -> bool:
        """Tell whether copies of a server need no proof, or there is one; it is asked for if not.

        Of a topic that the orders name, others copy what their clients publish, and what components
        of flows make there. What somebody has claimed is his, which is not looked at here.
        """
        if not self._topics.is_ordered(topic) or self._topics.is_named(server, topic, past=True):
            return True
        managed = self._broker.topics.get(topic)
        unclaimed = [
            one
            for one in dict.fromkeys(copy.publisher for copy in copies)
            if managed is None or not managed.claims.owners.is_claimed(one)
        ]
        unproved = [one for one in unclaimed if not self._is_there(server, topic, one, now)]
        return not unproved

    def _is_there(self, server: str, topic: str, publisher: str, now: float) -> bool:
        if is_flow_publisher(publisher):  # nobody there could prove it, and it says where it is
            return self._topics.makers.has(server, publisher, topic)
        return self._witness.may_speak(server, publisher, now)
