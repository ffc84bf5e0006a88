"""A small site under attack: what an attacker overhears, what it sends, and what that changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from nearcast.broker.claims import CLAIMED
from nearcast.experiments.survive.trial_site import CLOUD, TrialSite
from nearcast.server.orders_from_plan import DELEGATED
from nearcast.spool.changes import LiveTopic
from nearcast.testing.simulated_server import SimulatedServer
from nearcast.wire.actions import Connected
from nearcast.wire.framing import SESSION_HEADERS, Kind, read_header
from nearcast.wire.settings import Address

__all__ = ["AttackReport", "AttackedSite"]

_PASS = 64


@dataclass(slots=True)
class AttackReport:
    """What became of attacks."""

    attacks: Counter[str] = field(default_factory=Counter)
    """By kind."""
    bytes_in: int = 0
    bytes_out: int = 0
    """To addresses that were never proved."""
    violations: list[str] = field(default_factory=list)

    @property
    def amplification(self) -> float:
        """Bytes out per byte in."""
        return self.bytes_out / max(1, self.bytes_in)


class AttackedSite:
    """Home e0 of publisher p0 and subscriber s0; the cloud processes; e1 has no part in it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.trial = TrialSite(
            seed,
            publishers=1,
            subscribers=1,
            is_in_order=True,
            homes=("e0",),
            targets=(DELEGATED,),
        )
        self.site = self.trial.site
        self.site.is_overheard = True
        self.trial.start()
        self.trial.publish_some(20, 0.5)
        self.site.run(2.0)
        self.home, self.other = self.site.servers["e0"], self.site.servers["e1"]
        self.cloud = self.site.servers[CLOUD]
        self.report = AttackReport()
        self._proved = {one.address for one in self.site.clients.values()}

    def overheard_by(self, server: SimulatedServer, kind: Kind) -> list[bytes]:
        """Return the datagrams of a kind that were sent to a server."""
        return [
            data
            for _, target, data in self.site.overheard
            if target == server.home.address and _kind_of(data) is kind
        ]

    def send(self, server: SimulatedServer, batch: list[tuple[bytes, Address]]) -> None:
        """Send datagrams from any address, and count what comes back to unproved ones."""
        heard, received = self.site.overheard, Counter[Address]()
        refused = self._refused(server)
        for start in range(0, len(batch), _PASS):
            before = len(heard)
            for data, address in batch[start : start + _PASS]:
                received[address] += len(data)
                server.on_datagram(data, address)
            self.site.run(0.002)
            for source, target, data in heard[before:]:
                unproved = target in received and target not in self._proved
                if source == server.home.address and unproved:
                    received[target] -= len(data)
                    self.report.bytes_out += len(data)
        self.report.bytes_in += sum(len(data) for data, _ in batch)
        if min(received.values(), default=0) < 0:
            self.report.violations.append("an unproved address was sent more than came from it")
        taken = len(batch) - (self._refused(server) - refused)
        if taken > 0:
            self.report.violations.append(f"{taken} of {len(batch)} datagrams were not refused")

    @staticmethod
    def _refused(server: SimulatedServer) -> int:
        node = server.node
        return 0 if node is None or node.sessions is None else node.sessions.drops.total()

    def snapshot(self) -> dict[str, Any]:
        """Return all that an attack must not change."""
        self.trial.look()
        found: dict[str, Any] = {
            "acknowledged": sum(one.acknowledged for one in self.trial.messages),
            "heard": [one.payload for one in self.site.clients["s0"].notified],
            "sessions": [
                sum(isinstance(event, Connected) for _, event in one.events)
                for one in self.site.clients.values()
            ],
            "epochs": [one.session.epoch for one in self.site.clients.values()],
        }
        for name, server in self.site.servers.items():
            node = server.node
            found[name] = {topic: _promised(live) for topic, live in server.stored.topics.items()}
            if node is not None:
                found[f"{name} orders"] = node.orders.revision if node.orders else None
                found[f"{name} clients"] = () if node.sessions is None else node.sessions.clients
        return found

    def check(self, kind: str, before: dict[str, Any], count: int) -> None:
        """Note an attack of a kind: nothing has changed, and honest clients are served."""
        self.report.attacks[kind] += count
        self.site.run(1.0)
        after = self.snapshot()
        self.report.violations += [
            f"{kind}: {name} was {before[name]!r:.300}, is {after[name]!r:.300}"
            for name in before
            if before[name] != after[name]
        ]
        messages = self.trial.messages
        self.site.network.heal()
        self.trial.publish()
        self.site.run(5.0)
        self.trial.look()
        heard = {one.payload.decode() for one in self.site.clients["s0"].notified}
        if not messages[-1].acknowledged or messages[-1].payload not in heard:
            self.report.violations.append(f"{kind}: honest clients are not served afterwards")


def _promised(live: LiveTopic) -> LiveTopic:
    """Return what a topic's log has without the names of servers that claimed streams.

    A claim that is let in stores the claimer, once: it is asked after a restart.
    """
    positions = {
        one: position for one, position in live.positions.items() if not one.startswith(CLAIMED)
    }
    return replace(live, positions=positions)


def _kind_of(data: bytes) -> Kind:
    """Return what a datagram is; sealed ones may be marked, which headers of others are not."""
    return Kind.SEALED if data[:2] in SESSION_HEADERS else read_header(data).kind
