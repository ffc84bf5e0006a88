from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model, Objective
from nearcast.errors import ConfigError, OutputError, PipelineError
from nearcast.pipeline.progress import TaskProgress, watch_tasks
from nearcast.pipeline.sweep.cell import SweepCell, run_cell
from nearcast.pipeline.sweep.compiling import compile_kernels
from nearcast.pipeline.sweep.folder import FAILURES_FILE, SweepFolder
from nearcast.pipeline.sweep.order import tasks_of
from nearcast.pipeline.sweep.run import SweepProgress, run_sweep
from nearcast.pipeline.sweep.table import METRICS, RESULT_SCHEMA, result_row
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import make_plan
from pipeline.job_names import job_names
from pipeline.sweep_cells import RESULT, calls, cells_of_seeds, counting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {"topics": 4, "servers_per_side": 2}


def rows(path: Path) -> list[dict[str, Any]]:
    table = pq.read_table(path)
    assert table.schema.equals(RESULT_SCHEMA)
    return table.to_pylist()  # type: ignore[no-any-return]


def test_results_are_those_of_planning_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    cells = [
        SweepCell.of("reloc2021", SMALL, seed=seed, method=method, iterations=50, bound_limit_s=1)
        for seed in (1, 2)
        for method in ("nearest", "reloc", "optimised")
    ]
    seen: list[SweepProgress] = []
    result = run_sweep(spark, cells, tmp_path / "out", seen.append)
    assert "nearcast sweep out" in job_names(spark)
    assert (result.total, result.reused, result.failures) == (6, 0, ())
    found = rows(result.results)
    assert [row["cell_id"] for row in found] == [cell.cell_id for cell in cells]
    for row, cell in zip(found, cells, strict=True):
        scenario = generate_reloc2021(Reloc2021(**SMALL), cell.seed)
        request = PlanRequest(
            Model.RATIO, method=cell.method, regions=4, seed=cell.seed, iterations=50
        )
        report = make_plan(scenario, request).report
        assert row["cost"] == row["Y"] == pytest.approx(report.metrics["Y"], rel=1e-12)
        assert row["speed_ms"] == pytest.approx(report.limits["speed_ms"], rel=1e-12)
        assert row["clients"] == len(scenario.clients) == sum(row["clients_at_home"])
        assert dict(row["parameter"]) == {"servers_per_side": "2", "topics": "4"}
        assert row["objective"] is None
        assert row["D1"] is None
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, 6, 6)
    assert seen[-1].under_way == ()


def test_a_second_run_computes_only_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    out, log, cells = tmp_path / "out", tmp_path / "log", cells_of_seeds(4)
    compute = counting(log, lambda cell: None)
    run_sweep(spark, cells[:2], out, compute=compute)
    folder = SweepFolder(out)
    torn = folder.cells / f"{cells[1].cell_id}.parquet"
    torn.write_bytes(torn.read_bytes()[:-20])
    result = run_sweep(spark, [*cells, *cells], out, compute=compute)
    assert (result.total, result.reused) == (4, 1)
    assert calls(log) == [0, 1, 1, 2, 3]
    assert [row["cost"] for row in rows(result.results)] == [0.0, 1.0, 2.0, 3.0]
    assert all(file.suffix == ".parquet" for file in folder.cells.iterdir())


def test_failures_stay_with_their_cells_and_are_tried_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, log, cure, cells = tmp_path / "out", tmp_path / "log", tmp_path / "cure", cells_of_seeds(5)

    def fall_ill(cell: SweepCell) -> None:
        if cure.exists():
            return
        if cell.seed == 1:
            raise ConfigError("no such city")
        if cell.seed == 2:
            raise MemoryError("too big")
        if cell.seed == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    compute = counting(log, fall_ill)
    result = run_sweep(spark, cells, out, compute=compute)
    assert [failure.cell.seed for failure in result.failures] == [1, 2, 3]
    errors = [failure.error for failure in result.failures]
    assert errors[:2] == ["no such city", "MemoryError: too big"]
    assert errors[2].startswith("the process that ran this cell died")
    assert [row["seed"] for row in rows(result.results)] == [0, 4]
    failures = pq.read_table(out / FAILURES_FILE).to_pydict()
    assert failures["error"] == errors
    assert failures["trace"][0] is None
    assert "fall_ill" in failures["trace"][1]

    cure.touch()
    before = calls(log)
    result = run_sweep(spark, cells, out, compute=compute)
    assert (result.reused, result.failures) == (2, ())
    assert sorted([*before, 1, 2, 3]) == calls(log)
    assert pq.read_table(out / FAILURES_FILE).num_rows == 0


