"""The limits against plain loops, and no plan beats them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from delay.reference import (
    between_ms,
    connections,
    leg_ms,
    random_homes,
    random_scenario,
    ratio,
    roles,
)
from nearcast.delay.limits import (
    delay_limits,
    limit_effort,
    limit_totals,
    limits_from,
    nearest_leg_limit_ms,
)
from nearcast.delay.totals import add_totals
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import Scenario


def plain_limits(scenario: Scenario) -> tuple[float, float]:
    servers = range(len(scenario.servers))
    publishers, subscribers = roles(scenario)
    speed, route = [], []
    for topic, senders in enumerate(publishers):
        for sender in senders:
            receivers = [client for client in subscribers[topic] if client != sender]
            if not receivers:
                continue
            one = two = 0.0
            for other in receivers:
                cloud = 2 * scenario.settings.cloud_ms
                cloud += min(leg_ms(scenario, sender, s) for s in servers)
                cloud += min(leg_ms(scenario, other, s) for s in servers)
                x, y = scenario.clients.x_km, scenario.clients.y_km
                km = math.dist((x[sender], y[sender]), (x[other], y[other]))
                one += min(cloud, scenario.settings.ms_per_km * km)
                best = min(
                    leg_ms(scenario, sender, a)
                    + between_ms(scenario, a, b)
                    + leg_ms(scenario, other, b)
                    for a in servers
                    for b in servers
                )
                two += min(cloud, best)
            speed.append(one / len(receivers))
            route.append(two / len(receivers))
    count = max(len(speed), 1)
    return sum(speed) / count, sum(route) / count


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_limits_equal_plain_loops_and_no_plan_beats_them(seed: int, measured: bool) -> None:
    scenario = random_scenario(seed, measured=measured)
    limits = delay_limits(scenario)
    speed, route = plain_limits(scenario)
    assert limits.one_server_ms == pytest.approx(route, abs=1e-9)
    assert limits.speed_ms == (None if measured else pytest.approx(speed, abs=1e-9))
    for attempt in range(10):
        homes = random_homes(scenario, attempt)
        assert ratio(scenario, homes).y >= route - 1e-9
        assert connections(scenario, homes)[0] >= nearest_leg_limit_ms(scenario) - 1e-9


def test_with_many_servers_the_one_server_limit_stays_between_speed_and_the_exact_value() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=20, servers_per_side=8, sigma_km=10), seed=1)
    limits = delay_limits(scenario)
    exact = one_server_limit(scenario)
    assert limits.speed_ms is not None
    assert limits.one_server_ms is not None
    assert limits.speed_ms <= limits.one_server_ms <= exact + 1e-9
    assert limits.one_server_ms == pytest.approx(exact, rel=0.02)


def one_server_limit(scenario: Scenario) -> float:
    """One-server limit with numpy over all servers (geometry only)."""
    legs = np.array(
        [
            [leg_ms(scenario, c, s) for s in range(len(scenario.servers))]
            for c in range(len(scenario.clients))
        ]
    )
    publishers, subscribers = roles(scenario)
    total, count = 0.0, 0
    for topic, senders in enumerate(publishers):
        for sender in senders:
            receivers = [client for client in subscribers[topic] if client != sender]
            best = np.min(legs[sender][None, :] + legs[receivers], axis=1)
            cloud = legs[sender].min() + legs[receivers].min(axis=1) + 2 * 5.0
            total += float(np.minimum(best, cloud).mean())
            count += 1
    return total / count


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_topics_with_too_many_pairs_lower_the_limit_but_keep_it_one(
    seed: int, measured: bool
) -> None:
    scenario = random_scenario(seed, measured=measured)
    whole = delay_limits(scenario)
    values = []
    for most_pairs in (1, 8, 20):
        effort = limit_effort(scenario, most_pairs)
        limits = delay_limits(scenario, most_pairs)
        assert (limits.speed_ms is None) == (measured or effort.topics_by_legs > 0)
        assert limits.one_server_ms is not None
        values.append(limits.one_server_ms)
    assert whole.one_server_ms is not None
    assert 0 < values[0] <= values[1] + 1e-12 <= values[2] + 2e-12 <= whole.one_server_ms + 3e-12
    assert limit_effort(scenario, 1).topics_by_legs > 0


def test_limits_add_up_over_parts_of_the_member_rows() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=12, servers_per_side=3), seed=2)
    for most_pairs in (10**6, 2_000):
        effort = limit_effort(scenario, most_pairs)
        parts = [limit_totals(scenario, effort, slice(at, at + 7)) for at in range(0, 400, 7)]
        added = limits_from(scenario, effort, add_totals(parts))
        whole = delay_limits(scenario, most_pairs)
        assert added.one_server_ms == pytest.approx(whole.one_server_ms, rel=1e-12)
        assert (added.speed_ms is None) == (most_pairs == 2_000)
