"""Who knows which subscriptions: the brokers concerned, in time, and nobody else."""

from __future__ import annotations

import pytest

from nearcast.server import allowance
from nearcast.server.broker_progress import BrokerProgress
from nearcast.server.mesh_messages import MeshMessage
from nearcast.server.subscriber_messages import Subscribers
from nearcast.wire.actions import Confirmed, Missed
from server.test_resume import Quiet


def known(quiet: Quiet) -> dict[str, int]:
    """Subscriptions that each server knows."""
    return {
        name: one.node.subscribers.table.subscriptions
        for name, one in quiet.made.site.servers.items()
        if one.node is not None
    }


def test_only_a_home_and_the_brokers_of_a_topic_know_who_subscribes() -> None:
    quiet = Quiet("e2", subscribers=("c1", "c2"))
    assert known(quiet) == {"e0": 0, "e1": 2, "e2": 2, "cloud": 0}
    quiet.listener.subscribe("city/#")
    quiet.made.site.run(2.0)
    assert known(quiet) == {"e0": 0, "e1": 3, "e2": 2, "cloud": 0}
    quiet.publisher.publish("city/new", b"first")  # at its home, which no orders name
    quiet.made.site.run(1.0)
    assert known(quiet) == {"e0": 1, "e1": 3, "e2": 2, "cloud": 0}
    assert [one.text for one in quiet.listener.notified] == ["first"]


@pytest.mark.parametrize("wanted", ["city/new", "city/#"])
@pytest.mark.parametrize("durable", [True, False])
def test_the_first_message_of_a_topic_is_heard(wanted: str, durable: bool) -> None:
    quiet = Quiet("e2")
    quiet.listener.subscribe(wanted)
    quiet.made.site.run(2.0)
    quiet.publisher.publish("city/new", b"first", durable=durable)
    quiet.made.site.run(1.0)
    assert [one.text for one in quiet.listener.notified] == ["first"]
    broker = quiet.made.site.servers["e0"].node
    assert broker is not None
    assert broker.counts["notifications_replayed"] == 0  # it was held until the homes were known


@pytest.mark.parametrize("is_known_late", [True, False])
def test_a_home_out_of_reach_hears_later_what_a_new_broker_told_all(
    is_known_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_known_late:
        monkeypatch.setattr(BrokerProgress, "begin_anew", lambda *_, **__: None)
    quiet = Quiet("e0")
    quiet.publish(3)
    quiet.made.network.cuts.add(frozenset(("e1", "e2")))
    quiet.made.targets["t0", "c0"] = "e2"
    quiet.made.site.obey(quiet.made.orders(2))
    quiet.publish(3)
    quiet.made.site.run(3.0)
    assert quiet.publisher.session.unacknowledged == 0
    assert quiet.heard == [1, 2, 3]
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert quiet.heard == ([1, 2, 3, 4, 5, 6] if is_known_late else [1, 2, 3])


@pytest.mark.parametrize("crashes", [True, False])
def test_a_broker_cut_off_while_a_client_subscribes_tells_it_all_also_after_a_crash(
    crashes: bool,
) -> None:
    quiet = Quiet("e2", subscribers=())
    quiet.publish(3)
    quiet.broker.kill()
    quiet.broker.restart()  # what came before its start is not asked for
    quiet.made.site.run(2.0)
    quiet.made.network.cuts.add(frozenset(("e1", "e2")))
    quiet.listener.subscribe("t0")
    quiet.made.site.run(8.0)
    assert [one for _, one in quiet.listener.events if isinstance(one, Confirmed)]
    quiet.publish(3)
    if crashes:
        quiet.broker.kill()
        quiet.broker.restart()
        quiet.made.site.run(3.0)
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert quiet.heard == [4, 5, 6]
    assert not [event for _, event in quiet.listener.events if isinstance(event, Missed)]
    quiet.publish(1)
    assert quiet.heard[-1] == 7


def test_subscribers_that_left_are_forgotten_everywhere() -> None:
    quiet = Quiet("e2")
    quiet.listener.subscribe("city/#")
    quiet.made.site.run(2.0)
    quiet.listener.unsubscribe("t0")
    quiet.listener.unsubscribe("city/#")
    quiet.made.site.run(10.0)
    assert known(quiet) == {"e0": 0, "e1": 0, "e2": 0, "cloud": 0}
    home = quiet.made.site.servers["e1"].node
    assert home is not None
    assert home.clients is not None
    assert not home.clients.subscriptions.interests.all


def test_a_client_that_asks_for_ever_new_topics_has_others_asked_at_a_bounded_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allowance, "_ASKED_BURST", 60.0)
    monkeypatch.setattr(allowance, "_ASKED_PER_S", 30.0)
    quiet = Quiet("e2", subscribers=("c1", "c2"))
    site, greedy = quiet.made.site, quiet.listener
    home = site.servers["e1"].node
    assert home is not None
    asked: list[str] = []
    broadcast = home._peers.send

    def note(server: str, message: MeshMessage) -> None:
        if isinstance(message, Subscribers) and not message.complete and not message.clients:
            asked.append(server)
        broadcast(server, message)

    home._peers.send = note  # type: ignore[method-assign]
    for number in range(200):
        greedy.subscribe(f"made/up/{number}")
        site.run(0.01)
    site.run(1.0)
    assert home.counts["subscriptions_put_off"] > 0
    assert len(asked) <= 60 + 30 * 3 + 3, "one each of three servers may be owed"
    site.run(30.0)
    confirmed = {one.topic for _, one in greedy.events if isinstance(one, Confirmed)}
    assert {f"made/up/{number}" for number in range(200)} <= confirmed, "later, not never"
