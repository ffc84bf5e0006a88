"""The small parts of a session against plain references."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.wire.framing import pack
from nearcast.wire.inbox import Inbox
from nearcast.wire.messages import NotifyFields
from nearcast.wire.notification import Notification
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
        known = range(max(0, top - size + 1), top + 1)
        missing = [one for one in known if one not in seen]
        assert window.through == min(missing, default=top + 1) - 1
        assert [window.bitmap >> age & 1 for age in range(size)] == [
            top - age in seen for age in range(size)
        ]


def test_a_replay_window_takes_the_largest_counter_without_growing() -> None:
    window = ReplayWindow(1_024)
    window.mark(0)
    window.mark(2**64 - 1)
    assert not window.is_new(0)
    assert window.bitmap == 1


def _notify(sequence: int, publisher: str = "p", part: int = 0) -> NotifyFields:
    return ("t", publisher, 1, sequence, True, part, b"", 0, 0, 0, 0, 0, "", 0, 0, b"")


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
