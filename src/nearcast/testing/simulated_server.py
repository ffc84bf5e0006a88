"""A server of a simulated site: the true state machine and spool, a made-up machine around them.

What `runtime.server` does between two events is done here in the same order; a crash may come
between any two steps of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import msgspec
from msgspec import structs

from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.errors import SpoolError
from nearcast.flow.stored import FLOW_TOPICS
from nearcast.routing.keys import CLOUD
from nearcast.server.log_rows import Row
from nearcast.server.outputs import Incident, Outputs
from nearcast.server.peer_channels import PeerChannels, draw_incarnation
from nearcast.server.server import Server
from nearcast.server.server_settings import ClientAccess, ServerSettings
from nearcast.server.signed_orders import sign_orders
from nearcast.server.site_orders import Orders
from nearcast.server.stream_targets import Capacity
from nearcast.spool.changes import LiveState
from nearcast.spool.recovery import Damage
from nearcast.testing.fake_disk import FakeDisk, PowerCutError
from nearcast.testing.machine_clock import MachineClock
from nearcast.testing.simulated_host import SimulatedHost
from nearcast.testing.simulated_spool import SimulatedSpool
from nearcast.testing.simulated_world import SimulatedWorld
from nearcast.wire.actions import Home
from nearcast.wire.noise import public_key
from nearcast.wire.settings import Address

__all__ = ["SimulatedServer"]

_DATAGRAMS_PER_PASS = 64
_BACKLOG_LIMIT = 2_000
_LONGEST_TIMER_S = 1.0


class SimulatedServer:
    """A server with a disk and a clock of its own."""

    def __init__(self, site: SimulatedWorld, name: str, capacity: Capacity, is_edge: bool) -> None:
        self._site, self.name, self._capacity, self.is_edge = site, name, capacity, is_edge
        self.key = site.random.randbytes(32)
        self.home = Home((name, 7000), public_key(self.key))
        self.clock = MachineClock(site.clock)
        self.spool = SimulatedSpool(
            FakeDisk(site.random.getrandbits(32)),
            site.segment_bytes,
            lambda: site.sync_s,
            site.later,
            self._on_committed,
            self._on_lost,
        )
        self.orders_file: bytes | None = None
        """The orders on its disk, encoded."""
        self.publications: list[Row] = []
        """What it wrote into the event log."""
        self.notifications: list[Row] = []
        self.incidents: list[Incident] = []
        self.incident_times: list[float] = []
        """When each of them happened."""
        self.damages: list[Damage] = []
        """What its spool reported as damaged, over all starts."""
        self.losses: list[str] = []
        """Why it had to end by itself."""
        self.steps = 0
        """Outputs that it carried out, over all starts."""
        self._past_counts: Counter[str] = Counter()
        self._crash_in: int | None = None
        self._backlog: list[Callable[[], None] | tuple[bytes, Address]] | None = None
        """What waits while it is paused; None: it is not."""
        self._gathered: list[tuple[bytes, Address]] = []
        """Datagrams for the next pass."""
        self.incarnation = 0
        self.node: Server | None = None
        self._wakeup = float("inf")
        self.restart()

    @property
    def counts(self) -> Counter[str]:
        """What it has counted over all starts."""
        return self._past_counts + (self.node.counts if self.node is not None else Counter())

    @property
    def stored(self) -> LiveState:
        """What a restart would find on the disk."""
        return self.spool.stored

    @property
    def saved_orders(self) -> Orders | None:
        """The orders on the disk."""
        saved = self.orders_file
        return None if saved is None else msgspec.msgpack.decode(saved, type=Orders)

    # What a test does to it

    def restart(self) -> bool:
        """Start, or restart, with what is on the disk; False when the disk does not let it."""
        self.incarnation += 1
        self._wakeup, self._backlog, self._crash_in = float("inf"), None, None
        self.clock.begin()
        try:
            recovered = self.spool.open()
        except (SpoolError, PowerCutError) as error:
            self._on_lost(error)
            return False
        self.damages += recovered.damages
        self.host = SimulatedHost(lambda request: self._site.is_deadly(request))
        site = self._site
        access = ClientAccess(site.random.randbytes, site.wire, group=site.group)
        self.node = Server(
            ServerSettings(
                self.name,
                capacity=self._capacity,
                inline_processors=site.inline_processors,
                allowed_processors=site.allowed_processors,
                takeover_s=site.takeover_s,
                net=site.nets.get(self.name, (self.name,) if self.is_edge else CLOUD),
                **site.limits,
            ),
            PeerChannels(draw_incarnation(site.random.randbytes)),
            self.clock.read,
            site.authority.trust(),
            self.key,
            recovered.state.topics,
            access if self.is_edge else None,
            damages=len(recovered.damages),
            chance=Random(f"{site.seed} {self.name} {self.incarnation}"),
        )
        if self.saved_orders is not None:
            self.do(self.node.obey_document(self._signed(self.saved_orders), self.clock.read()))
        self.wake()
        return True

    def kill(self) -> None:
        """End it with SIGKILL: what it handed over to its spool's process is still written."""
        self._end()
        self.spool.kill()

    def cut_power(self) -> None:
        """End it with its machine: what was not synced is lost."""
        self._end()
        self.spool.cut_power()

    def crash_in(self, steps: int | None) -> None:
        """Kill it after N outputs from now, maybe in the middle of a pass; None: not at all."""
        self._crash_in = steps

    def pause(self) -> None:
        """Stop it (SIGSTOP): time passes, nothing is handled."""
        if self._backlog is None:
            self._backlog = []

    def resume(self) -> None:
        """Let it go on: all that waited comes at once."""
        backlog, self._backlog = self._backlog or [], None
        batch: list[tuple[bytes, Address]] = []
        for item in [*backlog, self._on_time]:
            if isinstance(item, tuple):
                batch.append(item)
                continue
            self._take_datagrams(batch)
            batch = []
            item()

    # Events

    def on_datagram(self, data: bytes, address: Address, _port: int = 0) -> None:
        """Take a datagram of a client, if alive."""
        if self._backlog is not None:
            if len(self._backlog) < _BACKLOG_LIMIT:
                self._backlog.append((data, address))
        elif not self._site.gather_s:
            self._take_datagrams([(data, address)])
        else:
            self._gathered.append((data, address))
            if len(self._gathered) == 1:
                self._site.later(self._site.gather_s, self._take_gathered)

    def on_mesh(self, server: str, frame: bytes) -> None:
        """Take a frame of another server, if alive."""
        self._happen(lambda node: node.on_mesh(server, frame, self.clock.read()))

    def obey(self, orders: Orders) -> None:
        """Take orders that no manager sent."""
        document = self._signed(orders)
        self._happen(lambda node: node.obey_document(document, self.clock.read()))

    def _signed(self, orders: Orders) -> bytes:
        return sign_orders(self._site.authority.key, structs.replace(orders, server=self.name))

    def _on_time(self) -> None:
        self._wakeup = float("inf")
        self._happen(lambda node: node.on_timer(self.clock.read()))

    def _on_committed(self, tickets: list[int]) -> None:
        self._happen(lambda node: node.on_committed(tickets, self.clock.read()))

    def _on_processed(self, result: ProcessResult) -> None:
        self._happen(lambda node: node.on_processed([result], self.clock.read()))

    def _on_lost(self, error: Exception) -> None:
        self.losses.append(str(error))
        if isinstance(error, PowerCutError):
            self.cut_power()
        else:
            self.kill()

    def _take_gathered(self) -> None:
        batch, self._gathered = self._gathered, []
        self._take_datagrams(batch)

    def _take_datagrams(self, batch: list[tuple[bytes, Address]]) -> None:
        for start in range(0, len(batch), _DATAGRAMS_PER_PASS):
            part = batch[start : start + _DATAGRAMS_PER_PASS]
            now = self.clock.read()
            self._happen(partial(Server.on_datagrams, batch=part, now=now))
            self._happen(partial(Server.finish, now=now))

    def _happen(self, event: Callable[[Server], Outputs]) -> None:
        """Let an event happen in this incarnation, now or when the pause is over."""
        node = self.node
        if node is None:
            return
        if self._backlog is None:
            self.do(event(node))
            return
        incarnation = self.incarnation

        def afterwards() -> None:
            if incarnation == self.incarnation:
                self._happen(event)

        if len(self._backlog) < _BACKLOG_LIMIT:
            self._backlog.append(afterwards)

    # What the state machine wants done

    def do(self, out: Outputs) -> None:
        """Carry out what the server wants, unless it crashes meanwhile."""
        self.incidents += out.incidents
        self.incident_times += [self._site.now] * len(out.incidents)
        for step in self._steps(out):
            if self._crash_in is not None:
                self._crash_in -= 1
                if self._crash_in < 0:
                    self.kill()
                    return
            self.steps += 1
            step()
        self.wake()

    def _steps(self, out: Outputs) -> Iterator[Callable[[], None]]:
        site = self._site
        if out.orders is not None:
            yield partial(self._save_orders, out.orders)
        for datagram in out.datagrams:
            yield partial(site.send_datagram, self.name, self.home.address, datagram)
        for server, frame in out.mesh:
            yield partial(site.send_frame, self.name, server, frame)
        if out.to_store:
            yield partial(self.spool.append, out.to_store)
        for request in out.to_process:
            if request.topic.startswith(FLOW_TOPICS):
                yield partial(self._host_later, request)
                continue
            result = None if request.ended else site.process(self.name, request)
            if result is not None:
                yield partial(self._process_later, result)
        if out.publications:
            yield partial(self.publications.extend, out.publications)
        if out.notifications:
            yield partial(self.notifications.extend, out.notifications)

    def _process_later(self, result: ProcessResult) -> None:
        incarnation = self.incarnation

        def done() -> None:
            if incarnation == self.incarnation:
                self._on_processed(result)

        self._site.later(self._site.process_s, done)

    def _host_later(self, request: ProcessRequest) -> None:
        """Let the host of components' processors do a request, in its turn."""
        incarnation = self.incarnation

        def work() -> None:
            if incarnation == self.incarnation:
                self._take_results(cancelled or self.host.work())

        cancelled = self.host.submit(request)
        if not request.ended:  # never at once: the server is in its pass
            self._site.later(0.0 if cancelled else self._site.process_s, work)

    def end_host(self) -> None:
        """Let the host of components' processors die, and begin another one."""
        self._take_results(self.host.die())

    def _take_results(self, results: list[ProcessResult]) -> None:
        if results:
            self._happen(lambda node: node.on_processed(results, self.clock.read()))

    def _save_orders(self, orders: Orders) -> None:
        """Keep orders, durably; on a full disk a restart finds older ones."""
        if self.spool.disk.capacity_bytes is None:
            self.orders_file = msgspec.msgpack.encode(orders)

    def wake(self) -> None:
        """Plan the next timer."""
        if self.node is None:
            return
        now = self._site.now
        wanted = self.clock.true_time(self.node.next_wakeup())
        at = min(max(now, wanted), now + _LONGEST_TIMER_S)
        if at < self._wakeup:
            self._wakeup = at
            self._site.at(at, partial(self._on_timer, at, self.incarnation))

    def _on_timer(self, at: float, incarnation: int) -> None:
        if incarnation == self.incarnation and at == self._wakeup and self._backlog is None:
            self._on_time()

    def _end(self) -> None:
        self._past_counts = self.counts
        self.incarnation += 1
        self.node = self._backlog = self._crash_in = None
