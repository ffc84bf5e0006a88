"""Re-planning from the plan in force: clients moved, joined or left, and moving spools costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearcast.delay.placement import broker_matrix, evaluate_placement, placement_problem
from nearcast.delay.ratio import delivery_weights, ratio_problem
from nearcast.domain.plan import Model, Plan, PlanStatus
from nearcast.domain.plan_in_force import PlanInForce
from nearcast.domain.scenario import BoolArray, IndexArray, Scenario
from nearcast.planning.assessment import assess_homes
from nearcast.planning.methods.nearest import nearest_homes
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.searches import search_connections_plan, search_placement_plan

__all__ = ["homes_in_force", "keep", "migrated_spools", "replan", "serve_all", "summed_ms"]


def replan(scenario: Scenario, request: PlanRequest, start: PlanInForce) -> Decision:
    """Return a plan near the one in force; new spools must save the migration price.

    The ratio model weighs every single migration while it searches. The other two models search
    from the plan in force and take the result only if all its migrations together pay.
    ``search`` tells the migrated spools and how many clients joined and left.
    """
    homes = homes_in_force(scenario, start)
    if request.model is Model.RATIO:
        decision = _replan_ratio(scenario, request, start, homes)
    elif request.model is Model.CONNECTIONS:
        decision = _replan_connections(scenario, request, start, homes)
    else:
        decision = _replan_placement(scenario, request, start, homes)
    search = {**decision.search, "joined_clients": start.joined, "left_clients": start.left}
    return replace(decision, search=search)


def homes_in_force(scenario: Scenario, start: PlanInForce) -> IndexArray:
    """Return the homes now; a client that joined begins at its nearest server."""
    homes: IndexArray = np.where(start.homes >= 0, start.homes, nearest_homes(scenario))
    return homes.astype(np.int32)


def keep(scenario: Scenario, request: PlanRequest, start: PlanInForce) -> Decision:
    """Return the plan in force as it is, for the scenario of now."""
    homes = homes_in_force(scenario, start)
    if request.model is not Model.PLACEMENT:
        return Decision(homes, status=PlanStatus.FEASIBLE)
    from nearcast.planning.placement.complete import best_senders

    problem = placement_problem(scenario)
    brokers = broker_matrix(problem, start.spool_topic, start.spool_server)
    brokers[:, problem.spool @ brokers > problem.storage * (1 + 1e-9)] = False
    publish = best_senders(problem, homes, brokers, request.objective)
    return Decision(homes, publish, brokers, PlanStatus.FEASIBLE)


def serve_all(scenario: Scenario, request: PlanRequest, plan: Plan) -> Decision:
    """Return a plan that was made for some members of a scenario as one for all of them."""
    if request.model is not Model.PLACEMENT:
        return Decision(plan.homes, status=PlanStatus.FEASIBLE)
    from nearcast.planning.placement.complete import best_senders

    problem, rows = placement_problem(scenario), plan.brokers.on_edge
    brokers = broker_matrix(problem, plan.brokers.topic[rows], plan.brokers.server[rows])
    publish = best_senders(problem, plan.homes, brokers, request.objective)
    return Decision(plan.homes, publish, brokers, PlanStatus.FEASIBLE)


def summed_ms(scenario: Scenario, model: Model, cost: float) -> float:
    """Return a cost as the sum of delays that a migration price is compared with."""
    return cost * _summands(scenario, model)


def _summands(scenario: Scenario, model: Model) -> int:
    """Return how many delays the cost of a model is the mean of; 1 where it is a sum."""
    if model is Model.PLACEMENT:
        return 1
    members = scenario.members
    weight, _ = delivery_weights(
        members.topic, members.publishes, members.subscribes, len(scenario.topics)
    )
    # deliveries in M2; in M1 Y is a mean over topics
    is_counted = weight > 0
    if model is Model.RATIO:
        return int(np.count_nonzero(is_counted))
    return len(np.unique(members.topic[is_counted]))


def migrated_spools(
    topic: IndexArray, server: IndexArray, start: PlanInForce, server_count: int
) -> int:
    """Return how many of the spools (topic, server) the plan in force does not have."""
    new = topic.astype(np.int64) * server_count + server
    old = start.spool_topic.astype(np.int64) * server_count + start.spool_server
    return len(np.setdiff1d(new, old))


def _replan_ratio(
    scenario: Scenario, request: PlanRequest, start: PlanInForce, homes: IndexArray
) -> Decision:
    from nearcast.planning.ratio.replan import replan_ratio
    from nearcast.planning.ratio.search_params import SearchParams

    result = replan_ratio(
        ratio_problem(scenario),
        SearchParams(
            iterations=request.iterations, time_limit_s=request.time_limit_s, seed=request.seed
        ),
        homes,
        request.migration_price_ms,
        kept_spools=(start.spool_topic, start.spool_server),
    )
    return Decision(
        homes=result.homes,
        status=PlanStatus.FEASIBLE,
        search={
            "cost": result.cost_ms,
            "iterations": result.iterations,
            "moves": result.moves,
            "search_seconds": result.seconds,
            "migrated_spools": result.migrated_spools,
        },
    )


def _replan_connections(
    scenario: Scenario, request: PlanRequest, start: PlanInForce, homes: IndexArray
) -> Decision:
    kept_cost = assess_homes(scenario, homes, request.model).cost
    kept = Decision(homes, status=PlanStatus.FEASIBLE, search={"cost": kept_cost})
    found = search_connections_plan(scenario, request, homes)
    return _cheaper(scenario, request, start, kept, found)


def _replan_placement(
    scenario: Scenario, request: PlanRequest, start: PlanInForce, homes: IndexArray
) -> Decision:
    kept = keep(scenario, request, start)
    publish, brokers = kept.publish, kept.brokers
    assert publish is not None
    assert brokers is not None
    problem = placement_problem(scenario)
    cost = evaluate_placement(problem, homes, publish, brokers).value(request.objective)
    kept = replace(kept, search={"cost": cost})
    found = search_placement_plan(scenario, request, (homes, brokers))
    return _cheaper(scenario, request, start, kept, found)


def _cheaper(
    scenario: Scenario,
    request: PlanRequest,
    start: PlanInForce,
    kept: Decision,
    found: Decision,
) -> Decision:
    """Return the decision with the smaller sum of delays and migration prices."""
    priced = []
    for decision in (kept, found):
        topic, server = _spools_of(scenario, decision)
        moved = migrated_spools(topic, server, start, len(scenario.servers))
        total = summed_ms(scenario, request.model, float(decision.search["cost"]))
        total += request.migration_price_ms * moved
        search = {**decision.search, "migrated_spools": moved}
        priced.append((total, replace(decision, search=search)))
    return min(priced, key=lambda one: one[0])[1]


def _spools_of(scenario: Scenario, decision: Decision) -> tuple[IndexArray, IndexArray]:
    members = scenario.members
    rows = np.flatnonzero(members.publishes)
    topic = members.topic[rows]
    if decision.publish is None or decision.brokers is None:
        return topic, decision.homes[members.client[rows]]
    server = decision.publish[rows]
    on_edge: BoolArray = decision.brokers[topic, server]
    return topic[on_edge], server[on_edge]
