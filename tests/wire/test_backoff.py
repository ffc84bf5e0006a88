"""Delays between tries."""

from __future__ import annotations

from itertools import cycle

from nearcast.wire.backoff import Backoff


def test_delays_grow_to_the_limit_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [round(backoff.next_s(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.next_s() == 0.1


def test_jitter_takes_away_a_part() -> None:
    chance = cycle([0.0, 1.0])
    backoff = Backoff(1.0, 1.0, jitter=0.25, random=lambda: next(chance))
    assert [backoff.next_s() for _ in range(4)] == [1.0, 0.75, 1.0, 0.75]


def test_the_first_delay_respects_the_limit_too() -> None:
    assert Backoff(5.0, 1.0).next_s() == 1.0
