"""The RELOC 2020 setting: the paper's totals, sound members, the same bytes for a seed."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.domain.generators.reloc2020 import Reloc2020, generate_reloc2020
from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError


@pytest.mark.parametrize(
    ("ratio", "clients", "topics"),
    [
        (0.07, 384, 142),
        (0.52, 1865, 914),
        (0.81, 2714, 1361),
        (0.95, 3123, 1587),
        (1.28, 4058, 2053),
    ],
)
def test_table_two_is_met(ratio: float, clients: int, topics: int) -> None:
    scenario = generate_reloc2020(Reloc2020(ratio), 3)
    assert (len(scenario.clients), len(scenario.topics)) == (clients, topics)
    assert len(scenario.members) == round(ratio * 160 * 100)
    assert set(scenario.members.client.tolist()) == set(range(clients))


@pytest.mark.parametrize("ratio", [0.01, 0.3, 2.0])
def test_members_are_sorted_distinct_and_two_or_more_a_topic(ratio: float) -> None:
    members = generate_reloc2020(Reloc2020(ratio), 1).members
    assert np.all(np.diff(members.topic) >= 0)
    assert len(set(zip(members.topic.tolist(), members.client.tolist(), strict=True))) == len(
        members
    )
    assert np.bincount(members.topic).min() >= 2
    assert members.publishes.all()
    assert members.subscribes.all()


def test_a_topic_begins_with_its_follower_and_clients_are_skewed() -> None:
    scenario = generate_reloc2020(Reloc2020(0.52), 0)
    members = scenario.members
    first = members.topic_start(len(scenario.topics))[:-1]
    assert np.array_equal(members.client[first], np.arange(len(scenario.topics)))
    topics_of = np.bincount(members.client)
    assert topics_of.max() > 5 * topics_of.mean()


def arrays_of(scenario: Scenario) -> list[bytes]:
    return [
        array.tobytes()
        for array in (
            scenario.clients.x_km,
            scenario.clients.y_km,
            scenario.servers.x_km,
            scenario.members.topic,
            scenario.members.client,
        )
    ]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    one, two, other = (generate_reloc2020(Reloc2020(0.3), seed) for seed in (5, 5, 6))
    assert arrays_of(one) == arrays_of(two)
    assert arrays_of(one) != arrays_of(other)


def test_clients_gather_around_the_point_of_their_first_topic() -> None:
    scenario = generate_reloc2020(Reloc2020(0.52), 0)
    members, clients = scenario.members, scenario.clients
    _, first_row = np.unique(members.client, return_index=True)
    first_topic = members.topic[first_row]
    spread = [
        clients.x_km[first_topic == topic].var(ddof=1)
        for topic in range(len(scenario.topics))
        if np.count_nonzero(first_topic == topic) >= 2
    ]
    # A Gaussian of 2 km has variance 4; the field's edge takes a part of it away.
    assert 2.0 < np.mean(spread) < 4.2
    for place in (clients.x_km, clients.y_km):
        assert place.min() >= 0
        assert place.max() <= 10


def test_servers_stand_on_a_grid_or_anywhere() -> None:
    grid = generate_reloc2020(Reloc2020(0.07), 0).servers
    assert sorted(set(grid.x_km.tolist())) == pytest.approx(np.arange(10) + 0.5)
    anywhere = generate_reloc2020(Reloc2020(0.07, grid=False), 0).servers
    assert len(set(anywhere.x_km.tolist())) == len(anywhere) == 100
    assert np.all(anywhere.storage == 160)
    assert np.all(anywhere.client_limit == 100)


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf")])
def test_a_ratio_that_cannot_be_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match="ratio"):
        Reloc2020(ratio)
