"""Time, chance and the network of a simulated site: what all its machines share."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from nearcast.broker.processing import ProcessorRunner
from nearcast.broker.processors.forward import Forward
from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.broker.topic_spool import TopicSpool
from nearcast.routing.keys import NetPath
from nearcast.server.server_settings import ServerSettings
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.simulated_network import Network
from nearcast.wire.actions import Datagram
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.settings import Address, WireSettings

__all__ = ["SimulatedWorld"]

_START = 1_700_000_000.0


class SimulatedWorld:
    """A clock that jumps from event to event, and the way from machine to machine."""

    def __init__(
        self, seed: int, network: Network | None = None, wire: WireSettings | None = None
    ) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.network, self.wire = network or Network(), wire or WireSettings()
        self.authority = SmallAuthority()
        self.now = _START
        """The true time."""
        self.sync_s = 0.003
        self.process_s = 0.001
        self.takeover_s = 3.0
        """Of servers that start from now on, see `ServerSettings`."""
        self.limits: dict[str, Any] = {}
        """The same: `topic_limit` and others."""
        self.nets: dict[str, NetPath] = {}
        """The same: nets of servers; an edge server without one has a net of its own."""
        self.group: GroupSettings | None = None
        """The same: the multicast group of edge servers."""
        self.listeners: dict[str, tuple[Address, Callable[[bytes], None]]] = {}
        """By machine: the multicast group that it listens to, and what takes its datagrams."""
        self.gather_s = 0.0
        """Datagrams of this long are handled by a server in one pass, as a busy one drains them."""
        self.segment_bytes = 1 << 16
        self.inline_processors = ServerSettings("").inline_processors
        self.allowed_processors = frozenset({"noted"})
        """Processors that orders may name, besides the shipped ones."""
        self.process: Callable[[str, ProcessRequest], ProcessResult | None] = self.forward
        """What processors outside the servers, by server, make of a request; None: they hang."""
        self.is_deadly: Callable[[ProcessRequest], bool] = lambda request: False
        """Tells which requests of components end the process that has their processors."""
        self.processed: list[tuple[str, str, str, int, int]] = []
        """What `forward` was given: server, topic, publisher, epoch, sequence."""
        self.frames = 0
        """Frames that servers sent to each other."""
        self.overheard: list[tuple[Address, Address, bytes]] = []
        """Datagrams by sender's and receiver's address, while `is_overheard`."""
        self.is_overheard = False
        self.on_datagram: dict[str, Callable[[bytes, Address, int], None]] = {}
        """By machine: takes data, its sender's address, and the port that it was sent to."""
        self.on_frame: dict[str, Callable[[str, bytes], None]] = {}
        """By server: takes the sender's name and a frame."""
        self._last_frame_at: dict[tuple[str, str], float] = {}
        """By sender and receiver, where the network keeps the order of frames."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def clock(self) -> float:
        """Return the true time now."""
        return self.now

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

    def send_datagram(self, sender: str, source: Address, datagram: Datagram) -> None:
        """Send a datagram between a client and a server."""
        receiver, port = datagram.address
        if self.is_overheard:
            self.overheard.append((source, datagram.address, datagram.data))
        take, data = self.on_datagram.get(receiver), datagram.data
        if take is not None:
            for delay_s in self.network.arrivals(sender, receiver, self.random):
                self.later(delay_s, lambda: take(data, source, port))
        for machine, (group, hear) in list(self.listeners.items()):
            if group == datagram.address:
                for delay_s in self.network.arrivals(sender, machine, self.random):
                    self.later(delay_s, partial(hear, data))

    def send_frame(self, sender: str, receiver: str, frame: bytes) -> None:
        """Send a frame between two servers."""
        self.frames += 1
        take = self.on_frame.get(receiver)
        if take is not None:
            for delay_s in self.network.arrivals(sender, receiver, self.random):
                when = self.now + delay_s
                if self.network.keeps_frame_order:
                    when = max(when, self._last_frame_at.get((sender, receiver), when))
                    self._last_frame_at[sender, receiver] = when
                self.at(when, lambda: take(sender, frame))

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