def test_a_sweep_goes_on_after_its_driver_was_killed(spark: SparkSession, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    program = Path(__file__).with_name("sweep_driver.py")
    environment = {**os.environ, "PYTHONPATH": str(program.parents[1])}
    driver = subprocess.Popen([sys.executable, str(program), out, log], env=environment)
    try:
        # The driver's third cell hangs for ever.
        deadline = time.monotonic() + 100
        while not log.exists() or len(log.read_text().split()) < 3:
            assert driver.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        driver.kill()
        driver.wait()
    cells = cells_of_seeds(4)
    done, _, under_way = SweepFolder(out).count(cells)
    assert (done, under_way) == (2, [cells[2]])
    result = run_sweep(spark, cells, out, compute=counting(log, lambda cell: None))
    assert (result.total, result.reused, result.failures) == (4, 2, ())
    assert calls(log) == [0, 1, 2, 2, 3]
    assert [row["cost"] for row in rows(result.results)] == [0.0, 1.0, 2.0, 3.0]


def test_a_fault_that_is_no_cells_is_told(spark: SparkSession, tmp_path: Path) -> None:
    class Unreadable:
        def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
            return int, ("not a number",)

    broken = Unreadable()

    def compute(cell: SweepCell) -> dict[str, Any]:
        return {"cost": broken}

    with pytest.raises(PipelineError, match="not a number"):
        run_sweep(spark, cells_of_seeds(2), tmp_path / "out", compute=compute)


def test_an_output_that_cannot_be_written_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file: cannot be written"):
        run_sweep(spark, cells_of_seeds(1), tmp_path / "file")


def test_no_cells_give_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    assert rows(run_sweep(spark, [], tmp_path / "out").results) == []


@pytest.mark.parametrize(
    ("source", "parameters", "model"),
    [
        ("reloc2020", {"ratio": 0.01}, Model.CONNECTIONS),
        ("reloc2021", SMALL, Model.RATIO),
        ("placement2022", {}, Model.PLACEMENT),
    ],
)
def test_every_number_of_every_model_has_a_column(
    source: str, parameters: dict[str, Any], model: Model
) -> None:
    cell = SweepCell.of(source, parameters, model=model, method="nearest", objective=Objective.D2)
    compile_kernels(model, "reloc", Objective.D2)
    told = run_cell(cell)
    row = result_row(cell, told).to_pylist()[0]
    assert {name: row[name] for name in METRICS if row[name] is not None} == told["metrics"]
    assert {name: row[name] for name in told["limits"]} == told["limits"]
    assert row["objective"] == ("d2" if model is Model.PLACEMENT else None)
    with pytest.raises(ValueError, match="no column for colour"):
        result_row(cell, {**RESULT, "colour": "red"})


def test_long_cells_run_first_and_alone_and_quick_ones_share_a_task() -> None:
    rng = np.random.default_rng(1)
    cells = [
        SweepCell("reloc2021", seed=seed, method=method)
        for seed in range(3)
        for method in ("nearest", "otos", "exact", "optimised", "reloc")
    ]
    rng.shuffle(cells)
    tasks = tasks_of(cells)
    assert sorted(cell.cell_id for task in tasks for cell in task) == sorted(
        cell.cell_id for cell in cells
    )
    methods = [[cell.method for cell in task] for task in tasks]
    assert methods[:9] == [["exact"]] * 3 + [["optimised"]] * 3 + [["reloc"]] * 3
    assert all(sorted(task) == ["nearest", "otos"] for task in methods[9:])
    assert all(len({cell.seed for cell in task}) == 1 for task in tasks)
    limited = [SweepCell("city", method="optimised", time_limit_s=limit) for limit in (1, 99)]
    assert tasks_of(limited) == [[limited[1]], [limited[0]]]


def test_tasks_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[TaskProgress] = []
    go = tmp_path / "go"

    def wait(cell: SweepCell) -> None:
        while cell.seed == 2 and not go.exists():
            time.sleep(0.01)

    def look(progress: TaskProgress) -> None:
        seen.append(progress)
        if progress.done == 2:
            go.touch()

    with watch_tasks(spark, look):
        compute = counting(tmp_path / "log", wait)
        run_sweep(spark, cells_of_seeds(3), tmp_path / "out", compute=compute)
    assert any((one.done, one.total, one.failed) == (2, 3, 0) for one in seen)
    with watch_tasks(spark, None):
        pass
