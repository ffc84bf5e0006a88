"""Clients that publish straight to the servers that process their topics."""

from __future__ import annotations

from collections import Counter

import pytest

from nearcast.testing.simulated_network import Network
from nearcast.wire.actions import Disconnected
from server.site_making import RandomSite


def spread_site(seed: int, network: Network | None = None, **options: object) -> RandomSite:
    """Return a site whose streams are processed at any edge server, home or not."""
    made = RandomSite(
        seed,
        delegated=0.0,
        spool=1_000,
        network=network or Network(),
        **options,  # type: ignore[arg-type]
    )
    spread(made)
    return made


def spread(made: RandomSite) -> None:
    made.targets = {stream: made.rng.choice(made.edge_names) for stream in made.targets}


def forwarded(made: RandomSite) -> int:
    """How many publications went through a home to another server."""
    nodes = [made.site.servers[name].node for name in made.edge_names]
    return sum(node.counts["forwarded_out"] for node in nodes if node is not None)


def counted(made: RandomSite, name: str) -> int:
    nodes = [made.site.servers[server].node for server in made.edge_names]
    return sum(node.counts[name] for node in nodes if node is not None)


def check(made: RandomSite) -> None:
    """All was acknowledged, processed once in the order of each publisher, and heard once."""
    assert made.unacknowledged == 0
    assert made.heard() == made.expected()
    processed = Counter((topic, who, number) for _, topic, who, _, number in made.site.processed)
    assert processed == Counter(made.published)
    last: Counter[tuple[str, str]] = Counter()
    for _, topic, who, _, number in made.site.processed:
        assert number == last[topic, who] + 1
        last[topic, who] = number


@pytest.mark.parametrize("seed", range(6))
def test_after_the_first_message_a_topic_goes_straight_to_its_server(seed: int) -> None:
    made = spread_site(seed)
    made.start()
    for topic, publisher in made.targets:
        made.publish(topic, publisher)
    made.site.run(2.0)
    elsewhere = {one: to for one, to in made.targets.items() if to != made.homes[one[1]]}
    assert forwarded(made) == len(elsewhere)
    before = forwarded(made)
    for _ in range(5):
        for topic, publisher in made.targets:
            made.publish(topic, publisher)
            made.site.run(0.05)
    made.site.run(5.0)
    assert forwarded(made) == before
    assert counted(made, "visits") == len({(who, to) for (_, who), to in elsewhere.items()})
    assert counted(made, "visits_refused") == 0
    check(made)
    for name, client in made.people.items():
        assert client.session.home == made.site.servers[made.homes[name]].home


@pytest.mark.parametrize("seed", range(10))
def test_on_a_bad_network_visits_lose_and_double_nothing(seed: int) -> None:
    made = spread_site(seed, Network(loss=0.1, duplication=0.05, jitter_s=0.01))
    made.start()
    made.publish_some(120, pause_s=0.02)
    made.site.run(30.0)
    check(made)


@pytest.mark.parametrize("seed", range(6))
def test_when_the_plan_changes_publishers_follow_it(seed: int) -> None:
    made = spread_site(seed)
    made.start()
    for revision in range(2, 6):
        made.publish_some(20, pause_s=0.02)
        spread(made)
        for name in made.rng.sample(list(made.homes), 2):
            made.homes[name] = made.rng.choice(made.edge_names)
        made.site.obey(made.orders(revision))
    made.publish_some(40, pause_s=0.05)
    made.site.run(20.0)
    before = forwarded(made)
    made.publish_some(40, pause_s=0.05)
    made.site.run(20.0)
    check(made)
    # all have been told where to publish by now, but for those that had not published lately
    assert forwarded(made) - before <= len(made.targets)
    for name, client in made.people.items():
        assert client.session.home == made.site.servers[made.homes[name]].home


@pytest.mark.parametrize("seed", range(6))
def test_when_a_visited_server_dies_topics_go_through_the_home_and_back_later(seed: int) -> None:
    made = spread_site(seed, processor="forward")
    made.start()
    made.publish_some(60, pause_s=0.02)
    made.site.run(3.0)
    (topic, publisher), server = next(
        (one, to) for one, to in made.targets.items() if to != made.homes[one[1]]
    )
    victim, client = made.site.servers[server], made.people[publisher]
    victim.kill()
    made.site.run(1.0)
    at = len(made.published)
    for _ in range(30):
        made.publish(topic, publisher)
        made.site.run(0.3)
    made.site.run(5.0)
    assert client.session.unacknowledged == 0
    assert not any(isinstance(event, Disconnected) for _, event in client.events)
    victim.restart()
    made.site.run(70.0)
    before = forwarded(made)
    for _ in range(3):
        made.publish(topic, publisher)
        made.site.run(1.0)
    made.site.run(20.0)
    for _ in range(10):
        made.publish(topic, publisher)
        made.site.run(0.2)
    made.site.run(5.0)
    assert client.session.unacknowledged == 0
    assert forwarded(made) - before <= 4
    heard = made.heard()
    for name, wanted in made.expected(made.published[at:]).items():
        if made.homes[name] != server:
            assert {one: heard[name][one] for one in wanted} == dict(wanted)
