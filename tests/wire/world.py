"""A small world for tests: servers, clients, a bad network between them, and one clock.

Everything follows from the seed. The network loses, doubles, delays and reorders datagrams; an
eavesdropper forges, cuts and replays what it sees, from addresses of its own.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from nearcast.broker.sequence_gate import SequenceGate, Verdict
from nearcast.testing.authority import admit_keys
from nearcast.wire.actions import (
    Acknowledged,
    ClientEvent,
    Deliver,
    Home,
    SendDatagram,
    ServerEvent,
    SessionClosed,
)
from nearcast.wire.client_session import ClientSession
from nearcast.wire.messages import Subscribe, Unsubscribe
from nearcast.wire.noise import public_key
from nearcast.wire.notification import Notification
from nearcast.wire.publication import Origin, Publication
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.settings import Address, WireSettings

START = 1_700_000_000.0
TICK_S = 0.001


@dataclass
class Network:
    loss: float = 0.0
    duplication: float = 0.0
    least_delay_s: float = 0.002
    most_delay_s: float = 0.002
    attacks: float = 0.0
    """Forged, cut or replayed datagrams per true one."""


@dataclass
class Broker:
    """Stands for the spool: takes publications in order, acknowledges after a sync."""

    taken: dict[tuple[str, str], list[tuple[int, bytes]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    gates: dict[str, SequenceGate] = field(default_factory=dict)
    once: list[tuple[str, Publication]] = field(default_factory=list)
    repeated: int = 0
    refused: int = 0


class Server:
    def __init__(self, world: World, name: str, key: bytes, settings: WireSettings) -> None:
        self.world = world
        self.home = Home((name, 7000), public_key(key))
        self.sessions = ServerSessions(key, world.admit, world.random.randbytes, settings)
        self.broker = world.broker
        self.events: list[ServerEvent] = []
        self.bytes_in: Counter[Address] = Counter()
        self.bytes_out: Counter[Address] = Counter()
        self.datagrams_out = 0
        self.proved: set[Address] = set()
        self.is_busy: Callable[[Publication], bool] = lambda one: False
        self.sync_s = 0.003
        self.skew_s = 0.0

    @property
    def now(self) -> float:
        """The time by the server's own clock."""
        return self.world.now + self.skew_s

    def receive(self, batch: list[tuple[bytes, Address]]) -> None:
        for data, address in batch:
            self.bytes_in[address] += len(data)
        self.handle(self.sessions.receive(batch, self.now))
        for client in self.sessions.clients:
            if (place := self.sessions.address_of(client)) is not None:
                self.proved.add(place)

    def handle(self, events: list[ServerEvent]) -> None:
        self.events.extend(events)
        for event in events:
            if isinstance(event, Publication):
                self.take(event)
            elif isinstance(event, Deliver) and isinstance(event.message, Subscribe | Unsubscribe):
                message = event.message
                accepted = message.topic != "forbidden"
                self.sessions.confirm(event.client, message.request, accepted)

    def take(self, one: Publication) -> None:
        client = one.publisher
        if one.origin is Origin.ONCE:
            self.broker.once.append((client, one))
            return
        gate = self.broker.gates.setdefault(one.topic, SequenceGate())
        released = gate.advance(client, one.epoch, one.oldest - 1)
        if one.sequence == gate.streams[client].sequence + 1 and self.is_busy(one):
            self.broker.refused += 1
            self.sessions.busy(client, 0.2, one.topic)
            return
        verdict, more = gate.admit(one)
        self.broker.repeated += verdict is Verdict.DUPLICATE
        for each in (*released, *more):
            self.broker.taken[client, one.topic].append((each.sequence, each.payload))
        if missing := gate.missing(client):
            (first, last), *_ = missing
            self.sessions.nack(client, one.topic, one.epoch, first, last - first + 1)
        up_to = gate.streams[client].sequence
        self.world.later(
            self.sync_s,
            lambda: self.sessions.acknowledge(client, one.topic, one.epoch, up_to),
        )

    def flush(self) -> None:
        for send in self.sessions.flush(self.now):
            self.datagrams_out += 1
            self.bytes_out[send.address] += len(send.data)
            if send.address not in self.proved:
                assert self.bytes_out[send.address] <= self.bytes_in[send.address]
            self.world.transmit(send.data, self.home.address, send.address)


class Client:
    def __init__(
        self, world: World, name: str, home: Home, settings: WireSettings, skew_s: float
    ) -> None:
        self.world = world
        key = world.random.randbytes(32)
        world.enrolled[public_key(key)] = name
        self.session = ClientSession(key, home, world.random.randbytes, settings, client=name)
        self.addresses: list[Address] = [(f"10.{len(world.clients)}.0.1", 5000)]
        self.events: list[ClientEvent] = []
        self.acked: dict[str, int] = {}
        self.published: Counter[str] = Counter()
        self.skew_s = skew_s
        self.session.connect(self.now)

    @property
    def now(self) -> float:
        """The time by the client's own clock."""
        return self.world.now + self.skew_s

    @property
    def address(self) -> Address:
        return self.addresses[-1]

    @property
    def notified(self) -> list[tuple[str, int, int]]:
        return [
            (event.topic, event.sequence, event.part)
            for event in self.events
            if isinstance(event, Notification)
        ]

    def publish_next(self, topic: str) -> None:
        """Publish the next number of this topic."""
        self.published[topic] += 1
        self.session.publish(topic, b"%d" % self.published[topic], self.now)

    def move(self) -> None:
        host, port = self.address
        self.addresses.append((host, port + 1))
        self.session.moved(self.now)

    def poll(self) -> None:
        for action in self.session.poll(self.now):
            if isinstance(action, SendDatagram):
                self.world.transmit(action.data, self.address, action.address)
                continue
            self.events.append(action)
            if isinstance(action, Acknowledged):
                assert action.up_to > self.acked.get(action.topic, 0)
                self.acked[action.topic] = action.up_to


