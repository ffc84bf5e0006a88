"""The value of a plan under a model: cost, the papers' metrics, and the use of each server."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nearcast.delay.connections import (
    ConnectionsCost,
    ConnectionsTotals,
    connections_cost,
    connections_problem,
    connections_totals,
    draw_publishers,
    drawn_weight,
)
from nearcast.delay.limits import (
    MOST_PAIRS,
    PAIRS_PER_S,
    delay_limits,
    nearest_leg_limit_ms,
)
from nearcast.delay.network import network_of
from nearcast.delay.placement import (
    PlacementCost,
    broker_matrix,
    evaluate_placement,
    placement_problem,
)
from nearcast.delay.ratio import (
    RatioCost,
    RatioTotals,
    ratio_cost,
    ratio_problem,
    ratio_totals,
)
from nearcast.delay.slots import count_by_slot, sum_by
from nearcast.domain.plan import Model, Objective, Plan
from nearcast.domain.scenario import FloatArray, IndexArray, Scenario

__all__ = [
    "Assessment",
    "PlanTotals",
    "assess",
    "assess_homes",
    "assess_totals",
    "home_totals",
    "limits_of",
    "most_limit_pairs",
    "placement_totals",
    "publisher_draws",
]

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


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionsPlanTotals:
    """The sums of M1 over topics, for the expected and for the drawn publishers."""

    expected: ConnectionsTotals
    drawn: ConnectionsTotals
    compute_used: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PlacementPlanTotals:
    """The sums of M3 over topics."""

    cost: PlacementCost
    received: FloatArray
    """Publishers that send to a server [server]."""
    processed: FloatArray
    """Those of them whose topic has a broker there [server]."""
    compute_used: FloatArray


PlanTotals = RatioTotals | ConnectionsPlanTotals | PlacementPlanTotals
"""What the value of a plan is made of; those of two blocks of topics add up."""


def assess(
    scenario: Scenario, plan: Plan, model: Model, objective: Objective = Objective.D1
) -> Assessment:
    """Return the value of a plan, also of one made under another model or by hand."""
    if model is Model.PLACEMENT:
        return assess_totals(scenario, plan.homes, placement_totals(scenario, plan), objective)
    return assess_homes(scenario, plan.homes, model)


def assess_homes(scenario: Scenario, homes: IndexArray, model: Model) -> Assessment:
    """Return the value of homes under the two models in which they are the whole plan."""
    return assess_totals(scenario, homes, home_totals(scenario, homes, model, None))


def most_limit_pairs(limit_s: float | None, cores: int = 1) -> int:
    """Return how many pairs the limits may look at; None: as many as by default."""
    return MOST_PAIRS if limit_s is None else min(MOST_PAIRS, int(limit_s * cores * PAIRS_PER_S))


def limits_of(
    scenario: Scenario, model: Model, limit_s: float | None = None
) -> dict[str, float | None]:
    """Return what no plan can beat, in ms of mean delay, within about `limit_s` seconds.

    Servers are 0 ms apart in the connections model, so the way between the clients is no limit
    there; the legs to the nearest servers are.
    """
    if model is Model.CONNECTIONS:
        nearest = nearest_leg_limit_ms(scenario)
        return {"speed_ms": None, "one_server_ms": None, "nearest_legs_ms": nearest}
    limits = delay_limits(scenario, most_limit_pairs(limit_s))
    return {"speed_ms": limits.speed_ms, "one_server_ms": limits.one_server_ms}


def publisher_draws(scenario: Scenario) -> FloatArray:
    """Return what draws the publishers of the 2020 paper's trials [trial, topic]."""
    members, rng = scenario.members, np.random.default_rng(scenario.settings.seed or 0)
    roles = members.publishes, members.subscribes
    return draw_publishers(members.topic, *roles, len(scenario.topics), rng, _DRAWN_TRIALS)


def home_totals(
    scenario: Scenario, homes: IndexArray, model: Model, draws: FloatArray | None
) -> PlanTotals:
    """Return the sums of homes over the topics of a scenario, or of a part of one.

    `draws` are the `publisher_draws` of these topics; only the connections model needs them.
    """
    if model is Model.RATIO:
        return ratio_totals(ratio_problem(scenario), homes)
    problem = connections_problem(scenario)
    drawn = drawn_weight(problem, publisher_draws(scenario) if draws is None else draws)
    return ConnectionsPlanTotals(
        expected=connections_totals(problem, homes),
        drawn=connections_totals(problem, homes, drawn),
        compute_used=_compute_used(scenario, homes),
    )


