"""The bench of areas at a small size; each method that is installed finds what a scan finds."""

from __future__ import annotations

import numpy as np
import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.errors import PlanningError
from nearcast.experiments import area_speed
from nearcast.experiments.area_rivals import METHODS, missing
from nearcast.experiments.area_speed import AreaCase

SMALL = AreaCase(points=3000, subscriptions=500, queries=20, radius_km=0.6)


@pytest.mark.parametrize("method", list(METHODS))
def test_a_method_finds_what_a_scan_finds(method: str) -> None:
    if lacking := missing(method):
        pytest.skip(f"{lacking[0]} is not installed")
    (row,) = area_speed.run(SMALL, [method], lambda _: None)
    assert (row.method, row.points, row.subscriptions) == (method, 3000, 500)
    assert row.found_points > 1
    assert min(row.query_us, row.update_ms, row.match_us) >= 0


def test_a_method_that_finds_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = METHODS["grid"][0]

    def wrong(field: object) -> object:
        method = grid(field)  # type: ignore[arg-type]
        monkeypatch.setattr(method, "inside", lambda _: np.array([0]))
        return method

    monkeypatch.setitem(METHODS, "grid", (wrong, ()))
    with pytest.raises(PlanningError, match="grid does not find the points of area"):
        list(area_speed.run(SMALL, ["grid"], lambda _: None))


def test_the_verb_prints_rows(run: Run) -> None:  # noqa: F811
    answer = run(
        *("bench", "areas", "--points", 1000, "--subscriptions", 100, "--queries", 5, "--json")
    )
    assert answer.code == 0, answer.err
    rows = answer.json["rows"]
    assert [row["method"] for row in rows][:2] == ["grid", "scan"]
    assert {"method", "points", "query_us", "update_ms", "subscriptions", "match_us"} <= set(
        rows[0]
    )
    for method in METHODS:
        assert (method in [row["method"] for row in rows]) != (
            f"{method} is left out" in answer.err
        )
