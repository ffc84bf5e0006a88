"""A plan in memory: homes, where publishers send, and where brokers run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearcast.domain import plan_kinds
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray

__all__ = ["Brokers", "Model", "Objective", "Plan", "PlanReport", "PlanStatus"]

Model = plan_kinds.Model
Objective = plan_kinds.Objective
PlanStatus = plan_kinds.PlanStatus


@dataclass(frozen=True, slots=True, eq=False)
class Brokers:
    """Rows (topic, server): where a topic's messages are spooled and processed."""

    topic: IndexArray
    server: IndexArray
    on_edge: BoolArray
    """True: on the edge server itself; false: delegated by it to the cloud."""
    share: FloatArray
    """Part of this server's messages of the topic that is processed there."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The decision; every value is an index into the scenario's tables."""

    homes: IndexArray
    """Home server [client]."""
    publish: IndexArray
    """Server that this member publishes to [member row]; -1 where it does not publish."""
    brokers: Brokers


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What ``plan.json`` says."""

    model: Model
    method: str
    objective: Objective | None
    parameters: dict[str, Any]
    seed: int
    status: PlanStatus
    cost: float
    bound: float | None
    """Proven lower bound of the cost of every plan."""
    gap: float | None
    """(cost - bound) / bound; None where there is no bound or it is 0."""
    metrics: dict[str, float]
    limits: dict[str, float | None]
    seconds: float
    version: str
    scenario_fingerprint: str
    warnings: list[str] = field(default_factory=list)
    search: dict[str, Any] = field(default_factory=dict)
    """Moves per second, iterations and the like, where the method searches."""
