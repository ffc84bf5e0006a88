"""M1 against plain loops, and the drawn deliveries against their expectation."""

from __future__ import annotations

import numpy as np
import pytest

from delay.reference import connections, random_homes, random_scenario, server_use
from nearcast.delay.connections import (
    connections_problem,
    draw_publishers,
    drawn_weight,
    evaluate_connections,
)


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_cost_equals_plain_loops(seed: int, measured: bool) -> None:
    scenario = random_scenario(seed, measured=measured)
    homes = random_homes(scenario, seed)
    cost = evaluate_connections(connections_problem(scenario), homes)
    y, r = connections(scenario, homes)
    assert cost.y_ms == pytest.approx(y, abs=1e-9)
    assert cost.delegated_share == pytest.approx(r)
    assert cost.storage_used == pytest.approx(server_use(scenario, homes)[0])
    assert cost.y1 == pytest.approx(sum(r) / len(r))
    assert cost.clients.tolist() == [int((homes == s).sum()) for s in range(len(r))]
    if len(r) > 1:
        mean = len(homes) / len(r)
        spread = sum((n - mean) ** 2 for n in cost.clients) / (len(r) - 1)
        assert cost.y2 == pytest.approx(spread**0.5)


def test_many_drawn_trials_approach_the_expectation() -> None:
    scenario = random_scenario(7)
    problem = connections_problem(scenario)
    roles = problem.member_topic, problem.publishes, problem.subscribes
    draws = draw_publishers(*roles, problem.topic_count, np.random.default_rng(0), trials=20_000)
    drawn = drawn_weight(problem, draws)
    assert drawn == pytest.approx(problem.client_weight, abs=0.01)
    assert drawn.sum() == pytest.approx(2.0)
