"""M3 against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from delay.reference import placement, random_homes, random_scenario
from nearcast.delay.placement import evaluate_placement, placement_problem
from nearcast.domain.plan import Objective


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_all_three_objectives_equal_plain_loops(seed: int, measured: bool) -> None:
    scenario = random_scenario(seed, measured=measured)
    rng = np.random.default_rng(seed)
    servers = len(scenario.servers)
    homes = random_homes(scenario, seed)
    publish = rng.integers(0, servers, len(scenario.members)).astype(np.int32)
    publish[~scenario.members.publishes] = -1
    brokers = rng.random((len(scenario.topics), servers)) < 0.5
    cost = evaluate_placement(placement_problem(scenario), homes, publish, brokers)
    d1, d2, d3 = placement(scenario, homes, publish, brokers)
    assert cost.value(Objective.D1) == pytest.approx(d1, abs=1e-9)
    assert cost.value(Objective.D2) == pytest.approx(d2, abs=1e-9)
    assert cost.value(Objective.D3) == pytest.approx(d3, abs=1e-9)
    expected = [
        sum(scenario.topics.spool[t] for t in range(len(scenario.topics)) if brokers[t, s])
        for s in range(servers)
    ]
    assert cost.storage_used == pytest.approx(expected)
