"""Re-planning after a part of the clients moved, against planning from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model, Plan
from nearcast.domain.plan_in_force import PlanInForce, in_force
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.planning.assessment import assess_homes
from nearcast.planning.optimised import search_plan
from nearcast.planning.replanning import migrated_spools
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import plan_of_homes
from nearcast.planning.stopping import Stopwatch

__all__ = ["ReplanPoint", "moved", "run"]

_CLIENTS_PER_TOPIC = 13.9


@dataclass(frozen=True, slots=True)
class ReplanPoint:
    """One seed: the old plan on the new positions, re-planned, and planned from scratch."""

    seed: int
    clients: int
    moved: int
    kept_ms: float
    """Cost if nothing is re-planned."""
    replanned_ms: float
    scratch_ms: float
    replan_seconds: float
    scratch_seconds: float
    time_share: float
    replan_migrations: int
    scratch_migrations: int


def run(
    clients: int,
    share: float,
    price_ms: float,
    seeds: Sequence[int],
    *,
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[ReplanPoint]:
    """Move a share of the clients to other places and plan again in both ways."""
    topics = max(round(clients / _CLIENTS_PER_TOPIC), 1)
    side = max(round((topics / 4) ** 0.5), 2)
    for seed in seeds:
        begin(f"seed {seed}")
        before = generate_reloc2021(Reloc2021(topics=topics, servers_per_side=side), seed)
        request = PlanRequest(model=Model.RATIO, seed=seed)
        old = search_plan(before, request).homes
        after = moved(before, share, np.random.default_rng(seed))
        yield _measure(seed, before, after, in_force(_plan(before, old)), request, price_ms)


def moved(scenario: Scenario, share: float, rng: np.random.Generator) -> Scenario:
    """Return the scenario with a share of the clients somewhere else in the field."""
    clients = scenario.clients
    chosen = rng.random(len(clients)) < share
    x_km, y_km = clients.x_km.copy(), clients.y_km.copy()
    x_km[chosen] = rng.uniform(0, scenario.settings.width_km, int(chosen.sum()))
    y_km[chosen] = rng.uniform(0, scenario.settings.height_km, int(chosen.sum()))
    return replace(scenario, clients=replace(clients, x_km=x_km, y_km=y_km))


def _measure(
    seed: int,
    before: Scenario,
    after: Scenario,
    start: PlanInForce,
    request: PlanRequest,
    price_ms: float,
) -> ReplanPoint:
    warm = replace(request, start=start, migration_price_ms=price_ms)
    watch = Stopwatch()
    replanned = search_plan(after, warm)
    replan_seconds = watch.seconds()
    watch = Stopwatch()
    scratch = search_plan(after, request)
    scratch_seconds = watch.seconds()
    fresh = _plan(after, scratch.homes).brokers
    return ReplanPoint(
        seed=seed,
        clients=len(after.clients),
        moved=int(np.sum(before.clients.x_km != after.clients.x_km)),
        kept_ms=assess_homes(after, start.homes, Model.RATIO).cost,
        replanned_ms=float(replanned.search["cost"]),
        scratch_ms=float(scratch.search["cost"]),
        replan_seconds=replan_seconds,
        scratch_seconds=scratch_seconds,
        time_share=replan_seconds / scratch_seconds,
        replan_migrations=int(replanned.search["migrated_spools"]),
        scratch_migrations=migrated_spools(
            fresh.topic[fresh.on_edge],
            fresh.server[fresh.on_edge],
            start,
            len(after.servers),
        ),
    )


def _plan(scenario: Scenario, homes: IndexArray) -> Plan:
    share = assess_homes(scenario, homes, Model.RATIO).local_share
    return plan_of_homes(scenario, homes, share)
