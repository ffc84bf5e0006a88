"""The overlay's bench: its shortcut gives true tables, its rows have no wrong answer."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from nearcast.cli.bench import bench
from nearcast.experiments import overlay_churn, overlay_turnover
from nearcast.experiments.overlay_scale import OVERLAYS, STATES, cases, insertion_order, run
from nearcast.experiments.overlay_tables import converged_ring
from nearcast.experiments.overlay_turnover import Turnover
from nearcast.overlay.overlay import Action
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.peer import SuzakuPeer
from nearcast.testing.overlay_ring import OverlayRing
from nearcast.testing.overlay_world import OverlayWorld


def test_an_overlay_is_gone_when_the_next_one_is_made() -> None:
    gc.collect()
    three = [("suzaku", 30, state) for state in ("random", "ascending", "descending")]
    for _ in run(three, 1, lambda _: None):
        alive = sum(isinstance(one, OverlayWorld) for one in gc.get_objects())
        assert alive <= 1  # 100,000 keys take more than a gigabyte each time


@pytest.mark.parametrize("count", [2, 3, 8, 21, 64])
def test_tables_made_at_once_are_those_of_periodic_steps(count: int) -> None:
    swept = OverlayRing(SuzakuParams(ping_s=inf, finger_s=1.0))
    for key in range(count):
        swept.add(key)
        swept.world.run(0.5)
    swept.world.run(60.0)
    made = converged_ring(range(count))
    assert [node.key for node in made.check_settled()] == list(range(count))
    assert _tables(made) == _tables(swept)


def _tables(ring: OverlayRing) -> dict[int, object]:
    return {
        node.me.key: (
            [[one.key for one in entry.nodes] for entry in node.fingers.forward if entry],
            [[one.key for one in entry.nodes] for entry in node.fingers.backward if entry],
            [one.key for one in node.ring.neighbours],
        )
        for node in ring.all_nodes()
    }


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("state", ["random", "ascending", "descending", "adversarial"])
def test_an_order_has_each_key_once(state: str, count: int) -> None:
    assert sorted(insertion_order(state, count, Random(1))) == list(range(count))


def test_every_state_of_every_overlay_answers_rightly_and_within_its_bound() -> None:
    chosen = cases([64], OVERLAYS, STATES, 64)
    assert len(chosen) == 18
    for point in run(chosen, 1, lambda _name: None):
        assert (point.wrong, point.unanswered) == (0, 0)
        assert point.bound is None or point.max_hops <= point.bound
        assert point.mean_hops > 0
        assert point.join_messages > 0


def test_joins_are_measured_only_where_they_end_in_time() -> None:
    chosen = cases([100, 10**4, 10**5], OVERLAYS, STATES, 10**4)
    assert [case for case in chosen if case[1] == 10**5] == [
        ("suzaku", 10**5, "converged"),
        ("skipgraph", 10**5, "converged"),
        ("chordsharp", 10**5, "converged"),
    ]
    assert ("suzaku", 10**4, "random") in chosen
    assert ("chordsharp", 10**4, "random") not in chosen


def test_after_a_crash_of_a_fifth_no_answer_is_wrong_once_repaired() -> None:
    seconds = overlay_churn.run(40, seed=3)
    repaired = [second for second in seconds if second.is_repaired]
    assert len(repaired) >= 30
    assert seconds[-1].is_repaired
    for second in repaired:
        assert second.wrong == 0
        assert second.right == second.asked


_TURNOVER = Turnover(peers=30, lookups_per_s=20, churn_s=15, quiet_s=10)


def test_while_peers_come_and_go_no_answer_is_wrong_once_repaired() -> None:
    seconds = overlay_turnover.run(_TURNOVER, seed=3)
    assert min(sum(one.joins for one in seconds), sum(one.crashes for one in seconds)) >= 5
    for second in seconds:
        assert second.asked == second.right + second.wrong + second.unanswered
        assert second.wrong_repaired == 0
    assert all(second.right == second.asked for second in seconds[-5:])
    assert sum(second.right for second in seconds) > 0.9 * 20 * 25


def test_answers_for_other_targets_are_told_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = SuzakuPeer.lookup

    def mistake(peer: SuzakuPeer, target: int, now: float) -> tuple[int, list[Action]]:
        return lookup(peer, target // 2, now)

    monkeypatch.setattr(SuzakuPeer, "lookup", mistake)
    seconds = overlay_turnover.run(replace(_TURNOVER, churn_s=2, quiet_s=2), seed=3)
    assert sum(one.wrong for one in seconds) > sum(one.right for one in seconds)
    assert sum(one.wrong_repaired for one in seconds) > 0


def test_the_verb_prints_rows_and_draws_a_picture(tmp_path: Path) -> None:
    arguments = ["overlay", "--keys", "20,40", "--churn-keys", "0"]
    arguments += ["--turnover-peers", "0", "--json"]
    result = CliRunner().invoke(bench, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert {row["overlay"] for row in rows} == {"suzaku", "skipgraph", "chordsharp"}
    assert all(row["wrong"] == 0 for row in rows)
    assert (tmp_path / "out" / "overlay.png").stat().st_size > 1000


def test_some_overlays_and_states_can_be_chosen() -> None:
    arguments = ["overlay", "--keys", "20", "--churn-keys", "0", "--turnover-peers", "0", "--json"]
    chosen = ["--overlays", "suzaku,skipgraph", "--states", "adversarial,deleted"]
    result = CliRunner().invoke(bench, [*arguments, *chosen])
    rows = json.loads(result.stdout)["rows"]
    assert [(row["overlay"], row["state"]) for row in rows] == [
        (overlay, state)
        for overlay in ("suzaku", "skipgraph")
        for state in ("adversarial", "deleted")
    ]


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--keys", "10,x"], "--keys"),
        (["--overlays", "suzaku,pastry"], "--overlays: ['pastry']"),
        (["--states", ","], "--states: none"),
        (["--keys", "20", "--states", "random", "--most-joins", "10"], "--most-joins"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: list[str], option: str) -> None:
    result = CliRunner().invoke(bench, ["overlay", *arguments])
    assert result.exit_code != 0
    assert option in result.output + str(result.exception)
