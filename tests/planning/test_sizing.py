"""Sizing: the factor found suffices, what is proved insufficient is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from delay.reference import random_scenario, ratio
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError
from nearcast.planning.request import PlanRequest
from nearcast.planning.sizing import Resource, find_size, scaled

REQUEST = PlanRequest(model=Model.RATIO, iterations=20_000)


def best_by_brute_force(scenario: Scenario) -> float:
    servers, clients = len(scenario.servers), len(scenario.clients)
    plans = itertools.product(range(servers), repeat=clients)
    return min(ratio(scenario, np.array(plan, dtype=np.int32)).y for plan in plans)


@pytest.fixture
def tight() -> Scenario:
    """Two servers and five clients, far too small to hold their topics."""
    for seed in itertools.count():
        scenario = random_scenario(seed)
        if len(scenario.servers) == 2 and len(scenario.clients) == 5:
            return scaled(scenario, 0.3, Resource.BOTH)
    raise AssertionError


def test_the_factor_reaches_the_target_and_less_is_proved_too_little(tight: Scenario) -> None:
    roomy = best_by_brute_force(scaled(tight, math.inf, Resource.BOTH))
    target = (roomy + best_by_brute_force(tight)) / 2
    answer = find_size(tight, target, REQUEST)
    assert answer.reachable
    assert answer.factor is not None
    assert best_by_brute_force(scaled(tight, answer.factor, Resource.BOTH)) <= target + 1e-9
    assert best_by_brute_force(scaled(tight, answer.factor * 0.97, Resource.BOTH)) > target
    insufficient = answer.proved_insufficient
    assert insufficient <= answer.factor
    assert best_by_brute_force(scaled(tight, insufficient, Resource.BOTH)) > target
    assert answer.add_storage is not None
    assert (answer.add_storage >= 0).all()


def test_what_no_size_can_reach_is_said_with_the_limit(tight: Scenario) -> None:
    roomy = best_by_brute_force(scaled(tight, math.inf, Resource.BOTH))
    answer = find_size(tight, roomy * 0.2, REQUEST)
    assert not answer.reachable
    assert answer.factor is None
    assert roomy * 0.2 < answer.limit_ms <= roomy + 1e-9


def test_only_the_named_resource_is_scaled(tight: Scenario) -> None:
    more = scaled(tight, 2.0, Resource.STORAGE).servers
    assert more.storage == pytest.approx(2 * tight.servers.storage)
    assert more.compute == pytest.approx(tight.servers.compute)
    more = scaled(tight, 2.0, Resource.COMPUTE).servers
    assert more.storage == pytest.approx(tight.servers.storage)
    assert more.compute == pytest.approx(2 * tight.servers.compute)


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_a_target_must_be_a_positive_number(tight: Scenario, target: float) -> None:
    with pytest.raises(ConfigError):
        find_size(tight, target, REQUEST)
