"""M2 against plain loops and the paper's worked example."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from delay.reference import random_homes, random_scenario, ratio, server_use
from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)


@pytest.fixture
def figure_5() -> Scenario:
    """Two servers, two topics, four clients: the example of the 2021 paper, figure 5."""
    here = np.zeros(4)
    return Scenario(
        settings=ScenarioSettings("figure 5", 1, 1),
        servers=Servers(
            pa.array(["s1", "s2"]),
            here[:2],
            here[:2],
            np.full(2, 10.0),
            np.full(2, 20.0),
            np.full(2, np.inf),
            pa.array(["n", "n"]),
        ),
        clients=Clients(pa.array(["c1", "c2", "c3", "c4"]), here, here),
        topics=Topics(pa.array(["t1", "t2"]), np.array([8.0, 6.0]), here[:2], here[:2]),
        members=Members(
            topic=np.array([0, 0, 0, 0, 1, 1], dtype=np.int32),
            client=np.array([0, 1, 2, 3, 2, 3], dtype=np.int32),
            publishes=np.array([1, 1, 1, 0, 1, 0], dtype=np.bool_),
            subscribes=np.array([0, 0, 0, 1, 0, 1], dtype=np.bool_),
            rate_hz=np.ones(6),
        ),
    )


def test_figure_5_of_the_paper_comes_out_as_printed(figure_5: Scenario) -> None:
    cost = evaluate_ratio(ratio_problem(figure_5), np.array([0, 0, 1, 1], dtype=np.int32))
    assert cost.storage_used.tolist() == [8, 14]
    assert cost.compute_used.tolist() == [16, 14]
    assert cost.local_share.tolist() == [1, 10 / 14]


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_cost_equals_plain_loops(seed: int, measured: bool) -> None:
    scenario = random_scenario(seed, measured=measured)
    homes = random_homes(scenario, seed)
    cost, expected = evaluate_ratio(ratio_problem(scenario), homes), ratio(scenario, homes)
    assert cost.y_ms == pytest.approx(expected.y, abs=1e-9)
    assert cost.y1_ms == pytest.approx(expected.y1, abs=1e-9)
    assert cost.y2_ms == pytest.approx(expected.y2, abs=1e-9)
    assert cost.local_share == pytest.approx(expected.theta, abs=1e-12)
    storage, compute = server_use(scenario, homes)
    assert cost.storage_used == pytest.approx(storage)
    assert cost.compute_used == pytest.approx(compute)


def test_leg_weight_is_two_per_topic_when_all_members_do_both() -> None:
    scenario = random_scenario(3, all_both=True)
    problem = ratio_problem(scenario)
    sizes = np.bincount(scenario.members.topic)
    topics = np.zeros(len(scenario.clients))
    for row in range(len(scenario.members)):
        topics[scenario.members.client[row]] += sizes[scenario.members.topic[row]] > 1
    assert problem.leg_weight == pytest.approx(2 * topics)
