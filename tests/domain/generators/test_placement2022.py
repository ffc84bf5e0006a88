from __future__ import annotations

import numpy as np
import pytest

from nearcast.delay.placement import evaluate_placement, pair_delay_ms, placement_problem
from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
from nearcast.domain.plan import Objective
from nearcast.errors import ConfigError
from nearcast.planning.placement.search import PlacementSearch, search_placement


def test_the_defaults_are_the_papers_setting() -> None:
    scenario = generate_placement2022(Placement2022(), seed=5)
    members = scenario.members
    sizes = np.bincount(members.topic, minlength=6)
    assert (len(scenario.clients), len(scenario.servers), len(scenario.topics)) == (30, 7, 6)
    assert sizes.min() >= 5
    assert sizes.max() <= 10
    assert members.publishes.all()
    assert members.subscribes.all()
    assert np.array_equal(scenario.topics.spool, sizes)
    assert np.allclose(scenario.servers.storage, 2 * sizes.mean())
    assert scenario.settings.cloud_ms == 5.0
    assert len(set(scenario.topics.permissible_ms.tolist())) == 6
    assert len({*zip(members.topic.tolist(), members.client.tolist(), strict=True)}) == len(members)
    for axis in (scenario.clients.x_km, scenario.clients.y_km, scenario.servers.x_km):
        assert axis.min() >= 0
        assert axis.max() <= 10


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    one, two, other = (generate_placement2022(Placement2022(), seed) for seed in (1, 1, 2))
    assert one.clients.x_km.tobytes() == two.clients.x_km.tobytes()
    assert one.members.client.tobytes() == two.members.client.tobytes()
    assert one.topics.permissible_ms.tobytes() == two.topics.permissible_ms.tobytes()
    assert one.clients.x_km.tobytes() != other.clients.x_km.tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_under_d1_some_topics_miss_their_permissible_delay_and_some_keep_it(seed: int) -> None:
    problem = placement_problem(generate_placement2022(Placement2022(), seed))
    plan = search_placement(problem, Objective.D1, PlacementSearch(iterations=60_000))
    left, right = next(problem.pairs())
    delay = pair_delay_ms(problem, plan.homes, plan.publish, plan.brokers, left, right)
    topic = problem.member_topic[left]
    mean = np.bincount(topic, delay) / np.bincount(topic)
    missed = mean > problem.permissible_ms
    assert missed.any()
    assert not missed.all()
    assert evaluate_placement(problem, plan.homes, plan.publish, plan.brokers).d3_ms > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"clients": 0},
        {"smallest_topic": 11},
        {"largest_topic": 31},
        {"field_km": 0.0},
        {"spools_per_server": -1.0},
        {"shortest_permissible_ms": 2.0},
        {"cloud_ms": -1.0},
    ],
)
def test_impossible_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Placement2022(**wrong)  # type: ignore[arg-type]
