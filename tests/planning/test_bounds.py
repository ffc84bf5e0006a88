"""Quick and strong bounds hold for every plan of tiny scenarios, unlimited servers included."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from delay.reference import connections, random_scenario, ratio
from nearcast.domain.plan import Model, Objective
from nearcast.domain.scenario import Scenario
from nearcast.planning.bounds import proven_bound


def tiny(seed: int) -> Scenario:
    return next(
        scenario
        for scenario in map(random_scenario, itertools.count(100 * seed))
        if len(scenario.servers) == 2 and len(scenario.clients) <= 7
    )


@pytest.mark.parametrize("unlimited", [False, True])
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_plan_is_below_the_bound(seed: int, quick: bool, unlimited: bool) -> None:
    scenario = tiny(seed)
    if unlimited:
        roomy = np.full(2, np.inf)
        servers = replace(scenario.servers, storage=roomy, compute=roomy, client_limit=roomy)
        scenario = replace(scenario, servers=servers)
    plans = [
        np.array(plan, dtype=np.int32)
        for plan in itertools.product(range(2), repeat=len(scenario.clients))
    ]
    best = {
        Model.RATIO: min(ratio(scenario, plan).y for plan in plans),
        Model.CONNECTIONS: min(connections(scenario, plan)[0] for plan in plans),
    }
    for model, optimum in best.items():
        bound = proven_bound(scenario, model, Objective.D1, quick=quick).value
        assert 0 <= bound <= optimum + 1e-9
    if unlimited:
        strong = proven_bound(scenario, Model.RATIO, Objective.D1).value
        assert strong == pytest.approx(best[Model.RATIO], rel=0.05)