class World:
    def __init__(
        self, seed: int, network: Network | None = None, settings: WireSettings | None = None
    ) -> None:
        self.random = random.Random(seed)
        self.network = network or Network()
        self.settings = settings or WireSettings()
        self.now = START
        self.enrolled: dict[bytes, str] = {}
        self.admit = admit_keys(self.enrolled)
        self.servers: dict[Address, Server] = {}
        self.clients: list[Client] = []
        self.broker = Broker()
        self.seen: list[tuple[bytes, Address]] = []
        """Datagrams that an eavesdropper saw, with where they went."""
        self.attacks = 0
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._in_flight: list[tuple[float, int, bytes, Address, Address]] = []
        self._number = 0
        self._next_prune = START

    def add_server(self, name: str = "edge", key: bytes | None = None) -> Server:
        server = Server(self, name, key or self.random.randbytes(32), self.settings)
        self.servers[server.home.address] = server
        return server

    def add_client(self, name: str, home: Home, skew_s: float = 0.0) -> Client:
        client = Client(self, name, home, self.settings, skew_s)
        self.clients.append(client)
        return client

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + delay_s, self._number, call))

    def transmit(self, data: bytes, source: Address, target: Address) -> None:
        assert len(data) <= self.settings.datagram_limit
        net, rng = self.network, self.random
        copies = (rng.random() >= net.loss) + (rng.random() < net.duplication)
        for _ in range(copies):
            self._put(data, source, target)
        self.seen.append((data, target))
        for _ in range(int(net.attacks + rng.random())):
            self._put(self.forge(), (f"66.6.{rng.randrange(4)}.6", 666), self._any_target(target))
            self.attacks += 1

    def forge(self) -> bytes:
        """Return a changed, cut, extended, replayed or invented datagram."""
        rng = self.random
        data, _ = self.seen[rng.randrange(len(self.seen))]
        match rng.randrange(5):
            case 0:
                position = rng.randrange(len(data))
                flipped = data[position] ^ 1 << rng.randrange(8)
                return data[:position] + bytes([flipped]) + data[position + 1 :]
            case 1:
                return data[: rng.randrange(len(data))]
            case 2:
                return (data + rng.randbytes(rng.randrange(1, 40)))[: self.settings.datagram_limit]
            case 3:
                return data
            case _:
                return data[: rng.randrange(8)] + rng.randbytes(rng.randrange(400))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.now + seconds
        while not until():
            self.step()
            times = [self._next_prune]
            times += [item[0] for item in self._queue[:1]]
            times += [item[0] for item in self._in_flight[:1]]
            times += [client.session.next_wakeup() - client.skew_s for client in self.clients]
            times += [one.sessions.next_wakeup() - one.skew_s for one in self.servers.values()]
            self.now = max(self.now + TICK_S / 10, min(times))
            if self.now >= end:
                self.now = end
                return

    def step(self) -> None:
        """Do all that is due now: one batch per receiver."""
        while self._queue and self._queue[0][0] <= self.now:
            heapq.heappop(self._queue)[2]()
        batches: dict[Address, list[tuple[bytes, Address]]] = {}
        while self._in_flight and self._in_flight[0][0] <= self.now:
            _, _, data, source, target = heapq.heappop(self._in_flight)
            batches.setdefault(target, []).append((data, source))
        for target, batch in batches.items():
            if target in self.servers:
                self.servers[target].receive(batch)
            for client in self.clients:
                if client.address == target:
                    client.session.receive([data for data, _ in batch], client.now)
        if self.now >= self._next_prune:
            self._next_prune = self.now + 1.0
            for server in self.servers.values():
                server.handle(server.sessions.prune(server.now))
        for client in self.clients:
            client.poll()
        for server in self.servers.values():
            server.flush()

    def closed(self) -> list[SessionClosed]:
        return [
            event
            for server in self.servers.values()
            for event in server.events
            if isinstance(event, SessionClosed)
        ]

    def _put(self, data: bytes, source: Address, target: Address) -> None:
        net = self.network
        delay_s = self.random.uniform(net.least_delay_s, net.most_delay_s)
        due = round((self.now + delay_s) / TICK_S) * TICK_S
        self._number += 1
        heapq.heappush(self._in_flight, (due, self._number, data, source, target))

    def _any_target(self, target: Address) -> Address:
        others = [*self.servers, *(client.address for client in self.clients), target]
        return others[self.random.randrange(len(others))]
