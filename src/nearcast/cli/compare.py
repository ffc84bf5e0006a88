"""``nearcast compare``: all methods side by side, in a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import (
    json_option,
    print_json,
    print_table,
    print_warnings,
    show_number,
    show_percent,
    step_progress,
)
from nearcast.cli.options import model_option, objective_option, regions_option, seed_option
from nearcast.domain.plan import Model, Objective

if TYPE_CHECKING:
    from nearcast.planning.comparison import Comparison

__all__ = ["compare", "print_comparison"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@model_option
@objective_option
@regions_option
@seed_option
@click.option("--methods", help="Comma-separated; default: all that fit the model, yours included.")
@click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds for each method that searches (optimised, exact).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the pictures and the report page.  [default: FOLDER-comparison]",
)
@click.option("--no-pictures", is_flag=True, help="Only the table.")
@json_option
def compare(
    folder: Path,
    model: str | None,
    objective: str | None,
    regions: int | None,
    seed: int,
    methods: str | None,
    time_limit_s: float,
    out: Path | None,
    no_pictures: bool,
    as_json: bool,
) -> None:
    """Plan the scenario in FOLDER by all methods and show them side by side.

    The table gives each method's cost, how far it can be from the best plan (gap to the proven
    bound), overloaded servers and seconds; the report page adds pictures.
    """
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.planning.comparison import compare_methods, comparison_json, methods_for
    from nearcast.planning.request import PlanRequest

    chosen = Model(model or Model.RATIO)
    names = methods_for(chosen, methods.split(",") if methods else None)
    target = out or folder.with_name(folder.name + "-comparison")
    if not no_pictures:
        from nearcast.pictures.report_folder import prepare_report_folder

        prepare_report_folder(target)
    scenario = read_scenario(folder)
    request = PlanRequest(
        model=chosen,
        objective=Objective(objective or Objective.D1),
        regions=regions,
        seed=seed,
        time_limit_s=time_limit_s,
    )
    with step_progress(len(names), enabled=not as_json) as begin:
        comparison = compare_methods(scenario, request, names, begin)
    if not no_pictures:
        from nearcast.pictures.comparison_report import write_comparison_report

        page = write_comparison_report(scenario, comparison, target)
    print_warnings(comparison.failures)
    if as_json:
        print_json(comparison_json(comparison))
        return
    print_comparison(comparison)
    if not no_pictures:
        click.echo(f"pictures and report: {page}")


def print_comparison(comparison: Comparison) -> None:
    """Print the table of a comparison, best method first."""
    rows = []
    for outcome in comparison.outcomes:
        report = outcome.report
        parts = [
            f"{name} {show_number(v)}" for name, v in report.metrics.items() if name[0] in "YD"
        ]
        rows.append(
            [
                report.method,
                show_number(report.cost),
                show_percent(report.gap),
                "  ".join(parts[1:3] if report.metrics.get("Y") is not None else parts),
                str(int((outcome.assessment.local_share < 1 - 1e-9).sum())),
                show_number(report.seconds, 2),
            ]
        )
    print_table(
        ["method", "cost, ms", "gap to bound", "of which", "overloaded servers", "seconds"],
        rows,
        title=f"{comparison.scenario_name}, {comparison.model} model",
    )
    limits = ", ".join(
        f"{name.removesuffix('_ms').replace('_', ' ')} limit {value:.4f}"
        for name, value in comparison.limits.items()
        if value is not None
    )
    click.echo(f"proven bound {comparison.bound:.4f} ms: no plan can be faster. {limits}")
