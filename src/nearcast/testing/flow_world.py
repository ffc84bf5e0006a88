"""Servers that run flows over a mesh in memory, with logs that forget what was not synced."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from nearcast.broker.processing import ProcessorRunner
from nearcast.broker.registry import make_processor
from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.flow.flow import Component, ContentMapping, Flow
from nearcast.flow.flow_actions import FlowIncident
from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.flow_runtime import FlowRuntime
from nearcast.flow.flow_settings import FlowSettings
from nearcast.flow.ledger import Ledger
from nearcast.flow.messages import FlowMessage
from nearcast.flow.stored import FLOW_TOPICS, StoredInstance, StoredName, decode_instance
from nearcast.routing.keys import NetPath
from nearcast.spool.changes import Group, LiveState
from nearcast.testing.recording_processor import RECORDING
from nearcast.testing.simulated_host import SimulatedHost
from nearcast.wire.publication import Publication

__all__ = ["RECORDING_FLOW", "FlowWorld", "WorldServer"]

_BY_KEY = ContentMapping(field="key")
RECORDING_FLOW = Flow(
    "recording",
    ("in",),
    {
        "first": Component(RECORDING, ("in",), "between", mapping=_BY_KEY),
        "second": Component(RECORDING, ("between",), "out", mapping=_BY_KEY),
        "apart": Component("forward", ("in",), "aside"),
    },
)
"""Two components in a row that keep states, and one without."""


@dataclass
class WorldServer:
    """A server with its log; what is not committed is gone when it is killed."""

    name: str
    durable: LiveState = field(default_factory=LiveState)
    uncommitted: list[Group] = field(default_factory=list)
    runtime: FlowRuntime | None = None
    """None while it is down."""
    host: SimulatedHost = field(default_factory=SimulatedHost)
    """Has the processors that do not run in the server."""


class FlowWorld:
    """A site of flow runtimes under a seeded schedule.

    Messages of one server to another come in order; those under way are lost when either of the
    two is killed. Publishers repeat what was not stored.
    """

    def __init__(
        self,
        names: Iterable[str],
        seed: int,
        settings: FlowSettings | None = None,
        flow: Flow = RECORDING_FLOW,
        is_hosted: bool = False,
    ) -> None:
        self._is_hosted = is_hosted
        self.is_deadly: Callable[[ProcessRequest], bool] = lambda request: False
        """Tells which requests end the hosts of processors."""
        self.rng = Random(seed)
        self.now = 0.0
        self.settings = settings or FlowSettings()
        self.servers = {name: WorldServer(name) for name in names}
        self.named = set(self.servers)
        """Servers of the orders."""
        self.revision = 1
        self.uninformed: set[str] = set()
        """Servers that go by earlier orders."""
        first = min(self.servers)
        self.orders: tuple[FlowOrder, ...] = (
            FlowOrder(flow, 1, dict.fromkeys(flow.components, first)),
        )
        self.links: defaultdict[tuple[str, str], deque[FlowMessage]] = defaultdict(deque)
        self.published: dict[str, list[tuple[str, int]]] = {}
        """By key: publisher and number of all that was published."""
        self.unstored: dict[str, deque[Publication]] = {name: deque() for name in self.servers}
        """What publishers repeat, by the server that stores it."""
        self._under_commit: dict[tuple[str, int], int] = {}
        """By server and ticket: how many of the oldest unstored ones it stores."""
        self._tapped: dict[str, int] = dict.fromkeys(self.servers, 0)
        self._numbers: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._sequences: defaultdict[str, int] = defaultdict(int)
        self._tickets = 0
        self.heard: dict[tuple[str, int, int], bytes] = {}
        """Output by publisher, epoch and sequence, as a broker has it."""
        self.incidents: list[tuple[str, FlowIncident]] = []
        self._blamed: set[tuple[str, bytes]] = set()
        """Messages at which a host has died, by instance."""
        for name in self.servers:
            self.start(name)

    # Servers

    def start(self, name: str) -> None:
        """Start a server from its log."""
        server = self.servers[name]
        server.durable.begin_generation()
        server.host = SimulatedHost(lambda request: self.is_deadly(request))
        server.runtime = FlowRuntime(
            name,
            (name,),
            self._make_runner,
            None,
            self.settings,
            _copy(server.durable).topics,
            self._ticket,
            self.rng,
            lambda: self.now,
        )
        server.runtime.obey(self.orders, self.named, self.revision, self.now)
        for other in self.servers.values():
            if other.runtime is not None and other is not server:
                other.runtime.on_restarted(name, self.now)
                self.end_pass(other.name)
        self.end_pass(name)

    def _make_runner(self, component: Component) -> ProcessorRunner | None:
        if self._is_hosted:
            return None
        return ProcessorRunner(make_processor(component.processor, component.options))

    def kill(self, name: str) -> None:
        """End a server; of what its log was given any first part may be durable."""
        server = self.servers[name]
        if server.runtime is None:
            return
        self._commit(server, self.rng.randrange(len(server.uncommitted) + 1))
        server.runtime = None
        server.uncommitted.clear()
        self._tapped[name] = 0
        for ends, messages in self.links.items():
            if name in ends:
                messages.clear()

    def remove(self, name: str) -> None:
        """Take a server out of the orders; it never comes back."""
        self.kill(name)
        self.named.discard(name)
        self.unstored[name].clear()
        self.revision += 1
        self.uninformed = {one for one in self.named if self.servers[one].runtime is not None}

    def inform(self, name: str) -> None:
        """Give the orders to a server."""
        runtime = self.servers[name].runtime
        self.uninformed.discard(name)
        if runtime is not None:
            runtime.obey(self.orders, self.named, self.revision, self.now)
            self.end_pass(name)

    # Events

    def publish(self, name: str, publisher: str, key: str) -> None:
        """Publish the next message of a publisher that has its home at a server."""
        self._numbers[publisher, key] += 1
        number = self._numbers[publisher, key]
        self._sequences[publisher] += 1
        body = json.dumps({"key": key, "publisher": publisher, "number": number}).encode()
        message = Publication("in", publisher, 1, self._sequences[publisher], 0, 0, 0.0, 0.0, body)
        self.published.setdefault(key, []).append((publisher, number))
        self.unstored[name].append(message)
        self.store(name)

    def store(self, name: str) -> None:
        """Let a server store what publishers want stored there, unless it is down or busy."""
        runtime, waiting = self.servers[name].runtime, self.unstored[name]
        fresh = list(waiting)[self._tapped[name] :]
        if runtime is None or not fresh or runtime.is_full("in"):
            return
        ticket = self._ticket()
        changes = runtime.tap("in", fresh, ticket)
        self._tapped[name] += len(fresh)
        self._under_commit[name, ticket] = len(fresh)
        self.servers[name].uncommitted.append(Group(ticket, changes))
        self.end_pass(name)

    def deliver(self, ends: tuple[str, str]) -> None:
        """Deliver the oldest message between two servers."""
        sender, receiver = ends
        runtime = self.servers[receiver].runtime
        if runtime is not None and self.links[ends]:
            runtime.on_message(sender, self.links[ends].popleft(), self.now)
            self.end_pass(receiver)

    def commit(self, name: str, groups: int) -> None:
        """Make the oldest groups of a server durable, and tell it."""
        server = self.servers[name]
        tickets = self._commit(server, groups)
        if server.runtime is not None and tickets:
            server.runtime.on_committed(tickets, self.now)
            self.end_pass(name)

    def run(self, name: str) -> None:
        """Let a server process."""
        runtime = self.servers[name].runtime
        if runtime is not None:
            runtime.run(self.now)
            self.end_pass(name)

    def work(self, name: str) -> None:
        """Let a server's host of processors do one request."""
        self._take_results(name, self.servers[name].host.work())

    def end_host(self, name: str) -> None:
        """Let a server's host of processors die, but not twice at one message alone."""
        host = self.servers[name].host
        batch = host.head.batch if host.head is not None else ()
        if len(batch) == 1:
            blamed = (host.head.topic if host.head else "", batch[0].record())
            if blamed in self._blamed:
                return
            self._blamed.add(blamed)
        self._take_results(name, host.die())

    def _take_results(self, name: str, results: list[ProcessResult]) -> None:
        runtime = self.servers[name].runtime
        if runtime is not None and results:
            for result in results:
                runtime.on_processed(result)
            self.end_pass(name)

    def tick(self, name: str) -> None:
        """Let a server do what is due."""
        runtime = self.servers[name].runtime
        if runtime is not None and runtime.next_wakeup <= self.now:
            runtime.on_timer(self.now)
            self.end_pass(name)

    def end_pass(self, name: str) -> None:
        """Carry out what a server wants done."""
        server = self.servers[name]
        if server.runtime is None:
            return
        actions = server.runtime.take_actions(self.now)
        for receiver, message in actions.sends:
            if self.servers[receiver].runtime is not None:
                self.links[name, receiver].append(message)
        if actions.to_store is not None:
            server.uncommitted.append(actions.to_store)
        for one in actions.publications:
            identity = one.publisher, one.epoch, one.sequence
            assert self.heard.setdefault(identity, one.payload) == one.payload
            server.runtime.on_published(one.topic, one.publisher, one.epoch, one.sequence)
        self.incidents += [(name, one) for one in actions.incidents]
        cancelled = [one for request in actions.to_process for one in server.host.submit(request)]
        self._take_results(name, cancelled)

    def settle(self) -> None:
        """Start and inform all servers, and go on until nothing is left to do."""
        for name in sorted(self.uninformed):
            self.inform(name)
        for name, server in self.servers.items():
            if server.runtime is None and name in self.named:
                self.start(name)
        for _ in range(2_000):
            self._exhaust()
            wakeups = [one.runtime.next_wakeup for one in self.servers.values() if one.runtime]
            if min(wakeups) == float("inf") and not any(self.unstored.values()):
                return
            self.now = max(self.now, min(wakeups))
            for name in self.servers:
                self.tick(name)
        raise AssertionError("the site does not come to rest")

    def _exhaust(self) -> None:
        busy = True
        while busy:
            busy = False
            for ends, messages in list(self.links.items()):
                while messages and self.servers[ends[1]].runtime is not None:
                    self.deliver(ends)
                    busy = True
            for name, server in self.servers.items():
                self.store(name)
                if server.uncommitted:
                    self.commit(name, len(server.uncommitted))
                    busy = True
                while server.runtime is not None and len(server.host):
                    self.work(name)
                    busy = True
                if server.runtime is not None and server.runtime.has_work:
                    self.run(name)
                    busy = True

    # What came of it

    def holders(self, component: str, net: NetPath, index: int) -> list[str]:
        """Return the servers that would process an index, as their logs say."""
        return [
            name
            for name, stored in self._stored(component).items()
            if Ledger(stored.ledger).server_of(net, index) == name
        ]

    def states(self, component: str) -> dict[str, dict[str, list[tuple[str, int]]]]:
        """Return the processors' states of a component by server, as they are stored."""
        found = {}
        for name, stored in self._stored(component).items():
            seen = json.loads(stored.state) if stored.state else {}
            found[name] = {
                key: [(publisher, number) for publisher, number in messages]
                for key, messages in seen.items()
            }
        return found

    def _stored(self, component: str) -> dict[str, StoredInstance]:
        found = {}
        for name in self.named:
            for topic, live in self.servers[name].durable.topics.items():
                if topic.startswith(FLOW_TOPICS) and live.state is not None:
                    stored = StoredName.parse(topic)
                    if (stored.kind, stored.component) == ("instance", component):
                        found[name] = decode_instance(live.state)
        return found

    def _commit(self, server: WorldServer, groups: int) -> list[int]:
        tickets = []
        for group in server.uncommitted[:groups]:
            for change in group.changes:
                server.durable.apply(change)
            stored = self._under_commit.pop((server.name, group.ticket), 0)
            for _ in range(stored):
                self.unstored[server.name].popleft()
            self._tapped[server.name] -= stored
            tickets.append(group.ticket)
        del server.uncommitted[:groups]
        return tickets

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets


def _copy(state: LiveState) -> LiveState:
    copy = LiveState()
    for change in state.changes():
        copy.apply(change)
    return copy
