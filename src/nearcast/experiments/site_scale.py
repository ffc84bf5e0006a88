"""What a manager and an edge server hold while a site grows to a million clients."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearcast.errors import NearcastError

__all__ = ["CLIENTS_PER_EDGE", "SIZES", "SiteScalePoint", "run"]

CLIENTS_PER_EDGE = 1_000
SIZES = (10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class SiteScalePoint:
    """A site of one size; each figure from a process of its own."""

    clients: int
    """In the plan, and enrolled."""
    edges: int
    edge_mb: float
    """What an edge server with 1,000 clients takes on when it obeys its orders."""
    orders_kb: float
    """Its signed orders."""
    manager_mb: float
    """The manager's memory after a start from its database, with the orders of one edge made."""
    edge_subscriptions: int
    """Those that an edge knows when all clients have three: of its own clients, and of others to
    the topics that it brokers."""
    subscription_messages: int
    """What other homes tell and ask that edge for it."""
    database_mb: float
    build_s: float
    """Seconds to write plan and clients into the database."""
    adopt_s: float
    """Seconds until the manager has taken in another plan of that size and it is in force."""
    orders_s: float
    """Seconds after that until all servers have their new orders."""
    stall_ms: float
    """The longest time in all this for which the manager answered nobody."""


def run(
    sizes: Sequence[int] = SIZES, *, begin: Callable[[str], None] = lambda _name: None
) -> Iterator[SiteScalePoint]:
    """Measure sites of these many clients, one after the other.

    Raises
    ------
    NearcastError
        When a process fails; the message has its last line.
    """
    for clients in sizes:
        edges = max(2, clients // CLIENTS_PER_EDGE)
        with tempfile.TemporaryDirectory(prefix="nearcast-scale-") as name:
            folder = Path(name)
            begin(f"{clients:,} clients: database")
            built = _in_process("build", clients, edges, folder)
            begin(f"{clients:,} clients: manager")
            manager = _in_process("manager", clients, edges, folder)
            begin(f"{clients:,} clients: an edge server")
            edge = _in_process("edge", clients, edges, folder)
            begin(f"{clients:,} clients: subscriptions")
            told = _in_process("subscriptions", clients, edges, folder)
        with tempfile.TemporaryDirectory(prefix="nearcast-scale-") as name:
            begin(f"{clients:,} clients: another plan")
            adoption = _in_process("plan", clients, edges, Path(name), "site_adoption_worker")
        yield SiteScalePoint(
            clients,
            edges,
            edge["edge_mb"],
            manager["orders_kb"],
            manager["manager_mb"],
            told["edge_subscriptions"],
            told["subscription_messages"],
            built["database_mb"],
            built["build_s"],
            **adoption,
        )


def _in_process(
    part: str, clients: int, edges: int, folder: Path, worker: str = "site_scale_worker"
) -> dict[str, Any]:
    task = json.dumps({"part": part, "clients": clients, "edges": edges, "folder": str(folder)})
    done = subprocess.run(
        [sys.executable, "-m", f"nearcast.experiments.{worker}", task],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NearcastError(f"{part} at {clients:,} clients failed: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
