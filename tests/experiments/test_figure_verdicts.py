"""Verdicts follow the numbers: each finding once confirmed and once refuted, by hand-made curves."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from experiments.figure_rows import curves_of
from nearcast.delay.ratio import RatioCost
from nearcast.domain.plan import Objective
from nearcast.experiments.figures import (
    placement_findings,
    region_sweep,
    reloc2020,
    sigma_sweep,
    spool_sweep,
)
from nearcast.experiments.figures.examples2021 import size_verdicts
from nearcast.experiments.figures.figure import Effort, FindingKind, Verdict, beside, judge, tally
from nearcast.experiments.figures.placement_findings import PairTable
from nearcast.experiments.figures.preliminary2021 import (
    Plans,
    method_verdicts,
    one_topic_scenarios,
    plans_by_step,
    step_verdicts,
)
from nearcast.planning.methods.assignment import Cooperation

Table = dict[str, dict[float, dict[str, float]]]


def agreement(verdicts: list[Verdict]) -> list[bool]:
    return [verdict.agrees for verdict in verdicts]


def as_in_the_paper() -> Table:
    """Figure 14 as the paper describes it, at two spreads."""
    return {
        "random": {
            x: {"Y": 7, "Y1": 2.3, "Y2": 4, "home_km": 11, "storage_used": 999} for x in (1, 10)
        },
        "nearest": {
            1: {"Y": 0.9, "Y1": 0.5, "Y2": 0.3, "home_km": 2, "storage_used": 300},
            10: {"Y": 5.0, "Y1": 0.5, "Y2": 4.5, "home_km": 2, "storage_used": 900},
        },
        "otos": {
            x: {"Y": 2.3, "Y1": 2.2, "Y2": 0.1, "home_km": 11, "storage_used": 150} for x in (1, 10)
        },
        "reloc": {
            x: {"Y": 1.5, "Y1": 1.1, "Y2": 0.4, "home_km": 5, "storage_used": 400} for x in (1, 10)
        },
    }


@pytest.mark.parametrize(
    ("number", "line", "x", "metric", "value"),
    [
        (0, "otos", 10, "Y", 1.0),
        (1, "reloc", 1, "Y", 0.5),
        (2, "reloc", 1, "home_km", 1.0),
        (3, "nearest", 10, "Y2", 0.1),
        (4, "reloc", 10, "storage_used", 100.0),
        (5, "otos", 1, "Y1", 1.0),
        (6, "reloc", 10, "storage_used", 641.0),
    ],
)
def test_locality_findings(number: int, line: str, x: float, metric: str, value: float) -> None:
    table = as_in_the_paper()
    assert agreement(sigma_sweep.verdicts(curves_of(table), 0.0)) == [True] * 7
    table[line][x][metric] = value
    expected = [place != number for place in range(7)]
    assert agreement(sigma_sweep.verdicts(curves_of(table), 0.0)) == expected


def spool_curves(reloc_last: float, load_last: float) -> Table:
    def line(first: float, last: float) -> dict[float, dict[str, float]]:
        use = {"storage_used": 300.0}
        return {
            2: {"Y": first, "compute_used": 1600.0, **use},
            4: {"Y": last, "compute_used": load_last, **use},
        }

    return {
        "random": line(7, 9),
        "nearest": line(2, 6),
        "otos": line(2.5, 3),
        "relation": line(1.5, 4.2),
        "reloc": line(1.5, reloc_last),
    }


def test_spool_findings() -> None:
    agreeing = spool_sweep.verdicts(curves_of(spool_curves(1.6, 3300.0)))
    assert agreement(agreeing) == [True, True]
    assert "2.600 ms less than without cooperation" in agreeing[1].ours
    against = spool_sweep.verdicts(curves_of(spool_curves(4.0, 3300.0)))
    assert agreement(against) == [False, False]
    assert "OTOS at p = 4" in against[0].ours
    assert "beyond p = 2" in against[0].why
    assert "103 %" in against[1].why
    never = spool_sweep.verdicts(curves_of(spool_curves(1.6, 3000.0)))[1]
    assert never.ours.startswith("never over a limit")


def region_curves(wide_last: float, local_last: float) -> Table:
    return {
        "sigma 1 km": {1: {"Y": 2.4}, 4: {"Y": 1.3}, 16: {"Y": local_last}},
        "sigma 10 km": {1: {"Y": 2.0}, 4: {"Y": 1.9}, 16: {"Y": wide_last}},
    }


def test_region_findings() -> None:
    assert agreement(region_sweep.verdicts(curves_of(region_curves(2.1, 0.8)))) == [True, True]
    against = region_sweep.verdicts(curves_of(region_curves(4.8, 2.0)))
    assert agreement(against) == [False, False]
    assert "+153 % (sigma 10 km)" in against[0].ours
    few = region_sweep.verdicts(curves_of(region_curves(4.8, 2.0)).at([1.0, 4.0]))
    assert agreement(few) == [True, True]
    assert "falls until K = 4" in against[1].why


def ratio_curves() -> Table:
    """Figures 2 and 3 of 2020 as the paper describes them, at a low and a high ratio."""
    high = {
        "random": {"Y": 3, "Y1": 0.3, "Y2": 5, "Y3": 5},
        "nearest": {"Y": 2, "Y1": 0.2, "Y2": 7, "Y3": 0.4},
        "region": {"Y": 2.2, "Y1": 0.25, "Y2": 6, "Y3": 1.7},
        "relation": {"Y": 2.5, "Y1": 0.1, "Y2": 20, "Y3": 1.7},
        "reloc": {"Y": 1, "Y1": 0.05, "Y2": 8, "Y3": 1.7},
    }
    low = {name: {**metrics, "Y2": metrics["Y2"] / 2} for name, metrics in high.items()}
    return {name: {0.07: dict(low[name]), 0.95: {**high[name]}} for name in high}


@pytest.mark.parametrize(
    ("number", "line", "ratio", "metric", "value"),
    [
        (0, "nearest", 0.07, "Y", 0.1),
        (2, "relation", 0.95, "Y1", 0.3),
        (3, "reloc", 0.95, "Y1", 0.3),
        (4, "relation", 0.95, "Y2", 7.0),
        (5, "region", 0.07, "Y3", 6.0),
    ],
)
def test_findings_of_2020(number: int, line: str, ratio: float, metric: str, value: float) -> None:
    def all_of(table: Table) -> list[bool]:
        curves = curves_of(table)
        return agreement(
            [
                *reloc2020.delay_verdicts(curves),
                *reloc2020.cloud_verdicts(curves),
                *reloc2020.concentration_verdicts(curves),
                *reloc2020.distance_verdicts(curves),
            ]
        )

    table = ratio_curves()
    assert all_of(table) == [True] * 6
    table[line][ratio][metric] = value
    assert all_of(table) == [place != number for place in range(6)]


def test_a_delay_near_ratio_one_is_judged_by_six_ms() -> None:
    table = ratio_curves()
    for points in table.values():
        points[0.95]["Y"] *= 7
    assert agreement(reloc2020.delay_verdicts(curves_of(table))) == [True, False]


def pairs(d3_brokers: tuple[int, int] = (2, 2), **ms: list[float]) -> PairTable:
    """Two topics of three pairs each; the second may take longer."""
    return PairTable(
        topic=np.array([0, 0, 0, 1, 1, 1]),
        distance_km=np.array([1.0, 5, 9, 1, 5, 9]),
        permissible_ms=np.array([0.5, 0.5, 0.5, 1.5, 1.5, 1.5]),
        ms={Objective(name): np.array(values) for name, values in ms.items()},
        brokers={Objective.D1: np.array([2, 2]), Objective.D3: np.array(d3_brokers)},
    )


def test_d2_favours_near_pairs() -> None:
    d1 = [1.0, 1, 1, 1, 1, 1]
    agreeing = placement_findings.distance_verdicts([pairs(d1=d1, d2=[0.8, 1, 1.1, 0.9, 1, 1.2])])
    assert agreement(agreeing) == [True] * 2
    assert "of 2 pairs 2 are faster and 0 slower" in agreeing[0].ours
    against = placement_findings.distance_verdicts([pairs(d1=d1, d2=[1.2, 1, 0.8, 1, 1, 1])])
    assert agreement(against) == [False] * 2


def test_d3_favours_topics_that_are_late() -> None:
    d1 = [0.9, 0.8, 0.4, 1.0, 1.0, 1.0]
    table = pairs((3, 1), d1=d1, d3=[0.5, 0.6, 0.4, 1.2, 1.4, 1.0])
    tight = placement_findings.tight_verdicts([table])
    assert agreement(tight) == [True] * 2
    assert "2 and 3 of the shorter half of permissible delays, 2 and 1 of" in tight[1].ours
    assert agreement(placement_findings.loose_verdicts([table])) == [True, True]
    late = pairs(d1=d1, d3=[0.95, 0.85, 0.6, 0.9, 0.9, 1.6])
    assert agreement(placement_findings.tight_verdicts([late])) == [False] * 2
    verdicts = placement_findings.loose_verdicts([late])
    assert agreement(verdicts) == [False, False]
    assert verdicts[1].ours == "0 of the 1 slower pairs"


@pytest.mark.parametrize(
    ("unchanged", "many_late", "many_loose"),
    [(2, True, True), (4, True, False), (5, False, False)],
)
def test_a_tenth_of_the_pairs_is_many(unchanged: int, many_late: bool, many_loose: bool) -> None:
    d1 = [0.9, 0.8, 0.4, 1.0, 1.0, 1.0]
    still = pairs(d1=d1, d3=d1)
    tables = [pairs(d1=d1, d3=[0.8, 0.8, 0.4, 1.1, 1.0, 1.0]), *[still] * unchanged]
    late, loose = (
        find(tables)[0]
        for find in (placement_findings.tight_verdicts, placement_findings.loose_verdicts)
    )
    assert (late.agrees, loose.agrees) == (many_late, many_loose)
    assert "many: judged as 10 % or more" in late.why


def plans(**by_name: tuple[list[int], list[float]]) -> Plans:
    """Homes of clients and the local share of servers, by step or method; a spool takes 7."""
    found: Plans = {}
    for name, (homes, share) in by_name.items():
        used = np.where(np.bincount(homes, minlength=len(share)) > 0, 7.0, 0.0)
        zeros = np.zeros(len(share))
        cost = RatioCost(1.0, 0.5, 0.5, used, zeros, np.array(share), zeros, zeros)
        found[name] = (np.array(homes, dtype=np.int32), cost)
    return found


def test_the_steps_of_reloc_are_counted_over_seeds() -> None:
    good = plans(
        locality=([0, 1, 2], [1, 1, 1]),
        relation=([0, 0, 0], [0.5, 1, 1]),
        cooperation=([0, 0, 1], [1, 1, 1]),
    )
    bad = plans(
        locality=([0, 0, 0], [1, 1, 1]),
        relation=([0, 1, 2], [1, 1, 1]),
        cooperation=([0, 0, 0], [0.5, 1, 1]),
    )
    assert agreement(step_verdicts([good, good])) == [True, True]
    mixed = step_verdicts([good, bad])
    assert agreement(mixed) == [False, False]
    assert "in 1 of 2 seeds" in mixed[0].ours


@pytest.mark.parametrize("cooperate", [Cooperation.ALONE, Cooperation.TOGETHER])
def test_what_the_steps_do_with_one_topic_cannot_fail_and_is_not_counted(
    cooperate: Cooperation,
) -> None:
    scenarios = islice(one_topic_scenarios(Effort(), storage=7.0, compute=20.0), 60)
    for scenario in scenarios:
        told = step_verdicts([plans_by_step(scenario, cooperate)])
        assert agreement(told) == [True, True]
        assert {verdict.kind for verdict in told} == {FindingKind.BY_CONSTRUCTION}


def test_methods_are_told_by_the_servers_they_use() -> None:
    alone, all_over = ([0, 0, 0], [1.0] * 3), ([0, 1, 2], [1.0] * 3)
    middle = ([0, 0, 1], [1.0] * 3)
    methods: dict[str, Any] = {"random": all_over, "nearest": all_over, "optimised": middle}
    good = plans(otos=alone, reloc=middle, **methods)
    assert agreement(method_verdicts([good])) == [True]
    bad = plans(otos=middle, reloc=all_over, **{**methods, "nearest": middle})
    assert agreement(method_verdicts([bad])) == [False]


def test_topic_sizes_are_held_against_the_papers_numbers() -> None:
    as_paper = np.full(64, 14)
    as_paper[0] = 21
    assert agreement(size_verdicts(as_paper)) == [True, True]
    assert agreement(size_verdicts(np.full(65, 22))) == [False, False]


def test_only_tests_are_counted_and_other_settings_stand_beside_a_verdict() -> None:
    found = sigma_sweep.verdicts(curves_of(as_in_the_paper()), 0.0)
    assert tally(found) == {
        FindingKind.INPUT: (0, 0),
        FindingKind.BY_CONSTRUCTION: (2, 2),
        FindingKind.CALIBRATED: (3, 3),
        FindingKind.TEST: (2, 2),
    }
    good, bad = judge("a", True, "1 ms"), judge("a", False, "2 ms")
    (both,) = beside([good], [bad], "at p = 3")
    assert both.agrees
    assert both.elsewhere == ("at p = 3: does not agree (2 ms)",)


def test_curves_at_some_points_and_with_another_line() -> None:
    curves = curves_of({"a": {1.0: {"Y": 1.0}, 2.0: {"Y": 2.0}}, "b": {1.0: {"Y": 5.0}}})
    assert curves.at([2.0]).xs("a") == [2.0]
    other = curves.instead("a", "b")
    assert other.lines == ["a"]
    assert other.means("a", "Y") == [5.0]
