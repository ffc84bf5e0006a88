"""How much storage and compute a target delay needs: "obtain more capacity and reconfirm"."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from nearcast.domain.plan import Model, Objective
from nearcast.domain.scenario import FloatArray, Scenario
from nearcast.errors import ConfigError
from nearcast.planning.bounds import quick_bound
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome, make_plan

__all__ = ["Resource", "Sizing", "find_size", "scaled"]

_LARGEST_FACTOR = 1024.0
_STEPS = 8
"""Halvings of the (logarithmic) range between a factor that fails and one that works."""


class Resource(StrEnum):
    """What may grow."""

    BOTH = "both"
    STORAGE = "storage"
    COMPUTE = "compute"


@dataclass(frozen=True, slots=True, eq=False)
class Sizing:
    """The answer: a factor on all servers, and the servers that really need more."""

    target_ms: float
    reachable: bool
    limit_ms: float
    """No servers, however large, can go below this."""
    factor: float | None
    """Every server's limits times this are enough; a plan shows it. None: not reachable."""
    proved_insufficient: float
    """Below this factor no plan reaches the target: the bound is above it."""
    reached_ms: float | None
    outcome: PlanOutcome | None
    add_storage: FloatArray | None
    """What each server lacks for the plan that reaches the target [server]."""
    add_compute: FloatArray | None
    tried: list[tuple[float, float]]
    """(factor, delay reached) in the order tried."""


def scaled(scenario: Scenario, factor: float, resource: Resource) -> Scenario:
    """Return the scenario with every server's limits times a factor.

    The client limit of the connections model grows with compute.
    """
    storage = factor if resource is not Resource.COMPUTE else 1.0
    compute = factor if resource is not Resource.STORAGE else 1.0
    servers = scenario.servers
    return replace(
        scenario,
        servers=replace(
            servers,
            storage=servers.storage * storage,
            compute=servers.compute * compute,
            client_limit=np.floor(servers.client_limit * compute),
        ),
    )


def find_size(
    scenario: Scenario,
    target_ms: float,
    request: PlanRequest,
    resource: Resource = Resource.BOTH,
    on_step: Callable[[str], None] = lambda _text: None,
) -> Sizing:
    """Return the least factor on the servers with which a plan reaches the target.

    The factor found is sufficient: a plan shows it. What is proved of smaller ones is in
    `proved_insufficient`; between the two lies what the search cannot find and the bound
    cannot exclude.
    """
    if not (target_ms > 0 and math.isfinite(target_ms)):
        raise ConfigError(f"the target must be a positive number of ms, not {target_ms}")
    tried: list[tuple[float, float]] = []
    limit = _bound_ms(scaled(scenario, math.inf, resource), request)
    if limit > target_ms:
        return Sizing(target_ms, False, limit, None, math.inf, None, None, None, None, tried)

    def attempt(factor: float) -> tuple[float, PlanOutcome]:
        on_step(f"factor {factor:.3g}")
        outcome = make_plan(
            scaled(scenario, factor, resource), request, known_bound=0.0, known_limits={}
        )
        reached = _mean_ms(outcome)
        tried.append((factor, reached))
        return reached, outcome

    reached, outcome = attempt(1.0)
    low, high, best = 0.0, 1.0, (reached, outcome)
    if reached > target_ms:
        low, high, best = _grow(attempt, target_ms)
    else:
        low, high, best = _shrink(attempt, target_ms, best)
    if best[0] > target_ms:
        return Sizing(target_ms, False, limit, None, low, best[0], best[1], None, None, tried)
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        reached, outcome = attempt(middle)
        if reached <= target_ms:
            high, best = middle, (reached, outcome)
        else:
            low = middle
    reached, outcome = best
    used, servers = outcome.assessment, scenario.servers
    return Sizing(
        target_ms=target_ms,
        reachable=True,
        limit_ms=limit,
        factor=high,
        proved_insufficient=_proved_insufficient(scenario, target_ms, request, resource, high),
        reached_ms=reached,
        outcome=outcome,
        add_storage=np.maximum(used.storage_used - servers.storage, 0.0),
        add_compute=np.maximum(used.compute_used - servers.compute, 0.0),
        tried=tried,
    )


Attempt = Callable[[float], tuple[float, PlanOutcome]]


def _grow(attempt: Attempt, target_ms: float) -> tuple[float, float, tuple[float, PlanOutcome]]:
    low, high = 1.0, 2.0
    best = attempt(high)
    while best[0] > target_ms and high < _LARGEST_FACTOR:
        low, high = high, high * 2
        best = attempt(high)
    return low, high, best


def _shrink(
    attempt: Attempt, target_ms: float, best: tuple[float, PlanOutcome]
) -> tuple[float, float, tuple[float, PlanOutcome]]:
    low, high = 0.5, 1.0
    while low > 1 / _LARGEST_FACTOR:
        found = attempt(low)
        if found[0] > target_ms:
            break
        low, high, best = low / 2, low, found
    return low, high, best


def _proved_insufficient(
    scenario: Scenario, target_ms: float, request: PlanRequest, resource: Resource, high: float
) -> float:
    """Return the largest factor tried for which the bound itself is above the target."""
    low, known = 0.0, 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _bound_ms(scaled(scenario, middle, resource), request) > target_ms:
            low = known = middle
        else:
            high = middle
    return known


def _mean_ms(outcome: PlanOutcome) -> float:
    return outcome.report.metrics.get("mean_ms", outcome.report.cost)


def _bound_ms(scenario: Scenario, request: PlanRequest) -> float:
    bound = quick_bound(scenario, request.model, Objective.D1)
    if request.model is not Model.PLACEMENT:
        return bound
    from nearcast.delay.placement import placement_problem

    pairs = sum(len(left) for left, _ in placement_problem(scenario).pairs())
    return bound / max(pairs, 1)
