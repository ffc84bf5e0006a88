"""The faults of a schedule: each breaks something now and mends it after a while."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence

from nearcast.experiments.survive.trial_site import TrialSite
from nearcast.spool.segments import SegmentName
from nearcast.testing.simulated_server import SimulatedServer
from nearcast.wire.settings import Address

__all__ = ["FAULTS", "HOSTILE", "LONG_OUTAGES_S", "SHORT_OUTAGES_S", "Faults"]

_HOUR_S = 3_600.0
_FULL_BYTES = 200
_FORGED, _REMEMBERED = 50, 500
_NOBODY: Address = ("66.6.6.6", 666)
_NOTED_S = 1.5
"""After so much rest a spool has noted where it ends."""
SHORT_OUTAGES_S = (0.05, 0.5, 2.0)
LONG_OUTAGES_S = (0.5, 10.0, 20.0, 40.0)
"""Long enough for clients to go elsewhere."""


class Faults:
    """Breaks a trial site at random; `heal` mends everything."""

    def __init__(self, trial: TrialSite, outages_s: Sequence[float] = SHORT_OUTAGES_S) -> None:
        self._trial, self._site, self._rng = trial, trial.site, trial.rng
        self._outages_s = outages_s
        self.counts: Counter[str] = Counter()
        """How often each kind of fault was injected."""
        self._healed = False

    def inject(self, kind: str) -> None:
        """Break something."""
        self.counts[kind] += 1
        _ALL[kind](self)

    def heal(self) -> None:
        """Mend everything that is still broken."""
        self._healed = True
        self._site.network.heal()
        self._site.network.loss = 0.0
        for server in self._site.servers.values():
            server.spool.disk.make_room()
            server.spool.disk.forget_faults()
            server.crash_in(None)
            server.resume()
            self._start(server)
        if self._trial.manager.node is None:
            self._trial.manager.restart()

    # What dies

    def _kill(self) -> None:
        server = self._server()
        server.kill()
        self._restart_later(server)

    def _cut_power(self) -> None:
        server = self._server()
        server.cut_power()
        self._restart_later(server)

    def _crash(self) -> None:
        """Kill a server between two outputs of a pass."""
        server = self._server()
        server.crash_in(self._rng.randrange(40))
        self._watch(server)

    def _cut_power_while_writing(self) -> None:
        server = self._server()
        server.spool.disk.cut_power_in(1 + self._rng.randrange(8))
        self._watch(server)

    def _kill_manager(self) -> None:
        self._trial.manager.kill()
        self._later(self._trial.manager.restart)

    def _restart_publisher(self) -> None:
        self._trial.restart_publisher(self._rng.choice(self._trial.publisher_names)).connect()

    # What is slow, wrong or out of reach

    def _pause(self) -> None:
        server = self._server()
        server.pause()
        self._later(server.resume)

    def _cut(self) -> None:
        pair = frozenset(self._pair())
        self._site.network.cuts.add(pair)
        self._later(lambda: self._site.network.cuts.discard(pair))

    def _cut_one_way(self) -> None:
        pair = self._pair()
        self._site.network.one_way_cuts.add(pair)
        self._later(lambda: self._site.network.one_way_cuts.discard(pair))

    def _flap(self) -> None:
        """Cut a link three times in a second."""
        pair = frozenset(self._pair())
        for third in range(3):
            self._site.later(third / 3, lambda: self._site.network.cuts.add(pair))
            self._site.later(third / 3 + 0.2, lambda: self._site.network.cuts.discard(pair))

    def _go_offline(self) -> None:
        name = self._rng.choice(list(self._site.clients))
        self._site.network.offline.add(name)
        self._later(lambda: self._site.network.offline.discard(name))

    def _move_client(self) -> None:
        """Give a client another address."""
        self._rng.choice(list(self._site.clients.values())).port += 1

    def _set_clock(self) -> None:
        """Set a server's clock; it shows at its restart, which follows."""
        server = self._server()
        server.clock.jump(self._rng.uniform(-_HOUR_S, _HOUR_S))
        server.kill()
        self._restart_later(server)

    def _fill_disk(self) -> None:
        disk = self._server().spool.disk
        disk.capacity_bytes = _FULL_BYTES
        self._later(disk.make_room)

    def _fail_sync(self) -> None:
        server = self._server()
        server.spool.disk.fail("sync", errno.EIO)
        self._watch(server)

    def _switch_plan(self) -> None:
        self._trial.switch_plan()

    # What a hostile or broken world adds

    def _forge(self) -> None:
        """Send what was overheard once more, as it was or changed, from its sender or elsewhere."""
        site, rng = self._site, self._rng
        edges = {one.home.address: one for one in site.servers.values() if one.is_edge}
        for _ in range(_FORGED if site.overheard else 0):
            source, target, data = rng.choice(site.overheard[-_REMEMBERED:])
            if rng.random() < 0.5:
                changed = bytearray(data)
                changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                data = bytes(changed)
            sender = rng.choice((source, _NOBODY))
            if target in edges:
                rng.choice((edges[target], *edges.values())).on_datagram(data, sender)
            elif target[0] in site.clients:
                site.on_datagram[target[0]](data, sender, target[1])

    def _skew_clock(self) -> None:
        """Let a machine's clock run at a wrong rate, and set it before its program's next start."""
        site = self._site
        clocks = [one.clock for one in site.servers.values()]
        clocks += [one.clock for one in site.clients.values()]
        clock = self._rng.choice([*clocks, self._trial.manager.clock])
        clock.run_at(self._rng.uniform(0.95, 1.05))
        clock.jump(self._rng.uniform(-_HOUR_S, _HOUR_S))

    def _spoil_spool(self) -> None:
        """Kill a server, and truncate, zero or flip something of its spool."""
        server, rng = self._server(), self._rng
        self._site.run(_NOTED_S)
        server.kill()
        disk = server.spool.disk
        name = str(rng.choice([one for one in map(SegmentName.parse, disk.names()) if one]))
        size = len(disk.read(name))
        start, end = sorted(rng.randrange(size) for _ in range(2))
        match rng.randrange(3):
            case 0:
                disk.truncate(name, start)
            case 1:
                disk.zero(name, start, end)
            case _:
                disk.flip_bit(name, rng.randrange(8 * size))
        self._trial.damaged_s[server.name] = self._site.now
        self._restart_later(server)

    # Chance and repair

    def _server(self) -> SimulatedServer:
        return self._rng.choice(list(self._site.servers.values()))

    def _pair(self) -> tuple[str, str]:
        """Return two machines that talk to each other, at least one of them a server."""
        server = self._server().name
        others = [*self._site.servers, *self._site.clients, "manager"]
        others.remove(server)
        pair = (server, self._rng.choice(others))
        return pair if self._rng.random() < 0.5 else (pair[1], pair[0])

    def _later(self, repair: Callable[[], None]) -> None:
        self._site.later(self._rng.choice(self._outages_s) * (0.5 + self._rng.random()), repair)

    def _restart_later(self, server: SimulatedServer) -> None:
        self._later(lambda: self._start(server))

    def _watch(self, server: SimulatedServer) -> None:
        """Restart a server as often as it dies, until all is mended."""
        self._start(server)
        if not self._healed:
            self._site.later(0.5, lambda: self._watch(server))

    def _start(self, server: SimulatedServer) -> None:
        """Start a server that is down; as its watcher does, again after a while when it fails."""
        if server.node is None and not server.restart():
            self._site.later(0.5, lambda: self._start(server))


FAULTS: dict[str, Callable[[Faults], None]] = {
    name.removeprefix("_"): getattr(Faults, name)
    for name in (
        "_kill",
        "_cut_power",
        "_crash",
        "_cut_power_while_writing",
        "_kill_manager",
        "_restart_publisher",
        "_pause",
        "_cut",
        "_cut_one_way",
        "_flap",
        "_go_offline",
        "_move_client",
        "_set_clock",
        "_fill_disk",
        "_fail_sync",
        "_switch_plan",
    )
}
"""Faults of a schedule by name, unless others are asked for."""

HOSTILE: dict[str, Callable[[Faults], None]] = {
    name.removeprefix("_"): getattr(Faults, name)
    for name in ("_forge", "_skew_clock", "_spoil_spool")
}
"""Those of a hostile schedule besides: of a spoiled spool something may be lost, but not silently."""

_ALL = FAULTS | HOSTILE
