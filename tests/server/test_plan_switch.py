"""Plans change while messages are on their way: each is processed by one server, once."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.publication import Origin
from server.site_making import QUICK, Identity, RandomSite


def switching_site(seed: int, loss: float) -> RandomSite:
    duplication = 0.05 if loss else 0.0
    network = Network(loss=loss, duplication=duplication, jitter_s=0.01)
    # nobody is given up here
    made = RandomSite(seed, spool=1_000, network=network, wire=QUICK, takeover_s=1e6)
    made.start()
    return made


def switch(made: RandomSite, revision: int) -> None:
    """Let every stream go to a random server; each server hears of it at another time."""
    for stream in made.targets:
        made.targets[stream] = made.rng.choice([*made.edge_names, "cloud"])
    orders = made.orders(revision)
    for server in made.site.servers.values():
        made.site.later(made.rng.random(), partial(server.obey, orders))


def processed(made: RandomSite) -> Counter[Identity]:
    return Counter((topic, who, number) for _, topic, who, _, number in made.site.processed)


def effects(made: RandomSite) -> Counter[Identity]:
    """How many servers have processed each message for good."""
    found: Counter[Identity] = Counter()
    for server in made.site.servers.values():
        assert server.node is not None
        for topic, managed in server.node.broker.topics.items():
            found.update(
                (topic, one.publisher, one.sequence)
                for one in managed.spool.view()
                if one.origin is Origin.DIRECT
            )
    return found


def check_heard_in_order(made: RandomSite) -> None:
    for client in made.people.values():
        heard: dict[tuple[str, str], list[int]] = {}
        for one in client.notified:
            heard.setdefault((one.topic, one.publisher), []).append(one.sequence)
        for numbers in heard.values():
            assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(10))
def test_plan_switches_process_each_message_once(seed: int, loss: float) -> None:
    made = switching_site(seed, loss)
    for revision in range(2, 12):
        switch(made, revision)
        made.publish_some(40, pause_s=0.0125)
    made.site.run(30.0)
    assert made.unacknowledged == 0
    assert processed(made) == Counter(made.published)
    assert made.heard() == made.expected()


@pytest.mark.parametrize("seed", range(20))
def test_plan_switches_with_crashes_have_each_effect_once(seed: int) -> None:
    made = switching_site(seed, 0.05)
    for revision in range(2, 12):
        switch(made, revision)
        for _ in range(4):
            made.publish_some(10, pause_s=0.0125)
            made.kill_or_restart_some()
    made.restart_all()
    made.site.obey(made.orders(20))
    made.site.run(60.0)
    assert made.unacknowledged == 0
    assert effects(made) == Counter(made.published)
    for counts in made.heard().values():
        assert set(counts.values()) <= {1}


@pytest.mark.parametrize("seed", range(6))
def test_homes_take_delegated_streams_over_while_the_cloud_server_is_away(seed: int) -> None:
    made = RandomSite(seed, spool=1_000, delegated=1.0, wire=QUICK)
    made.start()
    made.publish_some(20)
    made.site.run(5.0)
    cloud = made.site.servers["cloud"]
    if seed % 2:
        cloud.kill()
    else:  # it goes on, but nobody reaches it
        made.network.cuts.update(frozenset(("cloud", one)) for one in made.edge_names)
    made.publish_some(40)
    made.site.run(8.0)
    assert made.unacknowledged == 0
    made.publish_some(20)
    made.site.run(1.0)
    assert made.unacknowledged == 0  # nothing waits any more
    if seed % 2:
        cloud.restart()
    made.network.cuts.clear()
    made.site.run(20.0)
    before = len(made.site.processed)
    made.publish_some(20)
    made.site.run(10.0)
    assert made.unacknowledged == 0
    assert {server for server, *_ in made.site.processed[before:]} == {"cloud"}
    assert effects(made) == Counter(made.published)
    assert made.heard() == made.expected()


def test_a_stream_comes_from_a_server_whose_orders_do_not_name_its_topic() -> None:
    site = SimulatedSite(1)
    site.add_server("e0")
    site.add_server("e1")
    person = site.add_client("p", "e1")
    servers = site.server_orders()
    site.obey(Orders(1, 1, "", servers, (), (ClientOrder("p", "e1", {}),)))
    site.connect([person])
    site.run(2.0)
    person.publish("t", b"1")  # e1 manages the topic from now on, and nobody else does
    site.run(2.0)
    moved = ClientOrder("p", "e0", {"t": "e0"})
    topic = TopicOrder("t", 100, ("e0",), version=2)
    site.servers["e0"].obey(Orders(2, 2, "", servers, (topic,), (moved,)))
    site.servers["e1"].obey(Orders(2, 2, "", servers, (), (), moved={"p": "e0"}))
    site.run(5.0)
    person.publish("t", b"2")
    site.run(10.0)
    assert person.session.unacknowledged == 0
    assert site.servers["e0"].counts["streams_claimed"] == 1
    assert site.servers["e1"].counts["mesh_refused"] == 0


def test_claims_that_were_put_off_are_repeated_though_much_is_under_way() -> None:
    """Servers a second away and back hear of a plan at different times, under load."""
    network = Network(delay_s=lambda *pair: 0.002 if any(one[0] == "c" for one in pair) else 0.5)
    made = RandomSite(3, edges=6, clients=16, topics=6, spool=1_000, delegated=0.0, network=network)
    made.start()
    waits, at, seen = list[float](), dict[Identity, float](), 0
    for revision in (1, 2):
        if revision == 2:
            for stream in made.targets:
                made.targets[stream] = made.rng.choice(made.edge_names)
            orders = made.orders(revision)
            for server in made.site.servers.values():
                made.site.later(5 * made.rng.random(), partial(server.obey, orders))
        for _ in range(1_000):
            made.publish_some(1, pause_s=0.008)
            at[made.published[-1]] = made.site.now
            for _, topic, who, _, number in made.site.processed[seen:]:
                waits.append(made.site.now - at.get((topic, who, number), made.site.now))
            seen = len(made.site.processed)
    assert len(waits) > 1_900
    # the last server has the plan after 5 s; then a claim takes one or two trips there and back
    assert max(waits) < 7.5
