"""The settings of a server of a site, whichever its role."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearcast.broker.guard import GuardSettings
from nearcast.server.stream_targets import Capacity

__all__ = ["NodeSettings"]


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A server of a site."""

    server: str
    manager: str = "manager"
    capacity: Capacity = field(default_factory=Capacity)
    default_spool: int = 100
    """Spool of a topic that the orders do not name."""
    inline_processors: frozenset[str] = frozenset(
        {"forward", "echo", "proximity", "speeding", "threshold"}
    )
    """Processors that run in the server itself; others run outside and cannot stop it."""
    guard: GuardSettings = field(default_factory=GuardSettings)
    retry_after_s: float = 0.2
    """When publishers that were told to wait try again."""
    report_interval_s: float = 2.0
    """How often the manager hears of the load."""
    inform_s: float = 1.0
    """How long a server that starts waits to hear all subscribers before it processes."""
