"""What else is stored with publications, and publishers that are sent back because of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from broker.making import handle_copies, message
from nearcast.broker.audiences import SubscriberTable
from nearcast.broker.broker import Broker
from nearcast.broker.topic_settings import TopicSettings
from nearcast.spool.changes import TopicChange
from nearcast.wire.publication import Origin, Publication


def _tapped(others: tuple[str, ...] = ()) -> tuple[Broker, list[tuple[str, list[int]]]]:
    """A broker of topic t whose tap notes what it gets, and gives tickets from 101 on."""
    seen: list[tuple[str, list[int]]] = []

    def tap(topic: str, publications: Sequence[Publication], ticket: int) -> Sequence[TopicChange]:
        assert ticket == 101 + len(seen)
        seen.append((topic, [one.sequence for one in publications]))
        return (TopicChange("\0flow/x", (b"work",), 1),)

    tickets = count(101)
    broker = Broker(SubscriberTable(), lambda: 0.0, tap=tap, next_ticket=lambda: next(tickets))
    broker.add_topic(TopicSettings("t", 10, other_brokers=others))
    return broker, seen


def test_what_is_tapped_is_stored_in_one_group_with_its_topic() -> None:
    broker, seen = _tapped()
    broker.admit(message(sequence=1), None, 0.0)
    broker.admit_once(message(publisher="bike", sequence=7, origin=Origin.ONCE))
    actions = broker.run(0.0)
    assert seen == [("t", [1, 7])]
    assert actions.to_store is not None
    assert [one.topic for one in actions.to_store.changes] == ["t", "\0flow/x"]
    assert actions.to_store.ticket == 101
    assert [one.through for one in broker.on_committed([101]).acks] == [1]


def test_what_no_log_keeps_is_tapped_all_the_same() -> None:
    broker, seen = _tapped()
    broker.admit_once(message(sequence=3, origin=Origin.ONCE))
    actions = broker.run(0.0)
    assert seen == [("t", [3])]
    assert actions.to_store is not None
    assert [one.topic for one in actions.to_store.changes] == ["\0flow/x"]


def test_copies_were_tapped_where_they_were_processed() -> None:
    broker, seen = _tapped(("other",))
    handle_copies(broker, [message()], "other", 0.0)
    assert seen == []


def test_publishers_are_sent_back_while_a_topic_is_held_up() -> None:
    broker, seen = _tapped()
    broker.admit(message(sequence=1), None, 0.0)
    broker.run(0.0)
    broker.hold_up({"t"})
    broker.admit(message(sequence=2), None, 0.0)
    broker.admit_once(message(publisher="bike", origin=Origin.ONCE))
    broker.admit(message(sequence=1), None, 0.0)
    actions = broker.run(0.0)
    assert [one.publisher for one, _ in actions.busy] == ["car", "bike"]
    assert actions.duplicates == 1
    broker.hold_up(())
    broker.admit(message(sequence=2), None, 0.0)
    assert not broker.run(0.0).busy
    assert seen == [("t", [1]), ("t", [2])]


def test_what_a_component_makes_is_claimed_from_nobody() -> None:
    broker, _ = _tapped(("other",))
    broker.admit(message(publisher="flow:people/count@e1", sequence=5, epoch=2), "e1", 0.0)
    waits = broker.run(0.0)
    assert waits.nacks
    assert not waits.claims
    publication = message(publisher="flow:people/count@e1", sequence=5, epoch=2)
    publication.oldest = 5
    broker.admit(publication, "e1", 0.0)
    assert broker.run(0.0).to_store is not None
