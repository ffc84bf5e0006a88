"""What an exact method answers."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.domain.plan import PlanStatus
from nearcast.domain.scenario import BoolArray, IndexArray

__all__ = ["ExactResult"]


@dataclass(frozen=True, slots=True, eq=False)
class ExactResult:
    """The best plan found and what is proved about it."""

    homes: IndexArray
    cost: float
    bound: float
    """No plan costs less (to 1e-7 of it)."""
    status: PlanStatus
    """OPTIMAL, or TIME_LIMIT when the proof was not finished."""
    seconds: float
    nodes: int = 0
    """Parts that the search space was divided into."""
    publish: IndexArray | None = None
    """Server [member row] a publisher sends to; None: its home."""
    brokers: BoolArray | None = None
    """z [topic, server] of the placement model."""
