"""Batches are short from the first one on, whatever a message costs."""

from __future__ import annotations

from itertools import pairwise

from nearcast.flow.load_meter import LoadMeter

ONE = (("north",), 1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_hard_work_is_done_one_by_one_from_the_start() -> None:
    meter = LoadMeter(Clock())
    for _ in range(10):
        size = meter.batch_size(256, 0.01)
        assert size == 1
        meter.note([ONE] * size, 0.05 * size)


def test_light_work_soon_comes_in_large_batches_and_never_takes_too_long() -> None:
    meter, sizes = LoadMeter(Clock()), []
    for _ in range(12):
        sizes.append(meter.batch_size(256, 0.01))
        meter.note([ONE] * sizes[-1], 1e-5 * sizes[-1])
    assert sizes[0] == 1
    assert max(b / a for a, b in pairwise(sizes)) <= 3
    assert sizes[-1] == 256
    meter.note([ONE] * 256, 0.256)
    assert meter.batch_size(256, 0.01) * 1e-3 <= 0.06


def test_the_share_is_of_the_time_since_it_was_asked_last() -> None:
    clock = Clock()
    meter = LoadMeter(clock)
    clock.now = 2.0
    meter.note([ONE], 0.5)
    assert meter.take_busy_share() == 0.25
    assert meter.take_busy_share() == 0.0
    clock.now = 3.0
    assert meter.take_busy_share() == 0.0
    meter.forget(lambda net, index: net == ("north",))
    assert meter.recent == ()
