"""The systems that can be compared, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.experiments.latency.peers import run_mosquitto, run_nats, run_zenoh
from nearcast.experiments.latency.target import Target

__all__ = ["PEERS", "SYSTEMS", "TWO_EDGES"]


@contextmanager
def _nearcast(*, inline: bool = True, two_edges: bool = False) -> Iterator[Target]:
    with run_nearcast(inline=inline, two_edges=two_edges) as server:
        load = {
            "kind": "nearcast",
            "publishers": [str(one) for one in server.publishers],
            "subscribers": [str(one) for one in server.subscribers],
        }
        yield Target(load, server.pids)


TWO_EDGES = "nearcast-two-edges"
PEERS = ("nats", "zenoh", "mosquitto")
SYSTEMS: dict[str, Callable[[], AbstractContextManager[Target]]] = {
    "nearcast": _nearcast,
    "nearcast-child": lambda: _nearcast(inline=False),
    TWO_EDGES: lambda: _nearcast(two_edges=True),
    "nats": run_nats,
    "zenoh": run_zenoh,
    "mosquitto": run_mosquitto,
}
"""Each runs inside its block and is gone after it."""
