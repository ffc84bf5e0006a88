"""The kinds of plans: model, objective and status, for modules that do without numpy and Arrow."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Model", "Objective", "PlanStatus"]


class Model(StrEnum):
    """The published delay models."""

    CONNECTIONS = "connections"
    """M1 (2020): storage and a limit of clients per server."""
    RATIO = "ratio"
    """M2 (2021): storage and compute, overload delegated to the cloud by a ratio."""
    PLACEMENT = "placement"
    """M3 (2022): brokers placed within storage, a server per (publisher, topic)."""


class Objective(StrEnum):
    """What the placement model minimises."""

    D1 = "d1"
    """Sum of the delays of all publisher/subscriber pairs."""
    D2 = "d2"
    """The same, near pairs weighing more."""
    D3 = "d3"
    """Sum of the delays above the topic's permissible delay."""


class PlanStatus(StrEnum):
    """How far a planner got."""

    HEURISTIC = "heuristic"
    """A plan by rule; no claim about the optimum."""
    FEASIBLE = "feasible"
    """Searched until its limit; the bound says how good it is."""
    OPTIMAL = "optimal"
    """Proved optimal."""
    TIME_LIMIT = "time_limit"
    """An exact method stopped early: best plan found, with bound and gap."""
