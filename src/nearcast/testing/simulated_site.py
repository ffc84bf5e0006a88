"""A whole site in one thread: real servers and sessions, a simulated network, disk and clock.

Everything follows from the seed. Delays are those of the scenario's geometry or of a function;
the network may lose, double and reorder. Groups are stored after `sync_s`; a server that is killed
loses what was not.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from nearcast.broker.processing import ProcessorRunner
from nearcast.broker.processors.forward import Forward
from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.broker.topic_spool import TopicSpool
from nearcast.server.log_rows import Row
from nearcast.server.outputs import Incident, Outputs
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.server import ClientAccess, Server
from nearcast.server.server_settings import ServerSettings
from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.server.stream_targets import Capacity
from nearcast.spool.changes import Group, LiveState
from nearcast.wire.actions import ClientEvent, Datagram, Home, SendDatagram
from nearcast.wire.client_session import ClientSession
from nearcast.wire.messages import Report
from nearcast.wire.noise import public_key
from nearcast.wire.notification import Notification
from nearcast.wire.settings import Address, WireSettings

__all__ = ["Network", "SimulatedClient", "SimulatedServer", "SimulatedSite"]

_START = 1_700_000_000.0
DelayOf = Callable[[str, str], float]


@dataclass(slots=True)
class Network:
    """What may happen between two machines."""

    loss: float = 0.0
    duplication: float = 0.0
    jitter_s: float = 0.0
    delay_s: DelayOf = lambda _from, _to: 0.001
    """By sender and receiver: ids of clients and servers."""
    cuts: set[frozenset[str]] = field(default_factory=set)
    """Pairs that cannot reach each other."""


class SimulatedServer:
    """A server with a disk of its own; `kill` and `restart` keep what was synced."""

    def __init__(self, site: SimulatedSite, name: str, capacity: Capacity, is_edge: bool) -> None:
        self._site, self.name, self._capacity, self.is_edge = site, name, capacity, is_edge
        self.key = site.random.randbytes(32)
        self.home = Home((name, 7000), public_key(self.key))
        self.stored = LiveState()
        self.saved_orders: Orders | None = None
        self.publications: list[Row] = []
        """What it wrote into the event log."""
        self.notifications: list[Row] = []
        self.incidents: list[Incident] = []
        self.incarnation = 0
        self.node: Server | None = None
        self._wakeup = float("inf")
        self.restart()

    def restart(self) -> None:
        """Start, or restart, with what is on the disk."""
        self.incarnation += 1
        self._wakeup = float("inf")
        clock, site = self._site.clock, self._site
        access = ClientAccess(self.key, site.random.randbytes, site.wire)
        self.node = Server(
            ServerSettings(self.name, capacity=self._capacity),
            PeerChannels(self.incarnation),
            clock,
            _copy(self.stored).topics,
            access if self.is_edge else None,
        )
        if self.saved_orders is not None:
            self.do(self.node.obey(self.saved_orders, clock()))
        self.wake()

    def kill(self) -> None:
        """End it: what was not synced is lost."""
        self.incarnation += 1
        self.node = None

    def do(self, out: Outputs) -> None:
        """Carry out what the server wants."""
        site, incarnation = self._site, self.incarnation
        for datagram in out.datagrams:
            site.send_datagram(self.name, self.home.address, datagram)
        for server, frame in out.mesh:
            site.send_frame(self.name, server, frame)
        for group in out.to_store:
            site.later(site.sync_s, partial(self._on_synced, group, incarnation))
        for request in out.to_process:
            result = None if request.ended else site.process(self.name, request)
            if result is not None:
                site.later(site.process_s, partial(self._on_processed, result, incarnation))
        self.publications += out.publications
        self.notifications += out.notifications
        self.incidents += out.incidents
        if out.orders is not None:
            self.saved_orders = out.orders
        self.wake()

    def wake(self) -> None:
        """Plan the next timer."""
        if self.node is None:
            return
        at = max(self._site.now, self.node.next_wakeup())
        if at < self._wakeup:
            self._wakeup = at
            self._site.at(at, partial(self._on_timer, self.incarnation))

    def on_datagram(self, data: bytes, address: Address) -> None:
        """Take a datagram of a client, if alive."""
        if self.node is not None:
            self.do(self.node.on_datagrams([(data, address)], self._site.now))

    def on_mesh(self, server: str, frame: bytes) -> None:
        """Take a frame of another server, if alive."""
        if self.node is not None:
            self.do(self.node.on_mesh(server, frame, self._site.now))

    def _on_timer(self, incarnation: int) -> None:
        if self.node is not None and incarnation == self.incarnation:
            self._wakeup = float("inf")
            self.do(self.node.on_timer(self._site.now))

    def _on_synced(self, group: Group, incarnation: int) -> None:
        if self.node is not None and incarnation == self.incarnation:
            for change in group.changes:
                self.stored.apply(change)
            self.do(self.node.on_committed([group.ticket], self._site.now))

    def _on_processed(self, result: ProcessResult, incarnation: int) -> None:
        if self.node is not None and incarnation == self.incarnation:
            self.do(self.node.on_processed([result], self._site.now))


def _copy(state: LiveState) -> LiveState:
    copied = LiveState()
    for change in state.changes():
        copied.apply(change)
    return copied


@dataclass(slots=True)
class SimulatedClient:
    """A client and all that it was told."""

    site: SimulatedSite
    name: str
    key: bytes
    session: ClientSession
    events: list[tuple[float, ClientEvent]] = field(default_factory=list)
    wakeup: float = float("inf")

    @property
    def notified(self) -> list[Notification]:
        """All notifications, in the order they came."""
        return [event for _, event in self.events if isinstance(event, Notification)]

    def go_on(self) -> None:
        """Send what the session has to send, and plan its next turn."""
        now = self.site.now
        for item in self.session.poll(now):
            if isinstance(item, SendDatagram):
                self.site.send_datagram(self.name, (self.name, 1), item)
            else:
                self.events.append((now, item))
        at = max(now, self.session.next_wakeup())
        if at < self.wakeup:
            self.wakeup = at
            self.site.at(at, self._on_timer)

    def on_datagram(self, data: bytes) -> None:
        """Take a datagram."""
        self.session.receive([data], self.site.now)
        self.go_on()

    def publish(self, topic: str, payload: bytes, *, durable: bool = True) -> int:
        """Publish now."""
        sequence = self.session.publish(topic, payload, self.site.now, durable=durable)
        self.go_on()
        return sequence

    def subscribe(self, topic: str) -> None:
        """Subscribe now."""
        self.session.subscribe(topic)
        self.go_on()

    def unsubscribe(self, topic: str) -> None:
        """End a subscription now."""
        self.session.unsubscribe(topic)
        self.go_on()

    def _on_timer(self) -> None:
        self.wakeup = float("inf")
        self.go_on()


class SimulatedSite:
    """Servers, clients, and the time between them."""

    def __init__(
        self, seed: int, network: Network | None = None, wire: WireSettings | None = None
    ) -> None:
        self.random = random.Random(seed)
        self.network, self.wire = network or Network(), wire or WireSettings()
        self.now = _START
        self.sync_s = 0.003
        self.process_s = 0.001
        self.process: Callable[[str, ProcessRequest], ProcessResult | None] = self.forward
        """What processors outside the servers, by server, make of a request; None: they hang."""
        self.processed: list[tuple[str, str, str, int, int]] = []
        """What `forward` was given: server, topic, publisher, epoch, sequence."""
        self.frames = 0
        """Frames that servers sent to each other."""
        self.servers: dict[str, SimulatedServer] = {}
        self.clients: dict[str, SimulatedClient] = {}
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def clock(self) -> float:
        """Return the time now."""
        return self.now

    def add_server(
        self, name: str, capacity: Capacity | None = None, *, is_edge: bool = True
    ) -> SimulatedServer:
        """Start a server; it waits for orders."""
        server = SimulatedServer(self, name, capacity or Capacity(), is_edge)
        self.servers[name] = server
        return server

    def add_client(
        self, name: str, home: str, x_km: float = 0.0, y_km: float = 0.0
    ) -> SimulatedClient:
        """Make a client that begins to connect to a home."""
        key = self.random.randbytes(32)
        session = ClientSession(key, self.servers[home].home, self.random.randbytes, self.wire)
        session.report(Report(x_km, y_km))
        client = self.clients[name] = SimulatedClient(self, name, key, session)
        return client

    def server_orders(self) -> tuple[ServerOrder, ...]:
        """Return the servers as orders name them."""
        return tuple(
            ServerOrder(one.name, *one.home.address, one.home.server_key)
            if one.is_edge
            else ServerOrder(one.name, "", 0, b"")
            for one in self.servers.values()
        )

    def obey(self, orders: Orders) -> None:
        """Give orders to all servers that run."""
        for server in self.servers.values():
            if server.node is not None:
                server.do(server.node.obey(orders, self.now))

    def connect(self, clients: Iterable[SimulatedClient]) -> None:
        """Let clients open their sessions."""
        for client in clients:
            client.session.connect(self.now)
            client.go_on()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            self.now, _, call = heapq.heappop(self._heap)
            call()
        self.now = end

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call something at a time."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, call))

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something after a while."""
        self.at(self.now + seconds, call)

    def transmit(self, sender: str, receiver: str, arrive: Callable[[], None]) -> None:
        """Let something travel, if it is not lost."""
        network = self.network
        if frozenset((sender, receiver)) in network.cuts:
            return
        for _ in range(1 + (self.random.random() < network.duplication)):
            if self.random.random() >= network.loss:
                delay_s = network.delay_s(sender, receiver)
                self.later(delay_s + network.jitter_s * self.random.random(), arrive)

    def send_datagram(self, sender: str, source: Address, datagram: Datagram) -> None:
        """Send a datagram between a client and a server."""
        receiver = datagram.address[0]

        def arrive() -> None:
            if receiver in self.servers:
                self.servers[receiver].on_datagram(datagram.data, source)
            elif receiver in self.clients:
                self.clients[receiver].on_datagram(datagram.data)

        self.transmit(sender, receiver, arrive)

    def send_frame(self, sender: str, receiver: str, frame: bytes) -> None:
        """Send a frame between two servers."""
        self.frames += 1

        def arrive() -> None:
            if receiver in self.servers:
                self.servers[receiver].on_mesh(sender, frame)

        self.transmit(sender, receiver, arrive)

    def forward(self, server: str, request: ProcessRequest) -> ProcessResult:
        """Process a request as `Forward` does, and note it."""
        self.processed += [
            (server, one.topic, one.publisher, one.epoch, one.sequence) for one in request.batch
        ]
        spool = TopicSpool(len(request.batch))
        for one in request.batch:
            spool.append(one)
        outcome = ProcessorRunner(Forward()).run(request.batch, spool.view())
        return ProcessResult(request.topic, request.request, outcome.notifications)
