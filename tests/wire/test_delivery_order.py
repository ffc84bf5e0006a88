"""Notifications at a client in the order of publication: what waits, for how long, what is late."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.wire.delivery_order import DeliveryOrder
from nearcast.wire.notification import Notification

WAIT_S = 0.5


def notification(
    sequence: int, previous: int = 0, *, epoch: int = 1, publisher: str = "p", durable: bool = True
) -> Notification:
    return Notification(
        "t", publisher, epoch, sequence, durable, 0, b"%d" % sequence, previous=previous
    )


class Hearer:
    """A delivery order and what came out of it: epochs, sequences, and what was late."""

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self.delivered: list[Notification] = []
        self.order = DeliveryOrder(wait_s, self.delivered.append)

    def put(self, sequence: int, previous: int | None = None, now: float = 0.0) -> None:
        self.order.put(notification(sequence, sequence - 1 if previous is None else previous), now)

    @property
    def heard(self) -> list[int]:
        return [one.sequence for one in self.delivered]

    @property
    def late(self) -> list[int]:
        return [one.sequence for one in self.delivered if one.is_late]


def test_a_lost_one_that_is_repeated_in_time_is_heard_in_its_place() -> None:
    hearer = Hearer()
    for sequence in (59, 61, 62, 63, 64, 60):
        hearer.put(sequence)
    assert hearer.heard == [59, 60, 61, 62, 63, 64]
    assert not hearer.late
    assert hearer.order.due == float("inf")


def test_what_waited_long_enough_is_delivered_and_what_comes_then_is_late() -> None:
    hearer = Hearer()
    hearer.put(59)
    hearer.put(61, now=1.0)
    hearer.put(62, now=1.2)
    hearer.put(64, now=1.3)
    assert hearer.order.due == 1.0 + WAIT_S
    hearer.order.expire(1.4)
    assert hearer.heard == [59]
    hearer.order.expire(1.5)
    assert hearer.heard == [59, 61, 62]
    assert hearer.order.due == 1.3 + WAIT_S
    hearer.put(60, now=1.6)
    hearer.put(63, now=1.7)
    assert hearer.heard == [59, 61, 62, 60, 63, 64]
    assert hearer.late == [60]


def test_what_a_processor_does_not_tell_is_not_waited_for() -> None:
    hearer = Hearer()
    hearer.put(3, previous=0)
    hearer.put(9, previous=3)
    hearer.put(20, previous=9)
    assert hearer.heard == [3, 9, 20]


def test_one_that_waits_for_none_does_not_overtake_those_that_wait() -> None:
    hearer = Hearer()
    hearer.put(1)
    hearer.put(3)
    hearer.put(4, previous=0)  # told again, by a broker that knows no more
    assert hearer.heard == [1]
    hearer.put(2)
    assert hearer.heard == [1, 2, 3, 4]


def test_nobody_waits_for_what_came_before_the_first_one() -> None:
    hearer = Hearer()
    hearer.put(7)
    hearer.order.put(notification(9, 8, publisher="q"), 0.0)
    hearer.order.put(notification(9, 8, durable=False), 0.0)
    assert hearer.heard == [7, 9, 9]


def test_a_newer_epoch_comes_after_all_of_the_one_before() -> None:
    hearer = Hearer()
    hearer.put(5)
    hearer.put(7)
    hearer.order.put(notification(1, 0, epoch=2), 0.0)
    hearer.order.put(notification(3, 2, epoch=2), 0.0)
    assert hearer.heard == [5]
    hearer.put(6)
    assert hearer.heard == [5, 6, 7, 1]
    hearer.put(8)
    hearer.order.put(notification(2, 1, epoch=2), 0.0)
    assert hearer.heard == [5, 6, 7, 1, 8, 2, 3]
    assert hearer.late == [8]


def test_without_a_wait_each_is_delivered_at_once_and_marked_when_late() -> None:
    hearer = Hearer(wait_s=0.0)
    for sequence in (1, 3, 2):
        hearer.put(sequence)
    assert hearer.heard == [1, 3, 2]
    assert hearer.late == [2]


@pytest.mark.parametrize("end", ["release_all", "forget"])
def test_what_waits_is_delivered_in_the_end(end: str) -> None:
    hearer = Hearer()
    hearer.put(1)
    hearer.put(3)
    if end == "forget":
        hearer.order.forget("#")
    else:
        hearer.order.release_all()
    assert hearer.heard == [1, 3]
    assert hearer.order.due == float("inf")
    hearer.put(9)
    assert hearer.heard == ([1, 3, 9] if end == "forget" else [1, 3])


def test_only_so_many_wait_and_the_stream_that_waited_longest_gives_way() -> None:
    hearer = Hearer()
    for publisher in ("p", "q"):
        hearer.order.put(notification(1, publisher=publisher), 0.0)
    for publisher, last in (("p", 130), ("q", 128)):
        for sequence in range(3, last + 1):
            hearer.order.put(notification(sequence, sequence - 1, publisher=publisher), 0.0)
    for sequence in range(129, 140):
        hearer.order.put(notification(sequence, sequence - 1, publisher="q"), 0.0)
    heard = {one: [n.sequence for n in hearer.delivered if n.publisher == one] for one in "pq"}
    assert heard == {"p": [1, *range(3, 131)], "q": [1]}
    for number in range(5_000):
        hearer.order.put(notification(1, publisher=str(number)), 0.0)
    assert len(hearer.order._streams) == 4_096
    assert sum(n.publisher == "q" for n in hearer.delivered) == 138  # nothing is lost with it


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=40),
    st.data(),
)
def test_whatever_comes_when_each_is_delivered_once_and_out_of_order_only_when_late(
    steps: list[int], data: st.DataObject
) -> None:
    hearer, told, previous = Hearer(), list[tuple[int, int]](), 0
    for step in steps:
        told.append((previous + step, previous))
        previous += step
    delays = [data.draw(st.sampled_from((0.0, 0.2, 0.4, 0.9))) for _ in told]
    sent = [
        (0.1 * place + delay_s, *one)
        for place, (one, delay_s) in enumerate(zip(told, delays, strict=True))
    ]
    for now, sequence, before in sorted(sent):
        while hearer.order.due <= now:
            hearer.order.expire(hearer.order.due)
        hearer.put(sequence, before, now)
    while hearer.order.due < float("inf"):
        hearer.order.expire(hearer.order.due)
    assert sorted(hearer.heard) == [sequence for sequence, _ in told]
    in_time = [one.sequence for one in hearer.delivered if not one.is_late]
    assert in_time == sorted(in_time)
    first = min(sent)[1]
    if max(delays) <= 0.4:  # all come while others wait for them; but the first knows no others
        assert hearer.late == [one for one in hearer.late if one < first]
