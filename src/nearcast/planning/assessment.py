"""The value of a plan under a model: cost, the papers' metrics, and the use of each server."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nearcast.delay.connections import (
    ConnectionsCost,
    connections_problem,
    drawn_client_weight,
    evaluate_connections,
)
from nearcast.delay.limits import delay_limits, nearest_leg_limit_ms
from nearcast.delay.placement import (
    PlacementCost,
    broker_matrix,
    evaluate_placement,
    placement_problem,
)
from nearcast.delay.ratio import RatioCost, evaluate_ratio, ratio_problem
from nearcast.delay.slots import count_by_slot, sum_by
from nearcast.domain.plan import Model, Objective, Plan
from nearcast.domain.scenario import FloatArray, IndexArray, Scenario

__all__ = ["Assessment", "assess", "assess_homes", "limits_of"]

_DRAWN_TRIALS = 5
"""Trials of the 2020 paper (Sec. V)."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Assessment:
    """What a plan is worth."""

    cost: float
    """Y in ms (connections, ratio), or the chosen D in ms (placement)."""
    metrics: dict[str, float]
    storage_used: FloatArray
    compute_used: FloatArray
    local_share: FloatArray
    """Part of a server's work that stays on it."""
    clients: FloatArray
    """Clients at home [server]."""
    detail: ConnectionsCost | RatioCost | PlacementCost
    """All that the model says of the plan."""
    warnings: list[str] = field(default_factory=list)


def assess(
    scenario: Scenario, plan: Plan, model: Model, objective: Objective = Objective.D1
) -> Assessment:
    """Return the value of a plan, also of one made under another model or by hand."""
    if model is Model.PLACEMENT:
        return _assess_placement(scenario, plan, objective)
    return assess_homes(scenario, plan.homes, model)


def assess_homes(scenario: Scenario, homes: IndexArray, model: Model) -> Assessment:
    """Return the value of homes under the two models in which they are the whole plan."""
    if model is Model.CONNECTIONS:
        return _assess_connections(scenario, homes)
    return _assess_ratio(scenario, homes)


def limits_of(scenario: Scenario, model: Model) -> dict[str, float | None]:
    """Return what no plan can beat, in ms of mean delay.

    Servers are 0 ms apart in the connections model, so the way between the clients is no limit
    there; the legs to the nearest servers are.
    """
    if model is Model.CONNECTIONS:
        nearest = nearest_leg_limit_ms(scenario)
        return {"speed_ms": None, "one_server_ms": None, "nearest_legs_ms": nearest}
    limits = delay_limits(scenario)
    return {"speed_ms": limits.speed_ms, "one_server_ms": limits.one_server_ms}


def _assess_connections(scenario: Scenario, homes: IndexArray) -> Assessment:
    problem = connections_problem(scenario)
    cost = evaluate_connections(problem, homes)
    rng = np.random.default_rng(scenario.settings.seed or 0)
    drawn = evaluate_connections(problem, homes, drawn_client_weight(problem, rng, _DRAWN_TRIALS))
    metrics = {"Y": cost.y_ms, "Y1": cost.y1, "Y2": cost.y2, "Y3": cost.y3_km}
    return Assessment(
        cost=cost.y_ms,
        metrics={**metrics, "Y_drawn": drawn.y_ms},
        storage_used=cost.storage_used,
        compute_used=_compute_used(scenario, homes),
        local_share=1.0 - cost.delegated_share,
        clients=cost.clients,
        detail=cost,
        warnings=_overload_warning(
            int(np.sum(cost.delegated_share > _ROUNDING)), len(cost.clients)
        ),
    )


def _assess_ratio(scenario: Scenario, homes: IndexArray) -> Assessment:
    cost = evaluate_ratio(ratio_problem(scenario), homes)
    servers = len(scenario.servers)
    return Assessment(
        cost=cost.y_ms,
        metrics={"Y": cost.y_ms, "Y1": cost.y1_ms, "Y2": cost.y2_ms},
        storage_used=cost.storage_used,
        compute_used=cost.compute_used,
        local_share=cost.local_share,
        clients=sum_by(homes, np.ones(len(homes)), servers),
        detail=cost,
        warnings=_overload_warning(int(np.sum(cost.local_share < 1 - _ROUNDING)), servers),
    )


def _assess_placement(scenario: Scenario, plan: Plan, objective: Objective) -> Assessment:
    problem = placement_problem(scenario)
    rows = plan.brokers.on_edge
    brokers = broker_matrix(problem, plan.brokers.topic[rows], plan.brokers.server[rows])
    cost = evaluate_placement(problem, plan.homes, plan.publish, brokers)
    servers = len(scenario.servers)
    sends = np.flatnonzero(scenario.members.publishes)
    at, topic = plan.publish[sends], scenario.members.topic[sends]
    local = brokers[topic, at]
    received = sum_by(at, np.ones(len(at)), servers)
    share = sum_by(at, local, servers) / np.maximum(received, 1.0)
    over = np.flatnonzero(cost.storage_used > scenario.servers.storage * (1 + _ROUNDING))
    warnings = [
        f"server {scenario.servers.ids[int(server)].as_py()} holds spools of "
        f"{cost.storage_used[server]:g} but has storage for {scenario.servers.storage[server]:g}: "
        "the placement model does not allow that"
        for server in over[:3]
    ]
    if not local.all():
        warnings.append(
            f"{int(np.sum(~local))} of {len(local)} publishers go through the cloud: "
            "no broker is placed where they send"
        )
    count = max(cost.pairs, 1)
    return Assessment(
        cost=cost.value(objective),
        metrics={
            "D1": cost.d1_ms,
            "D2": cost.d2_ms,
            "D3": cost.d3_ms,
            "mean_ms": cost.d1_ms / count,
            "pairs": float(cost.pairs),
        },
        storage_used=cost.storage_used,
        compute_used=sum_by(at, local * scenario.topics.spool[topic], servers),
        local_share=np.where(received > 0, share, 1.0),
        clients=sum_by(plan.homes, np.ones(len(plan.homes)), servers),
        detail=cost,
        warnings=warnings,
    )


def _compute_used(scenario: Scenario, homes: IndexArray) -> FloatArray:
    members, servers = scenario.members, len(scenario.servers)
    slots = count_by_slot(
        members.topic, homes[members.client], servers, publishers=members.publishes
    )
    spool = scenario.topics.spool[slots.topic]
    return sum_by(slots.server, spool * slots.values["publishers"], servers)


def _overload_warning(overloaded: int, servers: int) -> list[str]:
    if not overloaded:
        return []
    return [f"{overloaded} of {servers} servers are overloaded and delegate a part to the cloud"]
