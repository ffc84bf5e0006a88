from collections import Counter

import numpy as np
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, draw_inside, generate_reloc2021
from nearcast.domain.scenario import Scenario
from nearcast.domain.validation import validate_scenario
from nearcast.errors import ConfigError


def arrays_of(scenario: Scenario) -> list[np.ndarray]:
    servers, clients, topics = scenario.servers, scenario.clients, scenario.topics
    members = scenario.members
    return [
        servers.x_km,
        servers.y_km,
        servers.storage,
        servers.compute,
        clients.x_km,
        clients.y_km,
        topics.spool,
        members.topic,
        members.client,
    ]


def test_the_same_seed_gives_the_same_scenario_and_another_seed_another() -> None:
    first, again, other = (generate_reloc2021(Reloc2021(), seed) for seed in (3, 3, 4))
    assert all(map(np.array_equal, arrays_of(first), arrays_of(again)))
    assert not np.array_equal(first.clients.x_km, other.clients.x_km[: len(first.clients)])


def test_the_setting_is_that_of_the_paper() -> None:
    scenario = generate_reloc2021(Reloc2021(), 0)
    places = zip(scenario.servers.x_km.tolist(), scenario.servers.y_km.tolist(), strict=True)
    assert sorted(places) == [(x, y) for x in (5, 10, 15, 20) for y in (5, 10, 15, 20)]
    assert (scenario.settings.width_km, scenario.settings.height_km) == (25, 25)
    assert set(scenario.servers.storage.tolist()) == {640}
    assert set(scenario.servers.compute.tolist()) == {3200}
    assert len(scenario.topics) == 64
    assert (scenario.settings.ms_per_km, scenario.settings.cloud_ms) == (0.1, 5)
    validate_scenario(scenario)


@pytest.mark.parametrize("sigma_km", [1, 5, 20])
def test_every_client_is_inside_the_field(sigma_km: float) -> None:
    clients = generate_reloc2021(Reloc2021(sigma_km=sigma_km), 1).clients
    for axis_km in (clients.x_km, clients.y_km):
        assert 0 <= axis_km.min() <= axis_km.max() <= 25


@pytest.mark.parametrize("overlap", [0.0, 0.03, 0.6])
def test_no_client_is_in_more_than_four_topics_or_twice_in_one(overlap: float) -> None:
    members = generate_reloc2021(Reloc2021(overlap=overlap), 2).members
    rows = list(zip(members.topic.tolist(), members.client.tolist(), strict=True))
    topics_of = Counter(client for _, client in rows)
    assert len(set(rows)) == len(rows)
    assert max(topics_of.values()) <= 4
    assert (max(topics_of.values()) > 1) == (overlap > 0)


def test_topics_have_10_to_21_members_and_14_3_on_average() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=4000), 7)
    sizes = Counter(scenario.members.topic.tolist())
    assert min(sizes.values()) >= 10
    assert max(sizes.values()) <= 21
    # Sizes have a standard deviation of 1.6, their mean one of 0.026.
    assert np.mean(list(sizes.values())) == pytest.approx(14.3, abs=0.1)


def test_the_share_of_repeated_members_follows_the_overlap() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=2000, overlap=0.03), 7)
    repeats = len(scenario.members) - len(scenario.clients)
    assert repeats / len(scenario.members) == pytest.approx(0.03, abs=0.005)


def test_a_spool_holds_p_messages_of_each_member() -> None:
    scenario = generate_reloc2021(Reloc2021(spool_per_member=1.5), 1)
    sizes = Counter(scenario.members.topic.tolist())
    assert scenario.topics.spool.tolist() == [1.5 * sizes[topic] for topic in range(64)]


def test_members_lie_around_the_centre_of_their_first_topic() -> None:
    # sigma 1 in a field of 25: the spread of a topic is sigma unless the border cuts it off.
    scenario = generate_reloc2021(Reloc2021(sigma_km=1.0, overlap=0.0), 9)
    x_km = scenario.clients.x_km[scenario.members.client]
    spread = [np.std(x_km[scenario.members.topic == topic], ddof=1) for topic in range(64)]
    assert np.sqrt(np.mean(np.square(spread))) == pytest.approx(1.0, abs=0.08)


def test_limits_grow_with_the_topics_beyond_those_of_the_paper() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=640, servers_per_side=4), 1)
    assert set(scenario.servers.storage.tolist()) == {6400}
    assert set(scenario.servers.compute.tolist()) == {32000}


def test_points_are_redrawn_until_they_are_inside() -> None:
    place = draw_inside(np.random.default_rng(0), np.zeros((500, 2)), 30.0, 10.0)
    assert ((place >= 0) & (place <= 10)).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma_km": 0}, "sigma"),
        ({"spool_per_member": -1}, "spool per member"),
        ({"overlap": 1}, "overlap"),
        ({"topics": 0}, "topics"),
        ({"servers_per_side": 0}, "servers"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Reloc2021(**wrong)  # type: ignore[arg-type]
