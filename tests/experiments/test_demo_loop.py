"""The demo's section on the plan loop says what was measured, also when nothing was switched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nearcast.experiments.closed_loop.rounds import LoopRun, Phase
from nearcast.experiments.closed_loop.steady_load import LoadCounts
from nearcast.experiments.demo_loop import loop_json, loop_section
from nearcast.pictures.report import report_html
from nearcast.site.replan_rounds import ReplanRound

ROUND = ReplanRound(
    began=110.0,
    cost_before=0.9,
    cost_after=0.5,
    switched=True,
    streams=41,
    learn_s=6.0,
    plan_s=3.0,
    switch_s=5.0,
)


def run_of(done: ReplanRound) -> LoopRun:
    return LoopRun(
        phases=[
            Phase("before", 100, 104, 48.0),
            Phase("moved", 105, 110, 94.0),
            Phase("round 1", 130, 135, 66.0, done),
        ],
        moved_clients=331,
        moved_s=104.5,
        counts=LoadCounts(10, 10, 90, 2, 3),
        by_second=[(100.0 + one, 40.0 + one) for one in range(35)],
    )


def test_the_section_tells_how_the_delay_went_and_what_was_lost() -> None:
    section = loop_section(run_of(ROUND), 100.0)
    assert "from 48 to 94 ms" in section.text
    assert "handed 41 streams over" in section.text
    assert "Of 90 notifications 2 were lost and 3 heard twice." in section.text
    assert [list(row.values()) for row in section.tables[0].rows] == [
        ["before", None, 48.0],
        ["clients have moved", 90.0, 94.0],
        ["after the round", 50.0, 66.0],
    ]
    (axes,) = section.pictures[0].figure.axes  # type: ignore[union-attr]
    assert [text.get_text() for text in axes.texts] == [
        *("clients move", "switch begins", "all servers have the plan"),
    ]
    # clients, then begin and end of the switch
    assert [line.get_xdata()[0] for line in axes.lines[1:]] == pytest.approx([4.5, 19.0, 24.0])  # type: ignore[index]
    assert "The site plans itself anew" in report_html("t", [section])


def test_a_round_that_keeps_the_plan_says_why() -> None:
    section = loop_section(run_of(replace(ROUND, switched=False, reason="it saves 0 %")), 100.0)
    assert "the site kept its plan (it saves 0 %)" in section.text
    assert section.tables[0].rows[2]["predicted [ms]"] == 90.0


def test_the_numbers_are_those_of_the_round() -> None:
    found = loop_json(run_of(ROUND))
    assert found["measured_ms"] == {
        "before": 48.0,
        "clients have moved": 94.0,
        "after the round": 66.0,
    }
    assert (found["round"]["streams"], found["lost"], found["doubled"]) == (41, 2, 3)
