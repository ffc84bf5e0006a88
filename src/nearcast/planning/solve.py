"""From a request to a plan with its report: read this function to know the parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from nearcast.delay.placement import placement_problem
from nearcast.delay.slots import count_by_slot
from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.domain.plan import Brokers, Model, Objective, Plan, PlanReport
from nearcast.domain.scenario import FloatArray, IndexArray, Scenario
from nearcast.planning.assessment import Assessment, assess, assess_homes, limits_of
from nearcast.planning.bounds import quick_bound
from nearcast.planning.registry import find_method
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.stopping import Stopwatch

__all__ = [
    "PlanOutcome",
    "best_bound",
    "complete",
    "gap_to",
    "make_plan",
    "plan_of_homes",
    "report_plan",
]


@dataclass(frozen=True, slots=True, eq=False)
class PlanOutcome:
    """A plan, what it is worth, and how it was made."""

    plan: Plan
    report: PlanReport
    assessment: Assessment


def make_plan(
    scenario: Scenario,
    request: PlanRequest,
    *,
    known_bound: float | None = None,
    known_limits: dict[str, float | None] | None = None,
) -> PlanOutcome:
    """Plan a scenario by the requested method and say how good the plan is.

    Parameters
    ----------
    scenario : what to plan.
    request : the model, the method and its settings.
    known_bound : a proven bound of an earlier run on the same scenario; saves finding one.
    known_limits : the limits of an earlier run on the same scenario and model.

    Raises
    ------
    PlanningError
        When the method does not exist, does not fit the model, or finds no plan.
    """
    method = find_method(request.method, request.model)
    watch = Stopwatch()
    decision = method.plan(scenario, request)
    return report_plan(
        scenario,
        request,
        decision,
        watch.seconds(),
        known_bound=known_bound,
        known_limits=known_limits,
    )


def report_plan(
    scenario: Scenario,
    request: PlanRequest,
    decision: Decision,
    seconds: float,
    *,
    known_bound: float | None = None,
    known_limits: dict[str, float | None] | None = None,
    completed: tuple[Plan, Assessment] | None = None,
) -> PlanOutcome:
    """Complete a method's decision, if that is not yet done, and say how good it is.

    See `make_plan`, and `complete`.
    """
    plan, value = completed or complete(scenario, request, decision)
    limits = known_limits
    if limits is None:
        limits = limits_of(scenario, request.model, request.bound_limit_s)
    bound = best_bound(decision.bound, known_bound)
    if bound is None:
        bound = quick_bound(
            scenario, request.model, request.objective, limit_s=request.bound_limit_s
        )
    if request.model is not Model.PLACEMENT:
        # Of M3's sum of delays the limits, which are means over deliveries, say nothing.
        bound = max(bound, *(limit for limit in limits.values() if limit is not None), 0.0)
    # Summing in another order may leave a proven optimum a rounding error below its bound.
    bound = min(bound, value.cost)
    report = PlanReport(
        model=request.model,
        method=request.method,
        objective=request.objective if request.model is Model.PLACEMENT else None,
        parameters={
            "regions": request.regions if request.regions is not None else "auto",
            "related_clients": request.related_clients,
            "time_limit_s": request.time_limit_s,
            "iterations": request.iterations,
            "migration_price_ms": request.migration_price_ms,
        },
        seed=request.seed,
        status=decision.status,
        cost=value.cost,
        bound=bound,
        gap=gap_to(value.cost, bound),
        metrics=value.metrics,
        limits=limits,
        seconds=seconds,
        version=version("nearcast"),
        scenario_fingerprint=scenario_fingerprint(scenario),
        warnings=value.warnings,
        search=decision.search,
    )
    return PlanOutcome(plan, report, value)


def complete(
    scenario: Scenario, request: PlanRequest, decision: Decision
) -> tuple[Plan, Assessment]:
    """Return the whole plan of a decision and what it is worth."""
    if request.model is Model.PLACEMENT:
        plan = _place(scenario, request.objective, decision)
        return plan, assess(scenario, plan, request.model, request.objective)
    value = assess_homes(scenario, decision.homes, request.model)
    return plan_of_homes(scenario, decision.homes, value.local_share), value


def gap_to(cost: float, bound: float | None) -> float | None:
    """Return (cost - bound) / bound: how far a plan can be from the best one."""
    if bound is None or not math.isfinite(bound):
        return None
    if bound <= 0:
        return 0.0 if cost <= 1e-12 else None
    return max(cost - bound, 0.0) / bound


def best_bound(*bounds: float | None) -> float | None:
    """Return the largest of the bounds that are known: every one holds."""
    return max((bound for bound in bounds if bound is not None), default=None)


def _place(scenario: Scenario, objective: Objective, decision: Decision) -> Plan:
    """Return the whole plan of M3; a method may leave publishing and brokers to us."""
    publish, brokers = decision.publish, decision.brokers
    if publish is None or brokers is None:
        from nearcast.planning.placement.complete import complete_placement

        problem = placement_problem(scenario)
        publish, brokers = complete_placement(problem, decision.homes, objective)
    topic, server = _publishing_slots(scenario, publish)
    share = np.ones(len(topic))
    return Plan(decision.homes, publish, Brokers(topic, server, brokers[topic, server], share))


def plan_of_homes(scenario: Scenario, homes: IndexArray, local_share: FloatArray) -> Plan:
    """Return the plan of M1 and M2: publish at home, brokers wherever somebody publishes.

    A broker on an overloaded server has two rows: the share it keeps and the cloud's.
    """
    publish = np.empty(len(scenario.members), dtype=np.int32)
    for piece in scenario.members.pieces():
        members = scenario.members.rows(piece)
        publish[piece] = np.where(members.publishes, homes[members.client], -1)
    topic, server = _publishing_slots(scenario, publish)
    local = local_share[server]
    kept, delegated = np.flatnonzero(local > 0), np.flatnonzero(local < 1)
    rows = np.concatenate([kept, delegated])
    order = np.argsort(rows, kind="stable")
    on_edge = np.repeat([True, False], [len(kept), len(delegated)])
    share = np.concatenate([local[kept], 1 - local[delegated]])
    brokers = Brokers(topic[rows][order], server[rows][order], on_edge[order], share[order])
    return Plan(homes, publish, brokers)


def _publishing_slots(scenario: Scenario, publish: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return topic and server of the slots at which somebody publishes."""
    members, servers = scenario.members, len(scenario.servers)
    found = [count_by_slot(np.empty(0, np.int32), np.empty(0, np.int32), servers)]
    for rows in members.pieces():
        sends = members.publishes[rows]
        found.append(count_by_slot(members.topic[rows][sends], publish[rows][sends], servers))
    return (
        np.concatenate([slots.topic for slots in found]),
        np.concatenate([slots.server for slots in found]),
    )
