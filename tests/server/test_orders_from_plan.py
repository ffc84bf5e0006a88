"""A plan as orders, against what its tables say row by row."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Brokers, Plan
from nearcast.domain.scenario import Clients, Members, Scenario, ScenarioSettings, Servers, Topics
from nearcast.errors import ConfigError, ScenarioError
from nearcast.planning.solve import plan_of_homes
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import ServerOrder
from server.planned_orders import orders_from_plan


def small_scenario(
    servers: tuple[Any, ...] = (1, 2), spools: tuple[float, ...] = (2.4, 0.0)
) -> Scenario:
    """Clients a, b, c; a and b publish topic 7, c publishes topic 8, a subscribes to it."""
    free = np.full(2, np.inf)
    return Scenario(
        ScenarioSettings("small", 10.0, 10.0),
        Servers(pa.array(servers), np.zeros(2), np.ones(2), free, free, free, pa.array(["n"] * 2)),
        Clients(pa.array(["a", "b", "c"]), np.zeros(3), np.zeros(3)),
        Topics(pa.array([7, 8]), np.array(spools), free, np.zeros(2)),
        Members(
            topic=np.array([0, 0, 1, 1], dtype=np.int32),
            client=np.array([0, 1, 0, 2], dtype=np.int32),
            publishes=np.array([True, True, False, True]),
            subscribes=np.ones(4, dtype=np.bool_),
            rate_hz=np.ones(4),
        ),
    )


def small_plan(on_edge: list[bool], share: list[float]) -> Plan:
    """a at home on 1, b and c on 2; b publishes to 1. Rows: 7 on 1, 8 on 2, 8 on 2 again."""
    return Plan(
        homes=np.array([0, 1, 1], dtype=np.int32),
        publish=np.array([0, 0, -1, 1], dtype=np.int32),
        brokers=Brokers(
            topic=np.array([0, 1, 1], dtype=np.int32),
            server=np.array([0, 1, 1], dtype=np.int32),
            on_edge=np.array(on_edge),
            share=np.array(share),
        ),
    )


def addresses(*names: str) -> list[ServerOrder]:
    return [ServerOrder(name, "127.0.0.1", 7000, bytes(32)) for name in names]


PLAN = small_plan([True, True, False], [1.0, 0.7, 0.3])


def test_ids_become_text_and_only_clients_with_a_key_are_named() -> None:
    orders = orders_from_plan(
        small_scenario(), PLAN, addresses("1", "2", "cloud"), {"b": b"B", "c": b"C"}, revision=4
    )
    assert (orders.revision, orders.plan_version, orders.cloud) == (4, 1, "cloud")
    assert [server.server for server in orders.servers] == ["1", "2", "cloud"]
    assert {one.client: one.home for one in orders.clients} == {"b": "2", "c": "2"}


def test_every_publisher_of_the_plan_is_told_who_processes() -> None:
    keys = {"a": b"A", "b": b"B", "c": b"C"}
    orders = orders_from_plan(small_scenario(), PLAN, addresses("1", "2", "cloud"), keys)
    assert {one.client: one.publish for one in orders.clients} == {
        "a": {"7": "1"},
        "b": {"7": "1"},
        "c": {"8": "2"},
    }


def test_a_topic_that_delegates_has_the_cloud_among_its_brokers() -> None:
    seven, eight = orders_from_plan(small_scenario(), PLAN, addresses("1", "2", "cloud"), {}).topics
    assert (seven.brokers, seven.spool) == (("1",), 2)
    assert (eight.brokers, eight.spool) == (("2", "cloud"), 1)


def test_a_server_that_delegates_all_has_share_0_and_is_no_broker() -> None:
    plan = small_plan([True, False, False], [0.5, 1.0, 1.0])
    seven, eight = orders_from_plan(small_scenario(), plan, addresses("1", "2", "cloud"), {}).topics
    assert seven.brokers == ("1", "cloud")
    assert eight.brokers == ("cloud",)


def test_topics_are_processed_as_the_site_says() -> None:
    rule = ProcessorRule("7", "threshold", {"above": 3}, notify_after_sync=True)
    orders = orders_from_plan(
        small_scenario(), PLAN, addresses("1", "2", "cloud"), {}, processors=[rule]
    )
    assert orders.processors == (rule,)
    assert {one.processor for one in orders.topics} == {""}  # the rules count


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (("1", "cloud"), "server '2' has no entry"),
        (("1", "2"), "server 'cloud' has no entry"),
        (("1", "2", "cloud", "3"), "server '3' of .* is not in the scenario"),
        (("1", "2", "cloud", "1"), "server '1' is there twice"),
    ],
)
def test_servers_must_be_those_of_the_scenario(names: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        orders_from_plan(small_scenario(), PLAN, addresses(*names), {})


def test_an_edge_server_cannot_have_the_name_of_the_cloud_server() -> None:
    with pytest.raises(ConfigError, match="called 'cloud', and so is an edge server"):
        orders_from_plan(small_scenario(("1", "cloud")), PLAN, addresses("1", "cloud"), {})


def test_two_ids_must_not_be_the_same_text() -> None:
    scenario = small_scenario(("x", "x"))
    with pytest.raises(ScenarioError, match="two servers are called 'x'"):
        orders_from_plan(scenario, PLAN, addresses("x", "cloud"), {})


def test_a_key_of_a_client_outside_the_scenario_is_refused() -> None:
    with pytest.raises(ConfigError, match="client 'z' is not in the scenario"):
        orders_from_plan(small_scenario(), PLAN, addresses("1", "2", "cloud"), {"z": b"Z"})


def test_orders_of_a_generated_plan_agree_with_its_rows() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=12), seed=3)
    rng = np.random.default_rng(3)
    homes = rng.choice(16, len(scenario.clients)).astype(np.int32)
    plan = plan_of_homes(scenario, homes, rng.choice([0.0, 0.4, 1.0, 1.0], 16))
    servers = [str(one) for one in scenario.servers.ids.to_pylist()]
    clients = [str(one) for one in scenario.clients.ids.to_pylist()]
    topics = [str(one) for one in scenario.topics.ids.to_pylist()]
    orders = orders_from_plan(
        scenario, plan, addresses(*servers, "cloud"), {name: name.encode() for name in clients}
    )
    rows = list(
        zip(
            plan.brokers.topic.tolist(),
            plan.brokers.server.tolist(),
            plan.brokers.on_edge.tolist(),
            plan.brokers.share.tolist(),
            strict=True,
        )
    )
    for topic in orders.topics:
        mine = [(servers[s], edge, part) for t, s, edge, part in rows if topics[t] == topic.topic]
        kept = {server: part for server, edge, part in mine if edge}
        assert set(topic.brokers) - {"cloud"} == set(kept)
        assert ("cloud" in topic.brokers) == any(not edge or part < 1 for _, edge, part in mine)
    assert [one.home for one in orders.clients] == [servers[home] for home in plan.homes]
    delegated = Counter[str]()
    due: dict[str, float] = defaultdict(float)
    share = {(topics[t], servers[s]): part for t, s, edge, part in rows if edge}
    for one in orders.clients:
        for name, server in one.publish.items():
            assert server in (one.home, "cloud")
            delegated[one.home] += server == "cloud"
            due[one.home] += 1 - share.get((name, one.home), 0.0)
    assert sum(len(one.publish) for one in orders.clients) == int(scenario.members.publishes.sum())
    for server in servers:
        assert abs(delegated[server] - due[server]) <= 0.5 + 1e-9
