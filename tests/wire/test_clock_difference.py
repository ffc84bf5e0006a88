"""How far another clock is ahead: never worse than two clocks that agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nearcast.wire.clock_difference import ClockDifference

WAYS_S = st.floats(0.0, 5.0)


@given(st.floats(-1e9, 1e9), st.lists(st.tuples(WAYS_S, WAYS_S), min_size=1, max_size=8))
def test_the_error_is_at_most_half_of_the_shortest_round_trip(
    ahead_s: float, ways_s: list[tuple[float, float]]
) -> None:
    clock, now = ClockDifference(), 1.5e9
    for there_s, back_s in ways_s:
        clock.learn(now, now + there_s + ahead_s, now + there_s + back_s)
        now += 60.0
    shortest_s = min(there_s + back_s for there_s, back_s in ways_s)
    if clock.ahead_s:
        assert abs(clock.ahead_s - ahead_s) <= shortest_s / 2 + 0.001
    else:  # the clocks may agree
        assert abs(ahead_s) <= shortest_s + 0.002


def test_clocks_that_may_agree_are_left_alone() -> None:
    clock = ClockDifference()
    clock.learn(100.0, 100.3, 100.4)
    assert (clock.ahead_s, clock.there_us(200.0)) == (0.0, 200_000_000)


def test_a_clock_that_starts_anew_is_learned_anew() -> None:
    clock = ClockDifference()
    clock.learn(100.0, 1_100.0, 100.02)
    assert abs(clock.ahead_s - 1_000.0) <= 0.01
    clock.learn(160.0, 60.0, 160.02)
    assert abs(clock.ahead_s + 100.0) <= 0.02
    assert clock.there_us(50.0) == 0


def test_what_no_clock_shows_is_not_believed() -> None:
    clock = ClockDifference()
    for told_s in (2.0**63, float("inf"), float("nan"), -1.0):
        clock.learn(100.0, told_s, 101.0)
    clock.learn(100.0, 5_000.0, 99.0)
    assert clock.there_us(100.0) == 100_000_000
