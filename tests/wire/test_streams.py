"""The small parts of a session against plain references."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.wire.framing import pack
from nearcast.wire.inbox import Inbox
from nearcast.wire.messages import Nack, NotifyFields, Publish, Published
from nearcast.wire.notification import Notification
from nearcast.wire.publish_streams import PublishStreams
from nearcast.wire.replay_window import ReplayWindow
from nearcast.wire.round_trip import RoundTrip
from nearcast.wire.settings import WireSettings


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 200)), st.integers(1, 40))
def test_a_replay_window_is_a_set_of_the_latest_numbers(numbers: list[int], size: int) -> None:
    window, seen = ReplayWindow(size), set[int]()
    for number in numbers:
        oldest = max(seen, default=-1) - size
        assert window.is_too_old(number) == (bool(seen) and number <= oldest)
        assert window.is_new(number) == (number not in seen and (not seen or number > oldest))
        if window.is_new(number):
            window.mark(number)
            seen.add(number)
        top = max(seen)
        assert [window.bitmap >> age & 1 for age in range(size)] == [
            top - age in seen for age in range(size)
        ]


def test_a_replay_window_takes_the_largest_counter_without_growing() -> None:
    window = ReplayWindow(1_024)
    window.mark(0)
    window.mark(2**64 - 1)
    assert not window.is_new(0)
    assert window.bitmap == 1


def _publish(sequence: int, oldest: int = 1, epoch: int = 1, topic: str = "t") -> Publish:
    return Publish(topic, epoch, sequence, oldest, True, b"")


def _streams(window: int = 8, topics: int = 4) -> PublishStreams:
    return PublishStreams(topic_limit=topics, window=window, ask_again_s=0.1)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.integers(1, 12), max_size=60), st.integers(1, 8))
def test_first_deliveries_are_in_order_whatever_arrives(arrived: list[int], window: int) -> None:
    streams, delivered, held = _streams(window), 0, set[int]()
    for sequence in arrived:
        ready, again = streams.accept(_publish(sequence))
        assert again is None
        if sequence <= delivered:
            assert [publish.sequence for publish in ready] == [sequence]
            continue
        if sequence - delivered - 1 < window and len(held) < window:
            held.add(sequence)
        expected = []
        while delivered + 1 in held:
            delivered += 1
            held.discard(delivered)
            expected.append(delivered)
        assert [publish.sequence for publish in ready] == expected


def test_a_gap_is_asked_for_once_in_a_while() -> None:
    streams = _streams()
    streams.accept(_publish(1))
    streams.accept(_publish(4))
    assert streams.gaps(10.0) == [Nack("t", 1, 2, 2)]
    assert streams.gaps(10.05) == []
    assert streams.gaps(10.2) == [Nack("t", 1, 2, 2)]
    streams.accept(_publish(2))
    ready, _ = streams.accept(_publish(3))
    assert [publish.sequence for publish in ready] == [3, 4]
    assert streams.gaps(11.0) == []


def test_what_is_acknowledged_is_answered_and_not_delivered_again() -> None:
    streams = _streams()
    for sequence in (1, 2, 3):
        streams.accept(_publish(sequence))
    streams.acknowledge("t", 1, 2)
    streams.acknowledge("t", 9, 3)  # of another epoch
    assert streams.accept(_publish(1)) == ([], Published("t", 1, 2))
    assert streams.accept(_publish(3)) == ([_publish(3)], None)


def test_refused_publications_are_expected_again() -> None:
    streams = _streams()
    for sequence in (1, 2, 3):
        streams.accept(_publish(sequence))
    assert streams.rewind("t", 1, 2) == 2
    assert streams.accept(_publish(3)) == ([], None)
    ready, _ = streams.accept(_publish(2))
    assert [publish.sequence for publish in ready] == [2, 3]


def test_a_publisher_that_was_acknowledged_elsewhere_skips_the_gap() -> None:
    streams = _streams()
    streams.accept(_publish(1))
    streams.accept(_publish(5))
    ready, _ = streams.accept(_publish(7, oldest=5))
    assert [publish.sequence for publish in ready] == [5]
    ready, _ = streams.accept(_publish(6, oldest=5))
    assert [publish.sequence for publish in ready] == [6, 7]


def test_a_new_epoch_starts_over_and_forgotten_topics_come_back() -> None:
    streams = _streams(topics=2)
    streams.accept(_publish(1))
    assert streams.accept(_publish(1, epoch=2)) == ([_publish(1, epoch=2)], None)
    for topic in ("u", "v"):
        streams.accept(_publish(3, topic=topic))  # a gap: held
    assert len(streams._streams) == 2
    ready, _ = streams.accept(_publish(9, oldest=9, epoch=2))
    assert [publish.sequence for publish in ready] == [9]


def test_all_topics_of_a_session_share_one_window_of_held_publications() -> None:
    streams = _streams(window=8, topics=100)
    for topic in range(100):
        for sequence in (2, 3, 4):
            streams.accept(_publish(sequence, topic=f"t{topic}"))
    assert sum(len(stream.held) for stream in streams._streams.values()) == 8


def _notify(sequence: int, publisher: str = "p", part: int = 0) -> NotifyFields:
    return ("t", publisher, 1, sequence, True, part, b"", 0, 0, 0, 0, 0)


def test_the_inbox_delivers_once_and_flags_what_is_too_old_to_know() -> None:
    inbox = Inbox()
    order = [*range(0, 6_000, 2), *range(1, 6_000, 2)]
    taken = [inbox.accept(_notify(sequence), 7) for sequence in order]
    assert taken[:3_000] == [Notification(*_notify(n), 7) for n in range(0, 6_000, 2)]
    fresh = 5_998 - 4_096
    assert taken[3_000:] == [Notification(*_notify(n), 7, n <= fresh) for n in range(1, 6_000, 2)]
    assert all(inbox.accept(_notify(n), 7) is None for n in range(5_999 - 4_095, 6_000))
    assert inbox.accept(_notify(5_999, publisher="q"), 7) is not None
    assert inbox.accept(_notify(5_999, part=1), 7) is not None


def test_the_inbox_has_a_bounded_number_of_streams() -> None:
    inbox = Inbox()
    for publisher in range(5_000):
        inbox.accept(_notify(1, publisher=str(publisher)), 7)
    assert len(inbox._streams) == 4_096


@settings(deadline=None, derandomize=True)
@given(st.lists(st.binary(max_size=100)), st.integers(100, 400))
def test_packing_keeps_order_and_limits(frames: list[bytes], room: int) -> None:
    groups = list(pack(frames, room))
    assert [frame for group in groups for frame in group] == frames
    assert all(0 < len(group) <= 64 and len(b"".join(group)) <= room for group in groups)
    for group, following in pairwise(groups):
        assert len(group) == 64 or len(b"".join(group)) + len(following[0]) > room


def test_the_wait_follows_the_round_trip_within_its_limits() -> None:
    trip = RoundTrip(WireSettings())
    assert trip.wait_s == 0.25
    for _ in range(100):
        trip.learn(0.5)
    assert 0.5 <= trip.wait_s < 0.51
    for _ in range(100):
        trip.learn(0.001)
    assert trip.wait_s == 0.1
    trip.learn(1e9)
    assert trip.wait_s == 5.0
