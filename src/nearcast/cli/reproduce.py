"""``nearcast reproduce``: the published figures, made anew and compared with the papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json, step_progress
from nearcast.cli.spark_options import SparkOptions, spark_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nearcast.experiments.figures.figure import Effort, PaperFigure, SweepRows, Verdict
    from nearcast.experiments.figures.reproduction import Reproduction

__all__ = ["reproduce"]

_LIVE_TRIALS = 3
"""They take as long as they take: the paper's ten, of three sizes, would be a quarter of an hour."""


@click.command()
@click.argument("figure", required=False)
@click.option("--list", "only_list", is_flag=True, help="Show the figures and end.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for pictures, tables and the page; an earlier result in it is continued.",
)
@click.option("--small", is_flag=True, help="Few seeds and points: all figures in two minutes.")
@click.option("--seeds", type=click.IntRange(min=1), help="Seeds a point instead of the default.")
@click.option(
    "--real",
    is_flag=True,
    help="The figures of LASR with real processes too: a site of servers on this machine.",
)
@click.option(
    "--follows",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Take the topics of 2020 and 2021 from this list of follower and followee.",
)
@spark_options
@json_option
def reproduce(
    figure: str | None,
    only_list: bool,
    out: Path | None,
    small: bool,
    seeds: int | None,
    real: bool,
    follows: Path | None,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Reproduce FIGURE (such as 2021-14), a paper's figures (2021, lasr), or all.

    Each figure gives a picture, the numbers behind it as CSV, and a verdict on every finding that
    the paper states. The sweeps behind them run on Spark; what an earlier run in the same folder
    has computed is not computed again. Figures without a sweep (lasr-fig6) need no --out: then
    only the verdicts are shown.
    """
    from dataclasses import replace

    from nearcast.experiments.figures.catalogue import FIGURES, find_figures
    from nearcast.experiments.figures.figure import FULL, SMALL

    if only_list:
        _list(list(FIGURES.values()), as_json)
        return
    if figure is None:
        raise click.UsageError("name a FIGURE (or all) and --out DIR; --list shows the figures")
    figures = find_figures(figure)
    effort = SMALL if small else FULL
    if seeds is not None:
        effort = effort.with_seeds(seeds)
    if real:
        effort = replace(effort, trials_live=seeds or (1 if small else _LIVE_TRIALS))
    if follows is not None:
        effort = replace(effort, follows=str(follows.resolve()))
    if out is None:
        _show(_results(figures, effort, as_json), None, as_json)
        return
    options = _options(small, seeds, real, follows)
    made, page = _make(figures, effort, out, spark_with, options, as_json)
    _show(made, page, as_json)


def _list(figures: Sequence[PaperFigure], as_json: bool) -> None:
    if as_json:
        print_json({"figures": [{"figure": one.name, "title": one.title} for one in figures]})
        return
    for one in figures:
        click.echo(f"{one.name:<8}  {one.title}")


def _options(small: bool, seeds: int | None, real: bool, follows: Path | None) -> str:
    """Return the options that change the numbers, as they were typed."""
    return (
        (" --small" if small else "")
        + (f" --seeds {seeds}" if seeds is not None else "")
        + (" --real" if real else "")
        + (f" --follows {follows.name}" if follows is not None else "")
    )


def _results(figures: Sequence[PaperFigure], effort: Effort, as_json: bool) -> list[Reproduction]:
    """Return figures of which no file is wanted."""
    from nearcast.experiments.figures.reproduction import Reproduction, cells_of

    if cells_of(figures, effort):
        raise click.UsageError("the sweep behind this figure needs --out DIR")
    made = []
    with step_progress(len(figures), enabled=not as_json) as begin:
        for one in figures:
            begin(one.name)
            made.append(Reproduction(one, one.result(effort, {})))
    return made


def _make(
    figures: Sequence[PaperFigure],
    effort: Effort,
    out: Path,
    spark_with: SparkOptions,
    options: str,
    as_json: bool,
) -> tuple[list[Reproduction], Path]:
    from nearcast.experiments.figures.page import write_page
    from nearcast.experiments.figures.reproduction import (
        draw_figures,
        prepare_folder,
        write_mark,
    )

    prepare_folder(out)
    rows = _sweep(figures, effort, out, spark_with, as_json)
    with step_progress(len(figures), enabled=not as_json) as begin:
        made = list(draw_figures(figures, effort, rows, out, begin))
    page = out / "index.html"
    data = (
        "Scenarios come from the generators: the papers' data are public (KDD Cup 2012, track 1), "
        "but which lines they took is not known."
    )
    if effort.follows is not None:
        data = f"Topics of 2020 and 2021 come from {Path(effort.follows).name}."
    write_page(page, made, data=data, options=options)
    write_mark(out, {"options": options.strip(), "figures": [one.to_json() for one in made]})
    return made, page


def _sweep(
    figures: Sequence[PaperFigure],
    effort: Effort,
    out: Path,
    spark_with: SparkOptions,
    as_json: bool,
) -> SweepRows:
    """Return the rows of all cells; Spark only starts when there are any."""
    from nearcast.experiments.figures.reproduction import cells_of, read_rows

    cells = cells_of(figures, effort)
    if not cells:
        return {}
    from nearcast.cli.spark_options import cell_progress, spark_session
    from nearcast.errors import PipelineError
    from nearcast.pipeline.sweep.run import run_sweep

    with spark_session(spark_with) as session, cell_progress() as show:
        result = run_sweep(session, cells, out / "sweep", show)
    if result.failures:
        first = result.failures[0]
        raise PipelineError(
            f"{len(result.failures)} of {len(cells)} plans failed, the first with: {first.error}; "
            "the others are kept, run again to try these again"
        )
    return read_rows(result.results, cells)


def _show(made: Sequence[Reproduction], page: Path | None, as_json: bool) -> None:
    from nearcast.experiments.figures.figure import FindingKind, tally

    kinds = tally([verdict for one in made for verdict in one.result.verdicts])
    agree, tests = kinds[FindingKind.TEST]
    if as_json:
        print_json(
            {
                "page": page and str(page),
                "agree": agree,
                "disagree": tests - agree,
                "kinds": {
                    kind.value: {"agree": some, "disagree": total - some}
                    for kind, (some, total) in kinds.items()
                },
                "figures": [one.to_json() for one in made],
            }
        )
        return
    for one in made:
        click.secho(f"{one.figure.name}: {one.figure.title}", bold=True)
        for verdict in one.result.verdicts:
            _show_verdict(verdict)
    where = f"; the page: {page}" if page is not None else ""
    others = ", ".join(
        f"{total} {kind.value}"
        for kind, (_, total) in kinds.items()
        if kind is not FindingKind.TEST
    )
    click.echo(f"{agree} of {tests} findings that could fail agree (not counted: {others}){where}")


def _show_verdict(verdict: Verdict) -> None:
    answer, colour = ("agrees", "green") if verdict.agrees else ("does not agree", "red")
    kind = "" if verdict.kind == "test" else f" [{verdict.kind}]"
    click.echo(f"  {click.style(f'{answer:>14}', fg=colour)}  {verdict.finding}{kind}")
    click.echo(f"{'here':>16}  {verdict.ours}")
    if verdict.why:
        click.echo(f"{'why':>16}  {verdict.why}")
    for other in verdict.elsewhere:
        click.echo(f"{'elsewhere':>16}  {other}")
