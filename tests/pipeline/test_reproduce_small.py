"""All figures of the papers from one real sweep on Spark, as small as they go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nearcast.domain.plan import Model, Objective
from nearcast.experiments.figures.catalogue import find_figures
from nearcast.experiments.figures.figure import SMALL
from nearcast.experiments.figures.page import write_page
from nearcast.experiments.figures.reproduction import cells_of, draw_figures, read_rows
from nearcast.pipeline.sweep.run import run_sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_figures_come_out_of_one_sweep(spark: SparkSession, tmp_path: Path) -> None:
    effort = replace(SMALL, seeds_2021=1, iterations=5_000, bound_limit_s=0.05)
    figures = find_figures("all")
    cells = cells_of(figures, effort)
    swept = run_sweep(spark, cells, tmp_path / "sweep")
    assert not swept.failures
    rows = read_rows(swept.results, cells)
    assert set(rows) == set(cells)
    for cell, row in rows.items():
        assert row["bound"] <= row["cost"] * (1 + 1e-9)
        assert (row["pair_ms"] is None) == (cell.model is not Model.PLACEMENT)
        if row["pair_ms"] is not None:
            assert sum(row["pair_ms"]) == pytest.approx(row["D1"])
    made = list(draw_figures(figures, effort, rows, tmp_path))
    write_page(tmp_path / "index.html", made, data="Generated.", options=" --small")
    verdicts = {
        (one.figure.name, verdict.finding): verdict.agrees
        for one in made
        for verdict in one.result.verdicts
    }
    # Findings that do not hang on chance.
    usual = [cell for cell in cells if cell.source == "placement2022" and cell.parameters == "{}"]
    assert verdicts["2021-14", "NS gives the smallest distance to the home server"]
    assert verdicts["2021-14", "OTOS gives more delay Y1 than RELOC constantly"]
    excess = {cell.objective: row["D3"] for cell, row in rows.items() if cell in usual}
    assert excess[Objective.D3] <= excess[Objective.D1]
    assert len(list(tmp_path.glob("*.png"))) == len(list(tmp_path.glob("*.csv"))) == 18
    # Nothing is computed twice.
    assert run_sweep(spark, cells, tmp_path / "sweep").reused == len(cells)
