"""The check of flow trials finds what is wrong; a small trial on real servers finds nothing."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from nearcast.experiments.flows.core_bound import core_ratio, grinds_per_s
from nearcast.experiments.flows.flow_site import OUTPUT, SOURCE, open_flow_site
from nearcast.experiments.flows.load import Findings, Heard, Load, check, drive
from nearcast.experiments.flows.pauses import Move, Span, longest_ms, quiet_spans, spans_of
from nearcast.experiments.flows.run import FlowTrial, run
from nearcast.experiments.flows.trial_processors import TALLY
from nearcast.flow.flow import Component, ContentMapping


def made(numbers: list[tuple[int, int]]) -> Load:
    """A load of six messages of one key, of which these came out, each with a count."""
    load = Load()
    for number in range(6):
        load.sent_s["p", number], load.keys["p", number] = float(number), "k"
    load.heard = [Heard("p", number, "k", count, 10.0) for number, count in numbers]
    return load


GOOD = [(number, number + 1) for number in range(6)]


@pytest.mark.parametrize(
    ("numbers", "findings"),
    [
        (GOOD, Findings(0, 0, 0, 0, 0)),
        (GOOD[:-1], Findings(1, 0, 0, 0, 0)),
        # one that was counted and did not come out, and one that was not counted
        ([*GOOD[:2], *GOOD[3:]], Findings(0, 1, 0, 0, 0)),
        ([*GOOD[:2], (3, 3), (4, 4), (5, 5)], Findings(1, 0, 0, 0, 0)),
        ([*GOOD[:2], (3, 3), (2, 4), *GOOD[4:]], Findings(0, 0, 0, 1, 1)),
        # one that was only heard late
        ([GOOD[1], GOOD[0], *GOOD[2:]], Findings(0, 0, 0, 0, 1)),
        # one that came twice, and was counted twice
        ([*GOOD, (5, 7)], Findings(0, 0, 2, 0, 0)),
        # a state that began anew elsewhere
        ([*GOOD[:3], (3, 1), (4, 2), (5, 3)], Findings(0, 0, 3, 2, 0)),
    ],
)
def test_the_check_counts_what_should_not_be(
    numbers: list[tuple[int, int]], findings: Findings
) -> None:
    assert check(made(numbers)) == findings


def test_a_pause_is_the_longest_of_what_a_hand_over_may_have_held_up() -> None:
    load = Load()
    for number in range(1000):  # 100 a second, of which the even ones move
        at_s, key = number / 100, "moves" if number % 2 == 0 else "stays"
        delay_s = 0.4 if 495 <= number <= 505 else 0.7 if number == 800 else 0.01
        load.sent_s["p", number], load.keys["p", number] = at_s, key
        maker = "taker" if key == "moves" and at_s + delay_s > 5.3 else "giver"
        load.heard.append(Heard("p", number, key, 0, at_s + delay_s, maker))
    (span,) = spans_of(load, [Move(5.0, "taker")], {"moves"})
    assert span == pytest.approx((4.8, 5.41))  # the first one of the taker was heard at 5.31
    assert longest_ms(load, [span], {"moves"}) == pytest.approx([400.0])  # 8.0 is another matter
    quiet = quiet_spans(0.0, span.since_s, [span])
    assert len(quiet) == 7
    assert longest_ms(load, quiet, {"moves"}) == pytest.approx([10.0] * 7)


def test_a_hand_over_after_which_nothing_comes_lasts_to_the_end() -> None:
    load = made(GOOD)
    (span,) = spans_of(load, [Move(2.0, "taker")], {"k"})
    assert span == Span(1.8, 5.1)
    assert longest_ms(load, [span], {"k"}) == [8e3]


def test_the_bound_is_of_all_processes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grinds_per_s(1, rounds=1000, seconds=0.02) > 0.0

    def two_of_three(processes: int, _rounds: int, _seconds: float) -> float:
        return {1: 60.0, 2: 90.0}[processes]

    monkeypatch.setattr("nearcast.experiments.flows.core_bound.grinds_per_s", two_of_three)
    assert core_ratio(1000) == 1.5


@pytest.mark.slow
def test_servers_divide_hard_work_by_themselves() -> None:
    (point,) = run(("scale-out",), FlowTrial(grinds_ms=(15.0,), lasting_s=5.0, grind_s=3.0))
    assert point.servers.startswith("cloud, e")
    assert (point.lost, point.untold, point.doubled) == (0, 0, 0)
    assert point.acknowledged == point.messages > 500
    assert point.before_per_s is not None
    assert point.after_per_s is not None
    assert point.ratio == point.after_per_s / point.before_per_s
    assert point.bound_ratio is not None


@pytest.mark.slow
def test_the_load_has_no_pauses_of_its_own(tmp_path: Path) -> None:
    collects = []

    async def look(_load: Load) -> None:
        collects.append(gc.isenabled())

    with open_flow_site(tmp_path) as site:
        site.live.enrol_clients()
        site.run_flow(Component(TALLY, (SOURCE,), OUTPUT, {}, ContentMapping("key")))
        load = asyncio.run(drive(site, 100.0, 4, look))
    assert len(load.heard) == len(load.sent_s) > 0
    assert collects == [False]


@pytest.mark.slow
def test_parts_move_and_servers_are_killed_under_load() -> None:
    trial = FlowTrial(rate_hz=200.0, hand_overs=4, kills=4, kill_rate_hz=100.0)
    points = list(run(("hand-over", "kill"), trial))
    found = [(one.lost, one.untold, one.doubled, one.out_of_order) for one in points]
    assert found == [(0, 0, 0, 0)] * 2
    assert [one.hand_overs for one in points] == [4, 4]
    assert points[1].kills == 4
    assert all(one.acknowledged == one.messages > 500 for one in points)


@pytest.mark.slow
def test_giver_and_taker_are_killed_at_exact_steps() -> None:
    steps = ("before send HandOver", "after receive HandOver", "before send Took")
    (point,) = run(("steps",), FlowTrial(kill_rate_hz=50.0, steps=steps))
    assert (point.kills, point.steps_missed, point.undivided) == (3, 0, 0)
    assert (point.lost, point.untold, point.doubled, point.out_of_order) == (0, 0, 0, 0)
    assert point.acknowledged == point.messages > 300
