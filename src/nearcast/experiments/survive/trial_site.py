"""A small simulated site with a workload, for one schedule of faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from nearcast.server.manager_state import (
    ManagerState,
    PlanVersion,
    SiteServer,
    with_processors,
    with_site,
)
from nearcast.server.orders_from_plan import DELEGATED, PlannedClient, PlannedTopic, SitePlan
from nearcast.server.processor_rules import ProcessorRule
from nearcast.testing.counting_processor import COUNTING
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import Acknowledged, Confirmed
from nearcast.wire.settings import WireSettings

__all__ = ["Takeover", "TrialMessage", "TrialSite"]

CLOUD = "cloud"
_NOTED_S = 2.5
"""What is durable for so long is noted in the file of ends."""
_WIRE = WireSettings(report_interval_s=1.0)


@dataclass(slots=True)
class TrialMessage:
    """A publication of the workload."""

    topic: str
    publisher: str
    sequence: int
    payload: str
    life: int
    """Of its publisher's program."""
    hearers: tuple[str, ...]
    """Clients that had a confirmed subscription when it was published."""
    published_s: float
    acknowledged_s: float | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether its publisher heard that it is safe."""
        return self.acknowledged_s is not None


@dataclass(slots=True)
class Takeover:
    """A stream that a server went on with, though others that may own it did not answer."""

    topic: str
    publisher: str
    since_s: float
    owners: dict[str, int]
    """Servers that did not answer and may still take messages, by their incarnations."""
    until_s: float
    """When the last of them was still seen to do so."""
    given_up: int = 1
    """How many did not answer."""

    def leaves_in_doubt(self, message: TrialMessage) -> bool:
        """Tell whether a message may have had its effect at the lost owner unheard."""
        return (
            (message.topic, message.publisher) == (self.topic, self.publisher)
            and message.published_s <= self.until_s
            and (message.acknowledged_s is None or message.acknowledged_s >= self.since_s)
        )


@dataclass
class TrialSite:
    """Two or three servers, publishers, subscribers and a manager; all is decided by the seed."""

    seed: int
    edges: int = 2
    publishers: int = 2
    subscribers: int = 2
    topics: int = 1
    spool: int = 1_000
    notify_after_sync: bool = False
    is_in_order: bool = False
    """Whether its network neither loses nor overtakes: subscribers must hear in order then."""
    takeover_s: float = 3.0
    """See `ServerSettings`."""
    homes: tuple[str, ...] = ()
    """Edges that plans choose homes from; empty: all."""
    targets: tuple[str, ...] = ()
    """Servers that plans choose from to process streams; empty: all."""
    messages: list[TrialMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        network = (
            Network()
            if self.is_in_order
            else Network(loss=self.rng.choice((0.0, 0.1)), duplication=0.05, jitter_s=0.005)
        )
        site = self.site = SimulatedSite(self.seed, network, _WIRE)
        site.segment_bytes, site.takeover_s = 1 << 13, self.takeover_s
        site.inline_processors |= {COUNTING}
        site.allowed_processors |= {COUNTING}
        self.edge_names = [f"e{number}" for number in range(self.edges)]
        for name in self.edge_names:
            site.add_server(name)
        site.add_server(CLOUD, is_edge=False)
        self.topic_names = [f"t{number}" for number in range(self.topics)]
        self.publisher_names = [f"p{number}" for number in range(self.publishers)]
        self.subscriber_names = [f"s{number}" for number in range(self.subscribers)]
        self.lives = dict.fromkeys(self.publisher_names, 0)
        self._read: dict[str, int] = {}
        """Events of each client and incidents of each server that were looked at."""
        self.takeovers: list[Takeover] = []
        self.damaged_s: dict[str, float] = {}
        """When something of a server's spool was last spoiled."""
        self._confirmed: set[tuple[str, str]] = set()
        for name in (*self.publisher_names, *self.subscriber_names):
            site.add_client(name, self.rng.choice(self.homes or self.edge_names))
        plan = self._draw_plan()
        self.manager = site.add_manager(self._first_state(plan), plan, CLOUD)

    # The plan

    def _draw_plan(self) -> SitePlan:
        rng, names = self.rng, (*self.publisher_names, *self.subscriber_names)
        homes = {name: rng.choice(self.homes or self.edge_names) for name in names}
        targets = self.targets or (*self.edge_names, DELEGATED)
        publish = {
            name: {topic: rng.choice(targets) for topic in self.topic_names}
            for name in self.publisher_names
        }
        topics = []
        for topic in self.topic_names:
            brokers = {publish[name][topic] for name in self.publisher_names}
            edges = tuple(sorted(brokers - {DELEGATED}))
            streams = " ".join(publish[name][topic] for name in self.publisher_names)
            topics.append(PlannedTopic(topic, self.spool, edges, DELEGATED in brokers, streams))
        every = tuple(self.topic_names)
        clients = [PlannedClient(one, homes[one], publish.get(one, {}), every) for one in names]
        return SitePlan(tuple(topics), clients)

    def _first_state(self, plan: SitePlan) -> ManagerState:
        servers = {order.server: SiteServer(order) for order in self.site.server_orders()}
        state = with_site(None, servers, plan, PlanVersion(1, 0.0, None, None, None))
        rule = ProcessorRule("#", COUNTING, notify_after_sync=self.notify_after_sync)
        return with_processors(state, [rule])

    def switch_plan(self) -> None:
        """Have the manager adopt another plan: other homes, other servers that process."""
        state = self.manager.stored
        version = PlanVersion(state.versions[-1].version + 1, 0.0, None, None, None)
        plan = self._draw_plan()
        self.manager.install(with_site(state, state.servers, plan, version), plan)

    # The workload

    def start(self) -> None:
        """Connect everybody and subscribe."""
        self.site.run(2.0)  # servers report, and get their orders
        for client in self.site.clients.values():
            client.connect()
        for name in self.subscriber_names:
            for topic in self.topic_names:
                self.site.clients[name].subscribe(topic)
        for _ in range(10):
            self.site.run(1.0)
            self.look()
            if len(self._confirmed) == self.subscribers * self.topics:
                break

    def publish(self) -> None:
        """Let a random publisher publish something that says what it is."""
        name, topic = self.rng.choice(self.publisher_names), self.rng.choice(self.topic_names)
        payload = f"{topic} {name} {len(self.messages)}"
        client = self.site.clients[name]
        hearers = tuple(one for one, subscribed in self._confirmed if subscribed == topic)
        sequence = client.publish(topic, payload.encode())
        life = self.lives[name]
        now = self.site.now
        self.messages.append(TrialMessage(topic, name, sequence, payload, life, hearers, now))
        self._look_at_takeovers()

    def publish_some(self, count: int, seconds: float) -> None:
        """Publish while time passes."""
        for _ in range(count):
            self.publish()
            self.site.run(2 * seconds / count * self.rng.random())
        self.look()

    def look(self) -> None:
        """Take note of acknowledgements, confirmations and takeovers."""
        self._look_at_takeovers()
        for name, client in self.site.clients.items():
            new = client.events[self._read.get(name, 0) :]
            self._read[name] = len(client.events)
            for at_s, event in new:
                if isinstance(event, Acknowledged):
                    self._note_acknowledged(name, event, at_s)
                elif isinstance(event, Confirmed) and event.subscribed and event.accepted:
                    self._confirmed.add((name, event.topic))

    def _look_at_takeovers(self) -> None:
        """Note new ones, and which lost owners still take messages of their streams."""
        for name, server in self.site.servers.items():
            first = self._read.get(name, 0)
            self._read[name] = len(server.incidents)
            for at, incident in enumerate(server.incidents[first:], first):
                if incident.event == "streams_taken_over":
                    since_s, lost = server.incident_times[at], incident.fields["given_up"]
                    owners = {one: self.site.servers[one].incarnation for one in lost}
                    self.takeovers += [
                        Takeover(topic, publisher, since_s, dict(owners), since_s, len(owners))
                        for topic, publishers in incident.fields["publishers"].items()
                        for publisher in publishers
                    ]
        for one in self.takeovers:
            for name in list(one.owners):
                if not self._owns(name, one):
                    del one.owners[name]
            if one.owners:
                one.until_s = self.site.now

    def doubts(self, message: TrialMessage) -> int:
        """Return how many servers may have processed a message besides its owner.

        They were given up before the message was acknowledged, and had not yet heard so, or come to
        an end, when it was published.
        """
        return sum(one.given_up for one in self.takeovers if one.leaves_in_doubt(message))

    def may_be_damaged(self, message: TrialMessage) -> bool:
        """Tell whether a message may be gone, or its place, because of a spoiled spool.

        Its server says so, unless it was written in the last moments before (see
        ``docs/decisions/2026-11-16-spool-ends-and-limits.md``).
        """
        last_s = max(self.damaged_s.values(), default=0.0)
        acknowledged_s = message.acknowledged_s or last_s
        is_told = any(self.site.servers[name].damages for name in self.damaged_s)
        return message.published_s <= last_s and (is_told or acknowledged_s >= last_s - _NOTED_S)

    def _owns(self, name: str, takeover: Takeover) -> bool:
        server = self.site.servers[name]
        if server.node is None or server.incarnation != takeover.owners[name]:
            return False
        topic = server.node.broker.topics.get(takeover.topic)
        return topic is not None and topic.claims.owners.owns(takeover.publisher)

    def _note_acknowledged(self, name: str, event: Acknowledged, at_s: float) -> None:
        for message in self.messages:
            if (
                not message.acknowledged
                and message.publisher == name
                and message.topic == event.topic
                and message.life == self.lives[name]
                and message.sequence <= event.up_to
            ):
                message.acknowledged_s = at_s

    def restart_publisher(self, name: str) -> SimulatedClient:
        """End a publisher's program and start it again; what was not acknowledged is unknown."""
        self.look()
        self.lives[name] += 1
        client = self.site.clients[name]
        self.site.restart_client(client)
        return client

    @property
    def waiting(self) -> int:
        """Publications that their publishers still repeat."""
        return sum(one.session.unacknowledged for one in self.site.clients.values())
