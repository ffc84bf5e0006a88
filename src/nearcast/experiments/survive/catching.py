"""Small parts of the proof by name: each tells whether it notices that something is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from nearcast.experiments.survive.attacked_site import AttackedSite
from nearcast.experiments.survive.attacks import ATTACKS
from nearcast.experiments.survive.bad_input import BadInputReport, feed
from nearcast.experiments.survive.hostile_members import run_hostile_members
from nearcast.experiments.survive.lies import LIES
from nearcast.experiments.survive.revoked_home import RevokedHome
from nearcast.experiments.survive.schedule import run_long_outages, run_schedule
from nearcast.experiments.survive.trial_site import TrialSite
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.spool.changes import Group, Position, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.testing.fake_disk import FakeDisk
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.rights import Rights
from nearcast.wire.actions import Acknowledged, Confirmed

__all__ = [
    "SEEDS",
    "attack",
    "bad_input",
    "hostile_members",
    "long_outages",
    "revoked_home",
    "rights",
    "schedules",
    "servers_without_manager",
    "truncation",
]

SEEDS = range(60)
"""Of schedules; one that is known to show a bug may be named before them."""


def schedules(*kinds: str, seeds: Sequence[int] = SEEDS) -> bool:
    """Run schedules of these faults until one finds a violation, or raises."""
    for seed in seeds:
        try:
            if run_schedule(seed, kinds).findings.violations:
                return True
        except Exception:  # a bug may also show like this
            return True
    return False


def long_outages(*seeds: int) -> bool:
    """Run schedules of outages after which clients go elsewhere."""
    return any(run_long_outages(seed).findings.violations for seed in seeds)


def attack(kind: str, each: int = 100) -> bool:
    """Run an attack."""
    attacked = AttackedSite(2)
    before = attacked.snapshot()
    {**ATTACKS, **LIES}[kind](attacked, each)
    attacked.check(kind, before, each)
    return bool(attacked.report.violations) or attacked.report.amplification > 1


def hostile_members() -> bool:
    """Let a client and a server send anything."""
    return bool(run_hostile_members(1_000, 1).violations)


def bad_input(reader: str) -> bool:
    """Give a reader bad bytes."""
    report = BadInputReport()
    feed(reader, 5_000, 1, report)
    return bool(report.violations)


def rights() -> bool:
    """Let a client without rights publish and subscribe."""
    site = SimulatedSite(1)
    site.add_server("e0")
    client = site.add_client("c", "e0", rights=Rights(("allowed",), ("allowed",)))
    order = ClientOrder("c", "e0")
    site.obey(Orders(1, 1, "cloud", site.server_orders(), (), (order,)))
    client.connect()
    site.run(3.0)
    client.subscribe("secret")
    client.publish("secret", b"x")
    site.run(5.0)
    return any(
        isinstance(event, Acknowledged) or (isinstance(event, Confirmed) and event.accepted)
        for _, event in client.events
    )


def servers_without_manager() -> bool:
    """Start all servers anew while the manager is away: they go by the orders that they have."""
    trial = TrialSite(1, is_in_order=True)
    trial.start()
    trial.manager.kill()
    for server in trial.site.servers.values():
        server.kill()
        server.restart()
    trial.site.run(5.0)
    trial.publish_some(10, 2.0)
    trial.site.run(20.0)
    return trial.waiting > 0


def revoked_home() -> bool:
    """Revoke a home that does not tell its client."""
    return bool(RevokedHome(1).violations())


def truncation() -> bool:
    """Cut the newest segment of a sealed log in half: what was acknowledged is missed loudly."""
    disk = FakeDisk(1)
    log = SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 12))
    for ticket in range(10):
        change = TopicChange("t", (b"record",), 99, (Position("p", 1, ticket + 1),))
        log.append(Group(ticket, (change,)))
        log.commit()
    log.close()
    name = max(one for one in disk.names() if one.startswith("segment-"))
    disk.write(name, 200, bytes(len(disk.read(name)) - 200))
    found = SpoolLog.open(disk).recovered
    kept = found.state.topics["t"].positions.get("p") if "t" in found.state.topics else None
    return (kept is None or kept.sequence < 10) and not found.damages
