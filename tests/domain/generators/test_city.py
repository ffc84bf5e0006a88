from collections import defaultdict

import numpy as np
import pytest

from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.scenario import Scenario
from nearcast.domain.validation import validate_scenario
from nearcast.errors import ConfigError
from nearcast.geo.distance import nearest

SHAPES = [(2, 1, 1), (3, 1, 4), (2, 7, 1), (10, 3, 50), (300, 9, 40), (2000, 25, 200), (900, 60, 7)]


@pytest.fixture(scope="module")
def city() -> Scenario:
    return generate_city(City(), 1)


@pytest.mark.parametrize(("clients", "servers", "topics"), SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_city_has_what_was_asked_for_and_is_valid(
    clients: int, servers: int, topics: int, seed: int
) -> None:
    scenario = generate_city(City(clients, servers, topics), seed)
    validate_scenario(scenario)
    assert (len(scenario.clients), len(scenario.servers)) == (clients, servers)
    assert len(scenario.topics) == topics


@pytest.mark.parametrize(("clients", "servers", "topics"), SHAPES)
def test_every_client_is_a_member_and_every_topic_delivers_from_one_to_another(
    clients: int, servers: int, topics: int
) -> None:
    members = generate_city(City(clients, servers, topics), 3).members
    publishers, subscribers = defaultdict(set), defaultdict(set)
    rows = zip(
        members.topic.tolist(),
        members.client.tolist(),
        members.publishes.tolist(),
        members.subscribes.tolist(),
        strict=True,
    )
    seen = set()
    for topic, client, publishes, subscribes in rows:
        assert (topic, client) not in seen
        assert publishes or subscribes
        seen.add((topic, client))
        if publishes:
            publishers[topic].add(client)
        if subscribes:
            subscribers[topic].add(client)
    assert {client for _, client in seen} == set(range(clients))
    for topic in range(topics):
        assert any(subscribers[topic] - {publisher} for publisher in publishers[topic])


def test_the_same_seed_gives_the_same_city_and_another_seed_another(city: Scenario) -> None:
    again, other = generate_city(City(), 1), generate_city(City(), 2)
    for part in ("servers", "clients", "topics", "members"):
        for name in getattr(city, part).__dataclass_fields__:
            first, second = getattr(getattr(city, part), name), getattr(getattr(again, part), name)
            assert first.tolist() == second.tolist()
    assert city.clients.x_km.tolist() != other.clients.x_km.tolist()
    assert City(**city.settings.extra["city"]) == City()


def test_everything_stands_inside_a_field_that_grows_with_the_servers(city: Scenario) -> None:
    larger = generate_city(City(servers=100), 1)
    assert larger.settings.width_km == pytest.approx(2 * city.settings.width_km)
    for scenario in (city, larger):
        for part in (scenario.servers, scenario.clients):
            for axis_km in (part.x_km, part.y_km):
                assert 0 <= axis_km.min() <= axis_km.max() <= scenario.settings.width_km


def test_clients_crowd_in_hot_spots(city: Scenario) -> None:
    width_km = city.settings.width_km
    cells, *_ = np.histogram2d(
        city.clients.x_km, city.clients.y_km, bins=10, range=[[0, width_km], [0, width_km]]
    )
    busiest = np.sort(cells.ravel())[::-1]
    # Evenly spread, the ten busiest of a hundred cells would hold some 13 % of the clients.
    assert busiest[:10].sum() > 0.3 * len(city.clients)


def test_a_few_servers_are_much_larger_than_the_rest(city: Scenario) -> None:
    storage = np.sort(city.servers.storage)
    assert storage[-1] > 4 * np.median(storage)
    assert len(set(city.servers.compute.tolist())) > 20
    assert len(set(city.servers.client_limit.tolist())) > 15
    assert len(set(city.servers.net_id.to_pylist())) >= 3
    assert np.array_equal(storage, np.rint(storage))


def test_most_members_do_both_some_only_publish_and_some_only_subscribe(city: Scenario) -> None:
    publishes, subscribes = city.members.publishes, city.members.subscribes
    assert np.mean(publishes & subscribes) > 0.5
    assert np.mean(publishes & ~subscribes) > 0.05
    assert np.mean(~publishes & subscribes) > 0.05
    assert (city.members.rate_hz[publishes] > 0).all()
    assert (city.members.rate_hz[~publishes] == 0).all()


def test_topics_differ_in_kind_size_and_delay(city: Scenario) -> None:
    members, clients = city.members, city.clients
    sizes = np.bincount(members.topic)
    assert sizes.max() > 4 * np.median(sizes)
    permissible_ms = city.topics.permissible_ms
    assert 10 <= permissible_ms.min() <= permissible_ms.max() <= 100
    assert city.topics.process_ms.max() < 10
    # City-wide topics, the last 30, spread over the field; neighbourhoods, the first 120, do not.
    spread_km = np.array(
        [
            np.hypot(*(np.std(axis[members.client[members.topic == n]]) for axis in axes))
            for axes in [(clients.x_km, clients.y_km)]
            for n in range(200)
        ]
    )
    assert np.median(spread_km[:120]) < 0.7 * np.median(spread_km[170:])


def test_storage_and_compute_are_tight_and_nearest_is_overloaded(city: Scenario) -> None:
    publishers = np.bincount(city.members.topic[city.members.publishes], minlength=200)
    assert 0.6 < 2 * city.topics.spool.sum() / city.servers.storage.sum() < 0.8
    assert 0.4 < city.topics.spool @ publishers / city.servers.compute.sum() < 0.6
    assert city.topics.spool.max() <= city.servers.storage.max()
    homes = nearest(city.clients.x_km, city.clients.y_km, city.servers.x_km, city.servers.y_km, 1)[
        1
    ][:, 0]
    cost = evaluate_ratio(ratio_problem(city), homes)
    assert cost.storage_used.sum() > 1.3 * city.servers.storage.sum()
    assert np.mean(cost.local_share) < 0.7


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clients": 1}, "2 clients or more, not 1"),
        ({"servers": 0}, "servers must be 1 or more"),
        ({"topics": 0}, "topics must be 1 or more"),
        ({"vehicles": 1.5}, "vehicles"),
        ({"second_topic": -0.1}, "second_topic"),
        ({"sensors": 0.6, "listeners": 0.6}, "exceed 1"),
        ({"road_topics": 0.5, "city_wide_topics": 0.5}, "exceed 1"),
        ({"reach_km": 0}, "reach_km"),
        ({"spool_per_publisher": 0}, "spool_per_publisher"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        City(**wrong)  # type: ignore[arg-type]


def test_a_large_city_keeps_its_promises_too() -> None:
    members = generate_city(City(100_000, 300, 10_000), 1).members
    assert len(np.unique(members.client)) == 100_000
    assert np.bincount(members.topic, minlength=10_000).min() >= 2
    assert np.bincount(members.topic[members.publishes], minlength=10_000).min() >= 1
