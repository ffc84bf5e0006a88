"""Re-planning: joined and left clients, the price of migrations, all three models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearcast import City, Model, PlanRequest, generate_city, make_plan, write_plan
from nearcast.domain.plan_in_force import PlanInForce, in_force, read_plan_in_force
from nearcast.domain.scenario import Scenario
from nearcast.errors import PlanError
from nearcast.planning.optimised import search_plan


@pytest.fixture(scope="module")
def city() -> Scenario:
    """A small city in which planning matters."""
    return generate_city(City(clients=80, servers=5, topics=12), seed=2)


def plan_for(city: Scenario, model: Model) -> PlanInForce:
    request = PlanRequest(model=model, iterations=20_000)
    return in_force(make_plan(city, request, known_bound=0.0, known_limits={}).plan)


@pytest.mark.parametrize("model", list(Model))
def test_a_dear_migration_keeps_every_spool_and_a_free_one_is_no_worse(
    city: Scenario, model: Model
) -> None:
    start = plan_for(city, model)
    x_km = city.clients.x_km.copy()
    x_km[:8] = city.settings.width_km - x_km[:8]
    now = replace(city, clients=replace(city.clients, x_km=x_km))
    dear, free = (
        search_plan(
            now,
            PlanRequest(model=model, iterations=20_000, start=start, migration_price_ms=price),
        )
        for price in (1e9, 0.0)
    )
    assert dear.search["migrated_spools"] == 0
    assert free.search["cost"] <= dear.search["cost"] + 1e-9
    assert dear.search["joined_clients"] == 0


def test_clients_that_joined_get_a_home_and_those_that_left_are_counted(
    city: Scenario, tmp_path: Path
) -> None:
    outcome = make_plan(city, PlanRequest(model=Model.RATIO, method="nearest"))
    write_plan(outcome.plan, outcome.report, city, tmp_path / "p")
    homes = tmp_path / "p" / "homes.csv"
    rows = homes.read_text().splitlines()
    homes.write_text("\n".join([rows[0], *rows[4:], f"gone,{rows[1].split(',')[1]}"]) + "\n")
    start = read_plan_in_force(tmp_path / "p", city)
    assert (start.joined, start.left) == (3, 1)
    assert (start.homes[:3] == -1).all()
    assert np.array_equal(start.homes[3:], outcome.plan.homes[3:])
    decision = search_plan(city, PlanRequest(model=Model.RATIO, iterations=5000, start=start))
    assert decision.homes.min() >= 0
    assert decision.search["joined_clients"] == 3
    assert decision.search["left_clients"] == 1


def test_a_plan_without_anything_known_is_refused(city: Scenario, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "homes.csv").write_text("client_id,server_id\nnobody,nowhere\n")
    with pytest.raises(PlanError, match=r"homes\.csv"):
        read_plan_in_force(tmp_path / "p", city)
