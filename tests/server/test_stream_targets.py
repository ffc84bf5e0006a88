"""Who processes a stream: as ordered, else at home while there is room."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.server.stream_targets import Capacity, StreamTargets


def orders(
    publish: dict[str, dict[str, str]] | None = None, *topics: TopicOrder, revision: int = 1
) -> Orders:
    clients = tuple(ClientOrder(name, "e1", one) for name, one in (publish or {}).items())
    return Orders(revision, revision, "cloud", (), topics, clients)


def targets(capacity: Capacity, spool: int = 10) -> StreamTargets:
    return StreamTargets("e1", capacity, spool)


def test_what_the_orders_name_goes_where_they_say_whatever_the_room() -> None:
    made = targets(Capacity(0.0, 0.0))
    topic = TopicOrder("t", 5, ("e1", "e2", "cloud"))
    made.obey(orders({"a": {"t": "e1"}, "b": {"t": "e2"}, "c": {"t": "cloud"}}, topic))
    assert [made.target("t", name) for name in "abc"] == ["e1", "e2", "cloud"]
    assert (made.local_streams, made.delegated_streams) == (1, 2)
    assert (made.storage_used, made.compute_used) == (5.0, 5.0)


def test_a_server_without_a_broker_of_the_topic_leaves_the_work_to_the_cloud() -> None:
    made = targets(Capacity())
    made.obey(orders({"a": {"t": "e2"}}, TopicOrder("t", 5, ("e1", "cloud"))))
    assert made.target("t", "a") == "cloud"


def test_without_orders_all_stays_here() -> None:
    made = targets(Capacity(0.0, 0.0))
    assert made.target("t", "a") == "e1"


@pytest.mark.parametrize("seed", range(20))
def test_unnamed_streams_stay_here_while_storage_and_compute_last(seed: int) -> None:
    rng = Random(seed)
    capacity = Capacity(rng.choice([35.0, 60.0, 1e9]), rng.choice([45.0, 90.0, 1e9]))
    made = targets(capacity)
    made.obey(orders(None, TopicOrder("planned", 15, ("e1",))))
    held: dict[str, set[str]] = {"planned": set()}
    spools = {"planned": 15}
    for _ in range(60):
        topic = rng.choice(["planned", "u1", "u2", "u3", "u4"])
        publisher = f"p{rng.randrange(6)}"
        spool = spools.get(topic, 10)
        storage = sum(spools.get(one, 10) for one in {*held, topic})
        compute = sum(spools.get(one, 10) * len(who) for one, who in held.items()) + spool
        fits = storage <= capacity.storage and compute <= capacity.compute
        known = any(made.is_forwarded(topic, publisher, one) for one in ("e1", "cloud"))
        before = made.target(topic, publisher) if known else ("e1" if fits else "cloud")
        assert made.target(topic, publisher) == before
        if not known and fits:
            held.setdefault(topic, set()).add(publisher)
    assert made.local_streams == sum(map(len, held.values()))
    assert made.storage_used == sum(spools.get(one, 10) for one in held)


def test_new_orders_move_only_the_streams_that_they_speak_of() -> None:
    made = targets(Capacity(20.0, 20.0))
    first = TopicOrder("t", 10, ("e1", "cloud"))
    made.obey(orders({"a": {"t": "e1"}}, first))
    assert [made.target("t", "a"), made.target("u", "b"), made.target("u", "c")] == [
        "e1",
        "e1",
        "cloud",
    ]
    made.obey(orders({"a": {"t": "cloud"}}, first, revision=2))
    assert [made.target("t", "a"), made.target("u", "b"), made.target("u", "c")] == [
        "cloud",
        "e1",
        "cloud",  # there would be room now, but a stream stays where it is
    ]
    made.obey(orders({"a": {"t": "e1"}}, first, revision=3))
    assert made.target("t", "a") == "e1"
    assert made.compute_used == 20.0


def test_a_spool_of_another_size_counts_from_the_next_orders_on() -> None:
    made = targets(Capacity())
    made.obey(orders(None, TopicOrder("t", 10, ("e1",))))
    made.target("t", "a")
    made.obey(orders(None, TopicOrder("t", 30, ("e1",)), revision=2))
    assert made.target("t", "a") == "e1"
    assert (made.storage_used, made.compute_used) == (30.0, 30.0)
