"""Waits between tries."""

from __future__ import annotations

from nearcast.wire.backoff import next_wait_s


def test_waits_double_up_to_the_longest() -> None:
    waits_s = [0.0]
    for _ in range(6):
        waits_s.append(next_wait_s(waits_s[-1], 10.0, 1.0))
    assert waits_s == [0.0, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_the_first_wait_respects_the_longest_too() -> None:
    assert next_wait_s(0.0, 1.0, 5.0) == 1.0
