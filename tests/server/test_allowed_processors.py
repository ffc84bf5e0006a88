"""Orders cannot bring code onto a server: what it may run is its own configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs

from nearcast.broker.registry import SHIPPED, check_allowed
from nearcast.errors import ProcessorError
from nearcast.server.processor_rules import ProcessorRule, check_rules
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import PublicationRefused
from nearcast.wire.messages import RefuseReason


def _orders(site: SimulatedSite, processor: str, options: dict[str, object]) -> Orders:
    rule = ProcessorRule("by/rule/#", processor, options)
    topic = TopicOrder("by/order", 10, ("e1",), processor, options)
    return Orders(1, 1, "", site.server_orders(), (topic,), (), (rule,))


def test_an_order_that_names_a_command_runs_nothing_and_its_topics_are_not_managed(
    tmp_path: Path,
) -> None:
    made = tmp_path / "made"
    site = SimulatedSite(1)
    server = site.add_server("e1")
    assert server.node is not None
    server.do(
        server.node.obey(_orders(site, "subprocess:Popen", {"args": ["touch", str(made)]}), 1.0)
    )
    node = server.node
    for topic in ("by/order", "by/rule/x"):
        for _ in range(3):
            node._broker_part.ensure_managed(topic)
    server.do(node.on_timer(2.0))
    assert not made.exists()
    assert not node.broker.topics
    assert not node.topics.announced
    refused = [one.fields for one in server.incidents if one.event == "topic_refused"]
    assert sorted(str(one["topic"]) for one in refused) == ["by/order", "by/rule/x"]
    assert all("not allowed" in str(one["reason"]) for one in refused)
    assert node.counts["topics_refused"] == len(refused)


def test_publishers_hear_that_their_topic_is_not_processed() -> None:
    site = SimulatedSite(1)
    site.add_server("e1")
    car = site.add_client("car", "e1")
    clients = (ClientOrder("car", "e1"),)
    orders = structs.replace(_orders(site, "subprocess:Popen", {"args": ["true"]}), clients=clients)
    site.obey(orders)
    site.connect([car])
    site.run(2.0)
    for topic in ("by/order", "by/rule/x", "fine"):
        car.publish(topic, b"x")
    site.run(2.0)
    refused = [event for _, event in car.events if isinstance(event, PublicationRefused)]
    assert {(one.topic, one.reason) for one in refused} == {
        ("by/order", RefuseReason.NOT_PROCESSED),
        ("by/rule/x", RefuseReason.NOT_PROCESSED),
    }
    assert car.session.unacknowledged == 0


def test_what_the_configuration_allows_is_run_and_shipped_ones_always() -> None:
    site = SimulatedSite(1)
    server = site.add_server("e1")
    assert server.node is not None
    server.do(server.node.obey(_orders(site, "noted", {}), 1.0))
    assert server.node.broker.topics["by/order"].settings.processor == "noted"
    for name in SHIPPED:
        check_allowed(name, ())
    check_allowed("any:Thing", None)


def test_rules_that_are_not_allowed_are_refused_before_their_module_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "never_loaded.py").write_text("class Thing: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ProcessorError, match="not allowed"):
        check_rules([ProcessorRule("#", "never_loaded:Thing")], {"other:Thing"})
    assert "never_loaded" not in sys.modules
