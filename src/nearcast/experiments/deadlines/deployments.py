"""Whether message classes hold their deadlines in a deployment, measured on a live server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from nearcast.experiments.deadlines.probes import probe_classes
from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.sdk.credentials import Credentials, load_credentials
from nearcast.site.deployment import Deployment
from nearcast.wire.message_class import MESSAGE_CLASSES, MessageClass

__all__ = ["BudgetPoint", "run"]

_HELD = 0.99
"""Share of messages in time from which on a class holds."""
_INTERVAL_S = 0.1


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
    deployments: Mapping[str, Deployment],
    *,
    seconds: float = 5.0,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[BudgetPoint]:
    """Measure deployments on a live server with emulated distances."""
    with run_nearcast(publishers=1, subscribers=1, processor="forward", inline=False) as server:
        publisher, subscriber = map(load_credentials, (server.publishers[0], server.subscribers[0]))
        for name, deployment in deployments.items():
            begin(f"{name}: {deployment.meaning}")
            probes = asyncio.run(
                probe_classes(
                    _far(publisher, deployment),
                    _far(subscriber, deployment),
                    _classes(deployment),
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


def _classes(deployment: Deployment) -> dict[str, MessageClass]:
    """Return the message classes with the deadlines that the deployment has for them."""
    return {
        name: structs.replace(one, deadline_ms=deployment.deadline_ms(name, one.deadline_ms))
        for name, one in MESSAGE_CLASSES.items()
    }


def _far(credentials: Credentials, deployment: Deployment) -> Credentials:
    """Return credentials of a client that is so far from its server."""
    host, port = credentials.home.address
    return replace(credentials, delays_ms={f"{host}:{port}": deployment.access_ms})
