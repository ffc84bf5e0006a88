"""Where servers can be in a mobile network (seed 003), and which delays that leaves to them.

Each deployment is a network between vehicles and their server; what it leaves of a class's deadline
is for the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nearcast.experiments.deadlines.probes import probe_classes
from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.sdk.credentials import Credentials, load_credentials
from nearcast.wire.message_class import MESSAGE_CLASSES

__all__ = ["DEPLOYMENTS", "BudgetPoint", "Deployment", "run"]

_HELD = 0.99
"""Share of messages in time from which on a class holds."""
_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where the servers are."""

    one_way_ms: float
    """From a vehicle to its server."""
    meaning: str

    @property
    def network_ms(self) -> float:
        """From one vehicle to its server and from there to another one."""
        return 2 * self.one_way_ms


DEPLOYMENTS: Mapping[str, Deployment] = {
    "metropolitan": Deployment(20.0, "one centre of a city: radio 10, cable 5, gateway 5 ms"),
    "carrier": Deployment(22.0, "a carrier's switching office: radio 10, way there 10, tap 2"),
    "edge": Deployment(10.0, "at the access point itself, radio only: 10 ms"),
}
"""The three of seed 003. It gives 20 ms for an office and calls its round trip slightly higher
than a centre's: 2 ms one way stand for that."""


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """One class in one deployment, without other load."""

    deployment: str
    message_class: str
    deadline_ms: float
    network_ms: float
    """Emulated."""
    system_ms: float
    """What the deadline leaves for the servers; below 0: nothing can hold it."""
    sent: int
    share_in_time: float
    p50_ms: float | None
    p99_ms: float | None
    holds: bool
    """Whether 99 % of the messages were in time."""


def run(
    names: Sequence[str],
    *,
    seconds: float = 5.0,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[BudgetPoint]:
    """Measure deployments on a live server with emulated distances."""
    with run_nearcast(publishers=1, subscribers=1, processor="forward", inline=False) as server:
        publisher, subscriber = map(load_credentials, (server.publishers[0], server.subscribers[0]))
        for name in names:
            deployment = DEPLOYMENTS[name]
            begin(f"{name}: {deployment.meaning}")
            probes = asyncio.run(
                probe_classes(
                    _far(publisher, deployment),
                    _far(subscriber, deployment),
                    MESSAGE_CLASSES,
                    seconds=seconds,
                    interval_s=_INTERVAL_S,
                    with_classes=True,
                )
            )
            for one in probes:
                yield BudgetPoint(
                    name,
                    one.message_class,
                    one.deadline_ms,
                    deployment.network_ms,
                    one.deadline_ms - deployment.network_ms,
                    one.sent,
                    one.share_in_time,
                    one.at(0.5),
                    one.at(0.99),
                    one.share_in_time >= _HELD,
                )


def _far(credentials: Credentials, deployment: Deployment) -> Credentials:
    """Return credentials of a client that is so far from its server."""
    host, port = credentials.home.address
    return replace(credentials, delays_ms={f"{host}:{port}": deployment.one_way_ms})
