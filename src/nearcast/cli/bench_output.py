"""What the cases of ``nearcast bench`` share: keeping, writing and showing measurements."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from nearcast.cli.console import print_json, print_table, show_number
from nearcast.errors import ConfigError, OutputError

__all__ = [
    "chosen_words",
    "finish",
    "finish_points",
    "finish_rows",
    "kept",
    "out_option",
    "prepare",
    "print_rows",
    "whole_numbers",
]

Point = TypeVar("Point")

out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the numbers (CSV, JSON) and the picture.  [default: none are written]",
)


def kept(measured: Iterable[Point]) -> list[Point]:
    """Return all points; after Ctrl-C those that were finished, if there are any."""
    points: list[Point] = []
    try:
        points.extend(measured)
    except KeyboardInterrupt:
        if not points:
            raise
        click.echo(f"stopped; {len(points)} finished measurements are kept", err=True)
    return points


def prepare(out: Path | None) -> None:
    """Refuse an output that cannot be written before the long work."""
    if out is not None:
        from nearcast.pictures.report_folder import prepare_report_folder

        prepare_report_folder(out)


def finish(
    case: str,
    measured: Sequence[Any],
    summary: Sequence[dict[str, Any]] | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the numbers (dataclasses) and show the table: the summary, or else all of them."""
    points = [asdict(point) for point in measured]
    shown = points if summary is None else summary
    _write(case, points, out)
    if as_json:
        print_json({"case": case, "summary": list(shown), "points": list(points)})
        return
    print_rows(shown)


def finish_rows(
    case: str,
    rows: Sequence[Mapping[str, Any]],
    summary: Sequence[dict[str, Any]],
    out: Path | None,
    as_json: bool,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write rows and show their summary; as JSON they are an object with ``rows`` and `more`."""
    _write(case, rows, out)
    if as_json:
        print_json({"rows": list(rows), **(more or {})})
        return
    print_rows(summary)


def finish_points(case: str, points: Sequence[Any], out: Path | None, as_json: bool) -> None:
    """Write points (dataclasses) and show them all, as rows."""
    rows = [asdict(point) for point in points]
    finish_rows(case, rows, rows, out, as_json)


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the positive numbers of a comma-separated list; ConfigError when there is another."""
    numbers = [int(one) if one.strip().isdigit() else 0 for one in text.split(",")]
    if 0 in numbers:
        raise ConfigError(f"{option}: {text!r} is no list of whole numbers above 0")
    return numbers


def chosen_words(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a comma-separated list; ConfigError when there is none or another."""
    chosen = tuple(one.strip() for one in text.split(",") if one.strip())
    unknown = [one for one in chosen if one not in known]
    if unknown or not chosen:
        raise ConfigError(f"{option}: {unknown or 'none'}; there are {', '.join(known)}")
    return chosen


def _write(case: str, rows: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    if out is None:
        return
    try:
        (out / f"{case}.json").write_text(json.dumps(rows, indent=1) + "\n")
        with (out / f"{case}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)
    except OSError as reason:
        raise OutputError(f"{out}: cannot be written: {reason.strerror}") from reason


def print_rows(shown: Sequence[dict[str, Any]]) -> None:
    """Show a table, if there is anything in it."""
    rows = [_cells(row) for row in shown]
    if rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """Return what a row shows; a mean gap and the largest one share a cell."""
    cells: dict[str, str] = {}
    for name, value in row.items():
        if name.startswith("largest at "):
            cells[name.replace("largest", "gap")] += f" ({100 * value:.2f})"
        elif value is None:
            cells[name] = "-"
        elif isinstance(value, float):
            share = "gap" in name or name == "time_share"
            cells[name] = f"{100 * value:.2f} %" if share else show_number(value, 3)
        else:
            cells[name] = f"{value:,}" if isinstance(value, int) else str(value)
    return {name.replace("_", " "): cell for name, cell in cells.items()}
