"""What brokers know of subscribers, and what homes know of their clients."""

from __future__ import annotations

from nearcast.server.handover_buffer import HandoverBuffer, Kept
from nearcast.server.home_clients import HomeClients
from nearcast.server.interests import Interests, Knowledge
from nearcast.server.subscriber_messages import (
    Moved,
    Subscribers,
    Unsubscribed,
)
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.subscription_updates import SubscriptionUpdates


def told(topic: str, *clients: str, complete: bool = False) -> Subscribers:
    return Subscribers(topic, tuple((one, 1.0, 2.0) for one in clients), complete)


def test_subscribers_are_sorted_by_the_homes_that_told_of_them() -> None:
    known = SubscriberDirectory()
    known.on_subscribers("e1", told("t", "a", "b"))
    known.on_subscribers("e2", told("t", "c"))
    assert known.by_home("t", ["c", "b", "a", "nobody"]) == {"e2": ["c"], "e1": ["b", "a"]}
    assert known.by_home("u", ["a"]) == {}


def test_a_client_between_two_homes_is_told_of_by_both_until_one_withdraws() -> None:
    known = SubscriberDirectory()
    known.on_subscribers("e1", told("t", "a"))
    known.on_subscribers("e2", told("t", "a"))
    assert known.homes_of("t", "a") == ("e1", "e2")
    known.on_unsubscribed("e1", Unsubscribed("t", ("a",)))
    assert known.homes_of("t", "a") == ("e2",)
    assert list(known.table.subscribers("t")) == ["a"]
    known.on_unsubscribed("e1", Unsubscribed("t", ("a",)))
    assert list(known.table.subscribers("t")) == ["a"]
    known.on_unsubscribed("e2", Unsubscribed("t", ("a",)))
    assert list(known.table.subscribers("t")) == []


def test_a_complete_list_replaces_what_its_home_told_and_nothing_else() -> None:
    known = SubscriberDirectory()
    known.on_subscribers("e1", told("t", "a", "b"))
    known.on_subscribers("e2", told("t", "c"))
    known.on_subscribers("e1", told("t", "b", "d", complete=True))
    assert sorted(known.table.subscribers("t")) == ["b", "c", "d"]


def test_a_home_that_began_anew_is_forgotten() -> None:
    known = SubscriberDirectory()
    for topic in ("t", "u"):
        known.on_subscribers("e1", told(topic, "a"))
    known.on_subscribers("e2", told("u", "a"))
    known.forget_home("e1")
    assert list(known.table.subscribers("t")) == []
    assert known.homes_of("u", "a") == ("e2",)


def test_places_follow_moves_of_known_clients() -> None:
    known = SubscriberDirectory()
    known.on_subscribers("e1", told("t", "a", "b"))
    known.on_moved("e1", Moved((("a", 50.0, 50.0), ("nobody", 0.0, 0.0))))
    assert known.table.nearest("t", 50.0, 50.0, 5) == ["a", "b"]
    assert known.table.within("t", 0.0, 0.0, 10.0) == ["b"]


def test_what_a_client_does_not_ask_for_again_in_a_new_session_ends() -> None:
    clients = HomeClients()
    for topic in ("t", "u", "v"):
        clients.subscribe("a", topic)
    clients.begin_session("a", until=10.0)
    clients.subscribe("a", "u")
    assert clients.take_outdated(9.9) == []
    assert clients.take_outdated(10.0) == [("a", ["t", "v"])]
    assert list(clients.topics("a")) == ["u"]
    assert clients.take_outdated(99.0) == []


def test_forgetting_a_client_returns_its_topics_once() -> None:
    clients = HomeClients()
    clients.move("a", 1.0, 2.0)
    clients.subscribe("a", "t")
    clients.subscribe("b", "t")
    assert clients.forget("a") == ["t"]
    assert clients.forget("a") == []
    assert list(clients.subscribers("t")) == ["b"]
    assert clients.place("a") == (0.0, 0.0)


