"""Simulated sites with random members, and what everybody must have heard in them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from nearcast.server.processor_rules import Acknowledge
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.counting_processor import COUNTING
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import Confirmed
from nearcast.wire.settings import WireSettings

NOTED = "noted"
"""A processor outside the servers: the site notes all that it gets."""

QUICK = WireSettings(report_interval_s=0.5)
"""Sessions that notice within 1.5 s that the other side is gone."""

Identity = tuple[str, str, int]
"""Topic, publisher, sequence."""


@dataclass
class RandomSite:
    """A site whose members publish and subscribe at random; all is decided by the seed."""

    seed: int
    edges: int = 3
    clients: int = 8
    topics: int = 3
    spool: int = 6
    delegated: float = 0.4
    """Chance that a stream is processed by the cloud server."""
    processor: str = NOTED
    network: Network = field(default_factory=Network)
    wire: WireSettings = field(default_factory=WireSettings)
    notify_after_sync: bool = False
    takeover_s: float = 3.0
    acknowledge: Acknowledge = "one"

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.site = SimulatedSite(self.seed, self.network, self.wire)
        self.site.takeover_s = self.takeover_s
        self.site.inline_processors |= {COUNTING}
        self.site.allowed_processors |= {COUNTING}
        self.edge_names = [f"e{number}" for number in range(self.edges)]
        for name in self.edge_names:
            self.site.add_server(name)
        self.site.add_server("cloud", is_edge=False)
        self.homes = {f"c{one}": self.rng.choice(self.edge_names) for one in range(self.clients)}
        self.topic_names = [f"t{number}" for number in range(self.topics)]
        names = list(self.homes)
        self.subscribers: dict[str, list[str]] = {}
        self.publishers: dict[str, list[str]] = {}
        for topic in self.topic_names:
            self.subscribers[topic] = self.rng.sample(names, self.rng.randint(2, len(names)))
            self.publishers[topic] = self.rng.sample(names, self.rng.randint(1, 4))
        self.published: list[Identity] = []
        self._brokers: dict[str, set[str]] = {}
        """All that topics ever had."""
        self.people: dict[str, SimulatedClient] = {}
        for name, home in self.homes.items():
            self.people[name] = self.site.add_client(name, home, self.rng.random(), 1.0)
        self.targets = {
            (topic, name): "cloud" if self.rng.random() < self.delegated else self.homes[name]
            for topic in self.topic_names
            for name in self.publishers[topic]
        }

    def orders(self, revision: int = 1) -> Orders:
        """Return orders by which each stream is processed where `targets` says."""
        topics = tuple(self._topic_order(topic, revision) for topic in self.topic_names)
        clients = tuple(
            ClientOrder(
                name,
                self.homes[name],
                {topic: target for (topic, who), target in self.targets.items() if who == name},
            )
            for name, one in self.people.items()
        )
        servers = self.site.server_orders()
        return Orders(revision, revision, "cloud", servers, topics, clients)

    def _topic_order(self, topic: str, version: int) -> TopicOrder:
        brokers = {self.targets[topic, name] for name in self.publishers[topic]}
        past = self._brokers.setdefault(topic, set())
        past |= brokers
        return TopicOrder(
            topic,
            self.spool,
            tuple(sorted(brokers)),
            self.processor,
            notify_after_sync=self.notify_after_sync,
            acknowledge=self.acknowledge,
            version=version,
            moved_from=tuple(sorted(past - brokers)),
        )

    def start(self) -> None:
        """Give orders, connect everybody, subscribe, and wait until all that is settled."""
        self.site.obey(self.orders())
        self.site.connect(self.people.values())
        self.site.run(3.0)
        for topic, names in self.subscribers.items():
            for name in names:
                self.people[name].subscribe(topic, self.where(name, topic))
        wanted = sum(map(len, self.subscribers.values()))
        for _ in range(30):
            self.site.run(1.0)
            if self.confirmed == wanted:
                break
        assert self.confirmed == wanted
        self.site.run(3.0)

    @property
    def confirmed(self) -> int:
        """Subscriptions that homes have confirmed."""
        # a client that had to connect again is confirmed again
        return len(
            {
                (name, event.topic)
                for name, one in self.people.items()
                for _, event in one.events
                if isinstance(event, Confirmed)
            }
        )

    def where(self, _client: str, _topic: str) -> str:
        """Return the filter of a subscription."""
        return ""

    def attributes(self, _number: int) -> dict[str, int] | None:
        """Return the attributes of a publication, counted over all."""
        return None

    def publish(self, topic: str, publisher: str) -> None:
        """Publish something that says what it is."""
        number = len(self.published)
        payload, attributes = f"{topic} {publisher} {number}".encode(), self.attributes(number)
        sequence = self.people[publisher].publish(topic, payload, attributes=attributes)
        self.published.append((topic, publisher, sequence))

    def publish_some(self, count: int, pause_s: float = 0.02) -> None:
        """Let random publishers publish, at random times."""
        for _ in range(count):
            topic = self.rng.choice(self.topic_names)
            self.publish(topic, self.rng.choice(self.publishers[topic]))
            self.site.run(2 * pause_s * self.rng.random())

    def kill_or_restart_some(self, chance: float = 0.6) -> bool:
        """Restart a server drawn at random if it is down, else perhaps kill it; True if killed."""
        server = self.rng.choice(list(self.site.servers.values()))
        if server.node is None:
            server.restart()
        elif self.rng.random() < chance:
            server.kill()
            return True
        return False

    def restart_all(self) -> None:
        """Restart all servers that are down."""
        for server in self.site.servers.values():
            if server.node is None:
                server.restart()

    def expected(self, published: list[Identity] | None = None) -> dict[str, Counter[Identity]]:
        """What each client has to hear of what was published: by loops over members."""
        heard: dict[str, Counter[Identity]] = {name: Counter() for name in self.people}
        for topic, publisher, sequence in self.published if published is None else published:
            for name in self.subscribers[topic]:
                if name != publisher:
                    heard[name][topic, publisher, sequence] += 1
        return heard

    def heard(self) -> dict[str, Counter[Identity]]:
        """What each client was told."""
        return {
            name: Counter((one.topic, one.publisher, one.sequence) for one in client.notified)
            for name, client in self.people.items()
        }

    def spool_of(self, server: str, topic: str) -> list[Identity]:
        """What a server's spool of a topic holds, oldest first."""
        node = self.site.servers[server].node
        assert node is not None
        return [
            (topic, one.publisher, one.sequence) for one in node.broker.topics[topic].spool.view()
        ]

    @property
    def unacknowledged(self) -> int:
        """Publications that are not known to be safe."""
        return sum(one.session.unacknowledged for one in self.people.values())
