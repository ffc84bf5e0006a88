"""How far a client has heard its brokers, and what it asks for again."""

from __future__ import annotations

import pytest

from nearcast.wire.actions import Missed
from nearcast.wire.cursors import Cursors, SavedCursor, SavedCursors
from nearcast.wire.messages import Gap, Resume
from nearcast.wire.notification import Notification
from nearcast.wire.settings import WireSettings


def told(offset: int, topic: str = "t", broker: str = "b") -> Notification:
    return Notification(
        topic, "car", 1, offset, True, 0, b"", broker=broker, offset=offset, arrived_us=1
    )


def certain(cursors: Cursors) -> dict[tuple[str, str], int]:
    return {(one.broker, one.topic): one.offset for one in cursors.saved.cursors}


def started(offset: int = 5) -> Cursors:
    cursors = Cursors(WireSettings())
    assert not cursors.has_starts("t", 1)
    assert cursors.on_gap(Gap("t", "b", 0, offset, answer=False)) is None
    assert cursors.has_starts("t", 1)
    cursors.confirmed("t")
    return cursors


def test_a_new_subscription_starts_where_its_broker_is() -> None:
    cursors = started()
    assert certain(cursors) == {("b", "t"): 5}
    assert [*cursors.due(0.0)] == []
    assert cursors.note(told(6), 0.0)


def test_what_has_arrived_is_certain_when_all_before_it_is_confirmed() -> None:
    cursors = started()
    cursors.note(told(8), 0.0)
    cursors.on_settled(0.0, 10.0)
    cursors.note(told(9), 11.0)
    cursors.on_settled(6.0, 20.0)  # something was sent 14.0 or earlier and is not confirmed
    assert certain(cursors) == {("b", "t"): 5}
    cursors.on_settled(4.0, 22.0)
    assert certain(cursors) == {("b", "t"): 8}
    cursors.on_settled(0.1, 30.0)
    assert certain(cursors) == {("b", "t"): 9}


def test_in_a_new_session_what_comes_is_held_back_until_the_broker_has_answered() -> None:
    cursors = started()
    cursors.restart()
    assert cursors.resumes("t")
    assert not cursors.note(told(12), 0.0)
    cursors.confirmed("t")
    assert [*cursors.due(0.0)] == [Resume("t", "b", 5)]
    assert [*cursors.due(0.1)] == []
    assert [*cursors.due(0.3)] == [Resume("t", "b", 5)]
    for offset in (7, 6):
        assert not cursors.note(told(offset), 0.3)
    assert cursors.on_gap(Gap("t", "b", 3, 12)) == Missed("t", "b", 3)
    assert [one.offset for one in cursors.released] == [6, 7, 12]
    assert cursors.next_due() == float("inf")
    assert cursors.note(told(13), 0.4)
    assert certain(cursors) == {("b", "t"): 5}


def test_nothing_is_held_back_for_long() -> None:
    cursors = started()
    cursors.restart()
    cursors.note(told(7), 1.0)
    cursors.note(told(6), 1.5)
    cursors.expire(1.9)
    assert cursors.released == []
    assert cursors.next_due() == 2.0
    cursors.expire(2.0)
    assert [one.offset for one in cursors.released] == [6, 7]
    cursors.released.clear()
    for offset in range(1_025):
        cursors.note(told(offset + 10), 3.0)
    assert len(cursors.released) == 1_025


def test_who_returns_hears_brokers_that_came_later_from_their_beginning() -> None:
    cursors = started()
    cursors.restart()
    cursors.on_gap(Gap("t", "new", 0, 9, answer=False))
    assert [*cursors.due(0.0)] == [Resume("t", "new", 0)]
    assert not cursors.note(told(3, broker="newer"), 0.0)
    cursors.confirmed("t")
    assert {one.broker for one in cursors.due(0.0)} == {"b", "newer"}
    assert cursors.note(told(1, broker="newest"), 0.0)  # heard from its beginning


def test_a_log_that_was_lost_begins_anew() -> None:
    cursors = started(100)
    cursors.restart()
    cursors.confirmed("t")
    assert [*cursors.due(0.0)] == [Resume("t", "b", 100)]
    cursors.on_gap(Gap("t", "b", 0, 7))
    assert certain(cursors) == {("b", "t"): 7}


def test_cursors_end_with_the_last_subscription_that_needs_them() -> None:
    cursors = started()
    cursors.on_gap(Gap("city/north", "b", 0, 3, answer=False))
    cursors.confirmed("city/#")
    cursors.confirmed("city/north")
    cursors.ended("city/north")
    assert ("b", "city/north") in certain(cursors)
    cursors.ended("city/#")
    assert certain(cursors) == {("b", "t"): 5}


def test_a_later_program_goes_on_from_what_was_saved() -> None:
    saved = SavedCursors(("t", "city/+"), (SavedCursor("b", "t", 5),))
    cursors = Cursors(WireSettings(), saved)
    assert cursors.saved == saved
    cursors.restart()
    cursors.on_gap(Gap("city/north", "b", 0, 3, answer=False))
    cursors.confirmed("t")
    assert {(one.topic, one.since) for one in cursors.due(0.0)} == {("t", 5), ("city/north", 0)}


@pytest.mark.parametrize("count", [4_096, 5_000])
def test_there_are_not_too_many_cursors_and_questions(count: int) -> None:
    cursors = Cursors(WireSettings())
    cursors.confirmed("#")
    for number in range(count):
        cursors.note(told(1, f"t{number}"), 0.0)
    assert len(certain(cursors)) == 4_096
    cursors.restart()
    cursors.confirmed("#")
    assert len([*cursors.due(0.0)]) == 64


def test_pieces_of_an_answer_count_though_the_session_ends_before_the_last_one() -> None:
    cursors = started()
    cursors.restart()
    cursors.confirmed("t")
    assert [*cursors.due(0.0)] == [Resume("t", "b", 5)]
    assert cursors.on_gap(Gap("t", "b", 0, 50, has_more=True)) is None
    assert not cursors.note(told(51), 0.0)
    cursors.on_settled(0.0, 10.0)
    cursors.on_settled(0.0, 20.0)
    assert certain(cursors) == {("b", "t"): 50}
    cursors.restart()
    cursors.confirmed("t")
    assert [*cursors.due(30.0)] == [Resume("t", "b", 50)]
