"""A sweep as one Spark job: cells that are done stay done, a failing one fails alone."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nearcast.errors import NearcastError, PipelineError
from nearcast.pipeline.blocks import map_blocks
from nearcast.pipeline.progress import described_jobs
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.sweep.cell import SweepCell, run_cell
from nearcast.pipeline.sweep.compiling import compile_kernels
from nearcast.pipeline.sweep.folder import FAILURES_FILE, RESULTS_FILE, SweepFolder, write_whole
from nearcast.pipeline.sweep.order import tasks_of
from nearcast.pipeline.sweep.table import FAILURE_SCHEMA, RESULT_SCHEMA, failure_row, result_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CellFailure", "SweepProgress", "SweepResult", "run_sweep"]

_EVERY_S = 0.5

CellFunction = Callable[[SweepCell], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is."""

    total: int
    done: int
    """Results that are there, those of earlier runs too."""
    failed: int
    under_way: tuple[str, ...]
    """Titles of the cells that run now."""


@dataclass(frozen=True, slots=True)
class CellFailure:
    """A cell without a result."""

    cell: SweepCell
    error: str


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep left."""

    results: Path
    """The table of `RESULT_SCHEMA`, a row for each cell that is done, in the order given."""
    total: int
    reused: int
    """Cells that an earlier run had done."""
    failures: tuple[CellFailure, ...]
    """Also in ``failures.parquet``; the next run tries them again."""


def run_sweep(
    spark: SparkSession,
    cells: Sequence[SweepCell],
    out: Path,
    on_progress: Callable[[SweepProgress], None] | None = None,
    *,
    compute: CellFunction = run_cell,
) -> SweepResult:
    """Run the cells that are not done yet and write all results as one table.

    Parameters
    ----------
    spark : where to run.
    cells : what to run; equal ones run once.
    out : a folder that all workers see under this path, as any output of Spark on a cluster; one
        driver at a time may use it.
    on_progress : called from another thread now and then; must return fast and not raise.
    compute : what to do with a cell, on a worker; returns what `run_cell` does.

    Raises
    ------
    PipelineError
        When Spark fails for a reason that no cell is to blame for, or the workers do not see `out`.
    OutputError
        When `out` cannot be written.
    """
    wanted = list({cell.cell_id: cell for cell in cells}.values())
    folder = SweepFolder(Path(out).absolute())
    waiting = folder.prepare(wanted)
    reused = len(wanted) - len(waiting)
    with described_jobs(spark, f"sweep {folder.root.name}"), _told(folder, wanted, on_progress):
        while waiting:
            _run_job(spark, folder, waiting, compute)
            waiting = [cell for cell in waiting if not folder.is_settled(cell)]
    failures = _gather(folder, wanted)
    return SweepResult(folder.root / RESULTS_FILE, len(wanted), reused, failures)


def _run_job(
    spark: SparkSession, folder: SweepFolder, cells: Sequence[SweepCell], compute: CellFunction
) -> None:
    """Run cells; when a process died under them, settle those that may be to blame one by one."""
    error = _try_job(spark, folder, tasks_of(cells), compute)
    if error is None:
        if not all(folder.is_settled(cell) for cell in cells):
            raise PipelineError(_NOT_SHARED.format(folder.root))
        return
    suspects = [cell for cell in cells if folder.is_begun(cell)]
    if not suspects:
        raise PipelineError(error)
    for cell in suspects:
        error = _try_job(spark, folder, [[cell]], compute)
        if error is not None and not folder.is_settled(cell):
            told = f"the process that ran this cell died (out of memory, say); {error}"
            folder.end(cell, failure_row(cell, told, None))


_NOT_SHARED = (
    "{}: the workers do not see this folder or write to another one of that name; "
    "on a cluster it must be on storage that all machines share"
)


def _try_job(
    spark: SparkSession,
    folder: SweepFolder,
    tasks: Sequence[Sequence[SweepCell]],
    compute: CellFunction,
) -> str | None:
    """Return why the job failed, None if it did not."""

    def run_task(task: int) -> Iterator[pa.RecordBatch]:
        for cell in tasks[task]:
            _settle(folder, cell, compute)
        yield pa.RecordBatch.from_arrays([pa.array([len(tasks[task])])], ["cells"])

    try:
        with clear_errors("the sweep failed"):
            map_blocks(spark, len(tasks), run_task, "cells long").toArrow()
    except PipelineError as failure:
        try:
            with clear_errors("Spark went away"):
                spark.range(1).count()
        except (PipelineError, OSError) as error:
            raise PipelineError(f"{failure}; Spark went away: run again to go on") from error
        return str(failure)
    return None


def _settle(folder: SweepFolder, cell: SweepCell, compute: CellFunction) -> None:
    """Run a cell on a worker and leave its row."""
    if not folder.cells.is_dir():
        raise PipelineError(_NOT_SHARED.format(folder.root))
    # Spark tries a task again when its process or machine was lost.
    if folder.is_settled(cell):
        return
    folder.begin(cell)
    try:
        if compute is run_cell:
            compile_kernels(cell.model, cell.method, cell.objective)
        row = result_row(cell, compute(cell))
    except NearcastError as error:
        row = failure_row(cell, str(error), None)
    except (Exception, SystemExit) as error:  # whatever it is, it is this cell's alone
        row = failure_row(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
    folder.end(cell, row)


def _gather(folder: SweepFolder, cells: Sequence[SweepCell]) -> tuple[CellFailure, ...]:
    """Write the two tables of the sweep and return the failures."""
    rows = [(cell, folder.result(cell), folder.failure(cell)) for cell in cells]
    done = [result for _, result, _ in rows if result is not None]
    write_whole(
        pa.concat_tables(done) if done else RESULT_SCHEMA.empty_table(),
        folder.root / RESULTS_FILE,
    )
    failed = [(cell, row) for cell, result, row in rows if result is None and row is not None]
    if len(done) + len(failed) < len(cells):
        raise PipelineError(f"{folder.root}: results were removed while the sweep ran; run again")
    failures = pa.concat_tables([FAILURE_SCHEMA.empty_table(), *(row for _, row in failed)])
    write_whole(failures, folder.root / FAILURES_FILE)
    return tuple(CellFailure(cell, row["error"][0].as_py()) for cell, row in failed)


@contextmanager
def _told(
    folder: SweepFolder,
    cells: Sequence[SweepCell],
    on_progress: Callable[[SweepProgress], None] | None,
) -> Iterator[None]:
    """Tell how far the sweep is while a block runs, whenever that changes, and at its end."""
    if on_progress is None:
        yield
        return
    last: SweepProgress | None = None

    def look() -> None:
        nonlocal last
        done, failed, running = folder.count(cells)
        now = SweepProgress(len(cells), done, failed, tuple(cell.title for cell in running))
        if now != last:
            last = now
            on_progress(now)

    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_EVERY_S):
            look()

    look()
    thread = threading.Thread(target=watch, name="sweep-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        look()
