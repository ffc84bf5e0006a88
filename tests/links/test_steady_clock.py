"""The clock of a process: it counts on in sleep, and does not follow when the time is set."""

from __future__ import annotations

import time

import pytest

from nearcast.links.steady_clock import SteadyClock


def test_it_shows_the_time_of_its_start_and_counts() -> None:
    clock = SteadyClock()
    assert abs(clock() - time.time()) < 5.0
    assert clock() <= clock()


def test_it_does_not_follow_a_wall_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before = clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0.0 <= clock() - before < 5.0


def test_it_counts_the_time_in_which_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {time.CLOCK_BOOTTIME: 1_000.0, time.CLOCK_MONOTONIC: 500.0}
    monkeypatch.setattr(time, "clock_gettime", lambda which: readings[which])
    monkeypatch.setattr(time, "time", lambda: 1.7e9)
    clock = SteadyClock()
    readings[time.CLOCK_BOOTTIME] += 3_600.0  # an hour asleep: only this one has counted
    assert clock() == 1.7e9 + 3_600.0
