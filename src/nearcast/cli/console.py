"""How verbs speak: tables and JSON on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nearcast.planning.request import Progress

__all__ = [
    "json_option",
    "planning_progress",
    "print_json",
    "print_table",
    "print_warnings",
    "show_number",
    "show_percent",
    "step_progress",
]

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print exactly one JSON object on stdout."
)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON does not know become null."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None
) -> None:
    """Print a table; every column after the first is right-aligned."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=not position)
    for row in rows:
        table.add_row(*row)
    # Piped output keeps all columns; a terminal decides itself.
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def print_warnings(warnings: Sequence[str]) -> None:
    """Print warnings on stderr."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def show_number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table, '-' where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:,.{digits}f}" if abs(value) < 10_000 else f"{value:,.0f}"


def show_percent(value: float | None, digits: int = 2) -> str:
    """Return a fraction as percent for a table."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


@contextmanager
def planning_progress(enabled: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show a live line with cost and gap while a planner works; nothing off a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[value]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}
        known: dict[str, float] = {}

        def show(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=1.0, value="")
            if progress.cost is not None:
                known["cost"] = progress.cost
            if progress.bound is not None:
                known["bound"] = progress.bound
            text = "  ".join(f"{name} {value:.4f}" for name, value in known.items())
            if known.get("bound") and "cost" in known:
                text += f"  gap {100 * (known['cost'] / known['bound'] - 1):.2f} %"
            bars.update(tasks[progress.stage], completed=progress.fraction, value=text)

        yield show


@contextmanager
def step_progress(total: int, enabled: bool = True) -> Iterator[Callable[[str], None]]:
    """Show a bar over `total` named steps; call the yielded function at the start of each."""
    if not enabled or not sys.stderr.isatty():
        yield lambda _name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)
        begun = False

        def begin(name: str) -> None:
            nonlocal begun
            bars.update(task, description=name, advance=1 if begun else 0)
            begun = True

        yield begin