def placement_totals(scenario: Scenario, plan: Plan) -> PlacementPlanTotals:
    """Return the sums of a plan of M3 over the topics of a scenario, or of a part of one."""
    problem, servers = placement_problem(scenario), len(scenario.servers)
    rows = plan.brokers.on_edge
    brokers = broker_matrix(problem, plan.brokers.topic[rows], plan.brokers.server[rows])
    sends = np.flatnonzero(scenario.members.publishes)
    at, topic = plan.publish[sends], scenario.members.topic[sends]
    local = brokers[topic, at]
    return PlacementPlanTotals(
        cost=evaluate_placement(problem, plan.homes, plan.publish, brokers),
        received=sum_by(at, np.ones(len(at)), servers),
        processed=sum_by(at, local, servers),
        compute_used=sum_by(at, local * scenario.topics.spool[topic], servers),
    )


def assess_totals(
    scenario: Scenario, homes: IndexArray, totals: PlanTotals, objective: Objective = Objective.D1
) -> Assessment:
    """Return the value of a plan from its homes and its sums over all topics."""
    if isinstance(totals, PlacementPlanTotals):
        return _assess_placement(scenario, homes, totals, objective)
    if isinstance(totals, ConnectionsPlanTotals):
        return _assess_connections(scenario, homes, totals)
    return _assess_ratio(scenario, homes, totals)


def _assess_connections(
    scenario: Scenario, homes: IndexArray, totals: ConnectionsPlanTotals
) -> Assessment:
    servers = scenario.servers
    given = network_of(scenario), servers.storage, servers.client_limit, scenario.settings.beta_ms
    cost = connections_cost(totals.expected, homes, *given)
    drawn = connections_cost(totals.drawn, homes, *given)
    metrics = {"Y": cost.y_ms, "Y1": cost.y1, "Y2": cost.y2, "Y3": cost.y3_km}
    return Assessment(
        cost=cost.y_ms,
        metrics={**metrics, "Y_drawn": drawn.y_ms},
        storage_used=cost.storage_used,
        compute_used=totals.compute_used,
        local_share=1.0 - cost.delegated_share,
        clients=cost.clients,
        detail=cost,
        warnings=_overload_warning(
            int(np.sum(cost.delegated_share > _ROUNDING)), len(cost.clients)
        ),
    )


def _assess_ratio(scenario: Scenario, homes: IndexArray, totals: RatioTotals) -> Assessment:
    servers = scenario.servers
    cost = ratio_cost(totals, servers.storage, servers.compute, scenario.settings.cloud_ms)
    overloaded = int(np.sum(cost.local_share < 1 - _ROUNDING))
    return Assessment(
        cost=cost.y_ms,
        metrics={"Y": cost.y_ms, "Y1": cost.y1_ms, "Y2": cost.y2_ms},
        storage_used=cost.storage_used,
        compute_used=cost.compute_used,
        local_share=cost.local_share,
        clients=sum_by(homes, np.ones(len(homes)), len(servers)),
        detail=cost,
        warnings=_overload_warning(overloaded, len(servers)),
    )


def _assess_placement(
    scenario: Scenario, homes: IndexArray, totals: PlacementPlanTotals, objective: Objective
) -> Assessment:
    cost, servers = totals.cost, len(scenario.servers)
    over = np.flatnonzero(cost.storage_used > scenario.servers.storage * (1 + _ROUNDING))
    warnings = [
        f"server {scenario.servers.ids[int(server)].as_py()} holds spools of "
        f"{cost.storage_used[server]:g} but has storage for {scenario.servers.storage[server]:g}: "
        "the placement model does not allow that"
        for server in over[:3]
    ]
    sending, processed = int(totals.received.sum()), int(totals.processed.sum())
    if processed < sending:
        warnings.append(
            f"{sending - processed} of {sending} publishers go through the cloud: "
            "no broker is placed where they send"
        )
    count = max(cost.pairs, 1)
    share = totals.processed / np.maximum(totals.received, 1.0)
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
        compute_used=totals.compute_used,
        local_share=np.where(totals.received > 0, share, 1.0),
        clients=sum_by(homes, np.ones(len(homes)), servers),
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
