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
from nearcast.planning.assessment import Assessment
from nearcast.planning.bounds import quick_bound
from nearcast.planning.optimised import search_plan
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import complete

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
            storage=_times(servers.storage, storage),
            compute=_times(servers.compute, compute),
            client_limit=np.floor(_times(servers.client_limit, compute)),
        ),
    )


def _times(limit: FloatArray, factor: float) -> FloatArray:
    """Return limit * factor; nothing stays nothing, however large the factor."""
    with np.errstate(invalid="ignore"):
        return np.where(limit > 0, limit * factor, 0.0)


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
    limit_ms = _bound_ms(scaled(scenario, math.inf, resource), request)
    if limit_ms > target_ms:
        return Sizing(target_ms, False, limit_ms, None, math.inf, None, None, None, tried)

    def attempt(factor: float) -> Assessment:
        on_step(f"factor {factor:.3g}")
        larger = scaled(scenario, factor, resource)
        _, value = complete(larger, request, search_plan(larger, request))
        tried.append((factor, _mean_ms(value)))
        return value

    low, high, best = _bracket(attempt, target_ms)
    if _mean_ms(best) > target_ms:
        return Sizing(target_ms, False, limit_ms, None, low, _mean_ms(best), None, None, tried)
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        value = attempt(middle)
        if _mean_ms(value) <= target_ms:
            high, best = middle, value
        else:
            low = middle
    return Sizing(
        target_ms=target_ms,
        reachable=True,
        limit_ms=limit_ms,
        factor=high,
        proved_insufficient=_proved_insufficient(scenario, target_ms, request, resource, high),
        reached_ms=_mean_ms(best),
        add_storage=np.maximum(best.storage_used - scenario.servers.storage, 0.0),
        add_compute=np.maximum(best.compute_used - scenario.servers.compute, 0.0),
        tried=tried,
    )


def _bracket(
    attempt: Callable[[float], Assessment], target_ms: float
) -> tuple[float, float, Assessment]:
    """Return a factor that fails, one that works, and its value; both may fail in the end."""
    low = high = 1.0
    best = attempt(1.0)
    if _mean_ms(best) > target_ms:
        while _mean_ms(best) > target_ms and high < _LARGEST_FACTOR:
            low, high = high, high * 2
            best = attempt(high)
        return low, high, best
    while high > 1 / _LARGEST_FACTOR:
        low = high / 2
        value = attempt(low)
        if _mean_ms(value) > target_ms:
            break
        high, best = low, value
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


def _mean_ms(value: Assessment) -> float:
    return value.metrics.get("mean_ms", value.cost)


def _bound_ms(scenario: Scenario, request: PlanRequest) -> float:
    bound = quick_bound(scenario, request.model, Objective.D1)
    if request.model is not Model.PLACEMENT:
        return bound
    from nearcast.delay.placement import placement_problem

    pairs = sum(len(left) for left, _ in placement_problem(scenario).pairs())
    return bound / max(pairs, 1)
