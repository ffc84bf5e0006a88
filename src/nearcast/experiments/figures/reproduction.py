"""Running figures: one sweep for all of them, then tables, pictures and verdicts as files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nearcast.errors import OutputError
from nearcast.experiments.figures.figure import Effort, FigureResult, PaperFigure, SweepRows
from nearcast.pictures.style import save_figure
from nearcast.pipeline.sweep.cell import SweepCell

__all__ = [
    "MARK_FILE",
    "Reproduction",
    "cells_of",
    "draw_figures",
    "prepare_folder",
    "read_rows",
    "write_mark",
]

MARK_FILE = "reproduce.json"
"""Says what a folder holds; by it an earlier result is known and continued."""


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """A figure that was made, and its files."""

    figure: PaperFigure
    result: FigureResult
    table: Path | None = None
    pictures: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """What was written: the table, then pictures."""
        return (*([self.table] if self.table is not None else []), *self.pictures)

    def to_json(self) -> dict[str, Any]:
        """Return what there is to tell."""
        return {
            "figure": self.figure.name,
            "title": self.figure.title,
            "verdicts": [asdict(verdict) for verdict in self.result.verdicts],
            "notes": list(self.result.notes),
            **({"numbers": dict(self.result.numbers)} if self.result.numbers else {}),
            "csv": str(self.table) if self.table is not None else None,
            "pictures": [str(path) for path in self.pictures],
        }


def prepare_folder(out: Path) -> None:
    """Make the folder, or refuse it before the long work.

    Raises
    ------
    OutputError
        When it holds something else than an earlier reproduction, or cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not (out / MARK_FILE).is_file():
            raise OutputError(
                f"{out}: is not empty and holds no earlier result of reproduce; choose another folder"
            )
    except OSError as reason:
        raise OutputError(f"{out}: cannot be used: {reason.strerror}") from reason
    write_mark(out, {})


def write_mark(out: Path, content: dict[str, Any]) -> None:
    """Write what the folder holds."""
    known = {"nearcast": "reproduce", "version": version("nearcast"), **content}
    try:
        (out / MARK_FILE).write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    except OSError as reason:
        raise OutputError(f"{out}: cannot be written: {reason.strerror}") from reason


def cells_of(figures: Sequence[PaperFigure], effort: Effort) -> list[SweepCell]:
    """Return what all figures need, each cell once."""
    return list(dict.fromkeys(cell for figure in figures for cell in figure.cells(effort)))


def read_rows(results: Path, cells: Sequence[SweepCell]) -> SweepRows:
    """Return the rows of a sweep's table by cell."""
    by_name = {row["cell_id"]: row for row in pq.read_table(results).to_pylist()}
    return {cell: by_name[cell.cell_id] for cell in cells if cell.cell_id in by_name}


def draw_figures(
    figures: Sequence[PaperFigure],
    effort: Effort,
    rows: SweepRows,
    out: Path,
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[Reproduction]:
    """Yield each figure with its files written.

    Raises
    ------
    OutputError
        When a file cannot be written.
    """
    for figure in figures:
        begin(figure.name)
        result = figure.result(effort, rows)
        table = out / f"{figure.name}.csv"
        _write_csv(table, result)
        paths = []
        for name, picture in result.pictures.items():
            paths.append(out / f"{'-'.join(filter(None, (figure.name, name)))}.png")
            save_figure(picture, paths[-1])
        yield Reproduction(figure, result, table, tuple(paths))


def _write_csv(path: Path, result: FigureResult) -> None:
    columns = list(dict.fromkeys(name for row in result.rows for name in row))
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(result.rows)
    except OSError as reason:
        raise OutputError(f"{path}: cannot be written: {reason.strerror}") from reason