def test_servers_that_know_an_interest_hear_of_its_subscribers_and_of_their_moves() -> None:
    clients = HomeClients()
    interests = Interests(clients, linger_s=6.0)
    updates = SubscriptionUpdates("e1", clients, interests)
    clients.move("a", 3.0, 4.0)
    clients.subscribe("a", "t")
    interest = interests.begin("t", 1, ["e2", "e3"])
    interest.servers["e2"] = Knowledge.TOLD
    whole = (("a", 3.0, 4.0),)
    assert [server for server, _ in updates.subscribed("a", "t")] == ["e1", "e2"]
    assert updates.moved("a") == [("e1", Moved(whole)), ("e2", Moved(whole))]
    assert updates.complete("e3", "t") == ("e3", Subscribers("t", whole, complete=True))
    assert [server for server, _ in updates.unsubscribed("a", ["t"])] == ["e1", "e2"]


def test_listeners_follow_every_change_of_topics_and_patterns() -> None:
    clients = HomeClients()
    clients.subscribe("a", "city/north")
    assert set(clients.listeners("city/north")) == {"a"}
    clients.subscribe("b", "city/#")
    assert set(clients.listeners("city/north")) == {"a", "b"}
    clients.subscribe("c", "city/#")
    clients.subscribe("d", "city/north")
    assert set(clients.listeners("city/north")) == {"a", "b", "c", "d"}
    assert clients.listeners("city/north") == clients.listeners("city/north")
    clients.unsubscribe("a", "city/north")
    clients.forget("b")
    assert set(clients.listeners("city/north")) == {"c", "d"}
    assert set(clients.listeners("city/south")) == {"c"}


def test_mail_waits_for_a_client_and_is_given_up_in_the_end() -> None:
    between = HandoverBuffer(grace_s=3.0, frame_limit=2)
    assert between.keep("a", [b"1"], now=0.0, epoch=1)
    assert between.keep("a", [b"2"], now=2.0, epoch=2)
    assert not between.keep("b", [b"3"], now=2.0, epoch=1)
    assert between.expire(4.0) == ([], 0)
    assert between.take_kept("a") == (Kept(b"1", 1, 0.0), Kept(b"2", 2, 2.0))
    assert between.take_kept("a") == ()
    assert between.keep("b", [b"3"], now=5.0, epoch=1)
    assert between.expire(8.0) == ([], 1)


def test_a_client_that_left_is_remembered_for_a_while() -> None:
    between = HandoverBuffer(grace_s=3.0)
    between.leave("a", ["t"], now=0.0)
    between.leave("b", ["u"], now=0.0)
    between.stay("b")
    assert between.expire(3.0) == ([("a", ["t"])], 0)
    assert between.expire(9.0) == ([], 0)


def test_what_was_found_for_a_topic_is_found_anew_when_a_subscriber_has_another_home() -> None:
    directory = SubscriberDirectory()
    directory.on_subscribers("e1", Subscribers("t", (("car", 0.0, 0.0),), complete=False))
    before = directory.table.everyone("t")
    directory.on_subscribers("e2", Subscribers("t", (("car", 0.0, 0.0),), complete=False))
    assert directory.table.everyone("t") is not before
    assert directory.by_home("t", ["car"]) == {"e1": ["car"], "e2": ["car"]}


def test_patterns_and_topics_make_one_audience() -> None:
    directory = SubscriberDirectory()
    directory.on_subscribers("e1", Subscribers("city/#", (("a", 0.0, 0.0),), complete=False))
    assert directory.table.everyone("city/north").clients == ("a",)
    directory.on_subscribers(
        "e2", Subscribers("city/north", (("a", 0.0, 0.0), ("b", 3.0, 4.0)), complete=False)
    )
    directory.on_subscribers("e1", Subscribers("+/north", (("c", 9.0, 9.0),), complete=False))
    assert set(directory.table.everyone("city/north").clients) == {"a", "b", "c"}
    assert set(directory.table.subscribers("city/south")) == {"a"}
    assert directory.table.within("city/north", 0.0, 0.0, 5.0) == ["a", "b"]
    assert directory.by_home("city/north", ["a", "c"]) == {"e2": ["a"], "e1": ["a", "c"]}
    directory.on_unsubscribed("e1", Unsubscribed("city/#", ("a",)))
    assert set(directory.table.everyone("city/north").clients) == {"a", "b", "c"}
    directory.on_unsubscribed("e2", Unsubscribed("city/north", ("a",)))
    assert set(directory.table.everyone("city/north").clients) == {"b", "c"}
    directory.forget_home("e1")
    assert set(directory.table.everyone("city/north").clients) == {"b"}
    assert directory.is_known("city/north", "e2", "b")
    assert not directory.is_known("city/north", "e1")
