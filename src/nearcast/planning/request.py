"""What a planner is asked, and what it answers: the seam that every method implements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from nearcast.domain.plan import Model, Objective, PlanStatus
from nearcast.domain.plan_in_force import PlanInForce
from nearcast.domain.scenario import BoolArray, IndexArray, Scenario
from nearcast.errors import ConfigError
from nearcast.planning.relations import RelationKind

__all__ = ["Decision", "PlanRequest", "PlanningMethod", "Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life from a long search."""

    stage: str
    """What is going on: ``search``, ``bound`` or ``solve``."""
    fraction: float
    """How much of this stage is done, 0 to 1."""
    cost: float | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A question to a planner."""

    model: Model
    method: str = "optimised"
    objective: Objective = Objective.D1
    regions: int | None = None
    """K of the K-means over servers; None: choose it from the data."""
    related_clients: int = 100
    """M', the related clients that RELOC looks at."""
    relation_kind: RelationKind | None = None
    """How RELOC measures relations; None: by the size of the scenario."""
    seed: int = 0
    time_limit_s: float | None = None
    """Seconds the method may take; None: its own default length, fixed in iterations."""
    iterations: int | None = None
    """Length of the search in its own steps; makes the result reproducible."""
    bound_limit_s: float | None = None
    """Seconds for the proven bound, on top of the search; None: as the size needs."""
    start: PlanInForce | None = None
    """A plan in force to start from."""
    migration_price_ms: float = 0.0
    """What moving one spool (topic, server) away from `start` must save, in ms of summed delay."""
    on_progress: Callable[[Progress], None] | None = field(default=None, repr=False)
    """Called from the planner's thread every now and then; must return fast and not raise."""

    def __post_init__(self) -> None:
        if self.regions is not None and self.regions < 1:
            raise ConfigError(f"regions must be 1 or more, not {self.regions}")
        for limit_s in (self.time_limit_s, self.bound_limit_s):
            if limit_s is not None and not limit_s > 0:
                raise ConfigError(f"a time limit must be positive, not {limit_s}")
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"iterations must be 1 or more, not {self.iterations}")
        if not self.migration_price_ms >= 0:
            raise ConfigError(
                f"the migration price must not be negative: {self.migration_price_ms}"
            )
        if self.seed < 0:
            raise ConfigError(f"the seed must not be negative: {self.seed}")


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A method's answer; `planning.solve` turns it into a plan with metrics and limits."""

    homes: IndexArray
    """Home server [client]."""
    publish: IndexArray | None = None
    """Server [member row] a publisher sends to, -1 elsewhere; None: its home."""
    brokers: BoolArray | None = None
    """z [topic, server] of the placement model; None: derived from `publish`."""
    status: PlanStatus = PlanStatus.HEURISTIC
    bound: float | None = None
    """Proven lower bound of the cost (Y, or the sum for the placement model), if known."""
    search: dict[str, Any] = field(default_factory=dict)
    """What the search wants to tell: iterations, moves_per_second, trace ..."""


class PlanningMethod(Protocol):
    """A way to plan. Users add their own through the entry point group ``nearcast.planners``."""

    name: str
    models: frozenset[Model]
    """The models it can plan for."""

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return homes for every client; called once per request, must not change its inputs.

        Raises
        ------
        PlanningError
            When no plan can be made; the message says what to do.
        """
        ...
