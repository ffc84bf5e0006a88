"""``nearcast plan``: decide homes and brokers, and say how far from optimal that is."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.console import (
    json_option,
    planning_progress,
    print_json,
    print_table,
    print_warnings,
    show_number,
    show_percent,
)
from nearcast.cli.options import (
    bound_limit_option,
    format_option,
    iterations_option,
    model_option,
    objective_option,
    out_option,
    overwrite_option,
    regions_option,
    seed_option,
    time_limit_option,
)
from nearcast.domain.plan import Model, Objective, PlanReport
from nearcast.domain.tables import TableFormat

__all__ = ["plan"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@model_option
@click.option(
    "--method",
    default="optimised",
    show_default=True,
    help="random, nearest, region, relation, reloc, reloc-together, otos, otos-centre, exact, "
    "optimised, or a planner of your own (entry point group nearcast.planners).",
)
@objective_option
@regions_option
@seed_option
@time_limit_option
@iterations_option
@bound_limit_option
@click.option(
    "--from",
    "start",
    type=click.Path(path_type=Path),
    help="A plan in force to start from: re-plans after clients moved, joined or left.",
)
@click.option(
    "--migration-price",
    "migration_price_ms",
    type=float,
    default=0.0,
    show_default=True,
    help="With --from: ms of summed delay that moving one spool must save.",
)
@click.option(
    "--flows",
    "flows_file",
    type=click.Path(path_type=Path),
    help="What `nearcast flow show --json` says of the site: what components of flows use of "
    "servers is not free for topics.",
)
@click.option(
    "--pictures", is_flag=True, help="Also draw map, servers and delays into OUT-pictures."
)
@out_option
@format_option
@overwrite_option
@json_option
def plan(
    folder: Path,
    model: str | None,
    method: str,
    objective: str | None,
    regions: int | None,
    seed: int,
    time_limit_s: float | None,
    iterations: int | None,
    bound_limit_s: float | None,
    start: Path | None,
    migration_price_ms: float,
    flows_file: Path | None,
    pictures: bool,
    out: Path,
    table_format: TableFormat,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Plan the scenario in FOLDER and write the plan to --out.

    The plan says who is whose home, where each publisher sends, and which servers run which
    broker; plan.json adds the cost, a proven lower bound, the gap between them, and the limits no
    plan can beat.

    \b
      nearcast plan city --out p                              # optimised, ratio model
      nearcast plan city --method reloc --regions auto --out p2
      nearcast plan tiny --model placement --objective d3 --method exact --out p3
      nearcast plan city-today --from p --migration-price 5 --out p4
      nearcast plan city --flows flows.json --out p5
    """
    from nearcast.domain.output_folder import check_output_folder
    from nearcast.domain.plan_files import report_to_json, write_plan
    from nearcast.domain.plan_in_force import read_plan_in_force
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.planning.flow_use import read_shown_flows, without_flow_use
    from nearcast.planning.registry import find_method
    from nearcast.planning.request import PlanRequest
    from nearcast.planning.solve import make_plan

    chosen = Model(model or Model.RATIO)
    find_method(method, chosen)
    check_output_folder(out, overwrite)
    scenario = planned_for = read_scenario(folder)
    if flows_file is not None:
        planned_for = without_flow_use(scenario, read_shown_flows(flows_file))
    with planning_progress(not as_json) as show:
        request = PlanRequest(
            model=chosen,
            method=method,
            objective=Objective(objective or Objective.D1),
            regions=regions,
            seed=seed,
            time_limit_s=time_limit_s,
            iterations=iterations,
            bound_limit_s=bound_limit_s,
            start=None if start is None else read_plan_in_force(start, planned_for),
            migration_price_ms=migration_price_ms,
            on_progress=show,
        )
        outcome = make_plan(planned_for, request)
    write_plan(
        outcome.plan, outcome.report, scenario, out, table_format=table_format, overwrite=overwrite
    )
    print_warnings(outcome.report.warnings)
    if pictures:
        from nearcast.pictures.plan_pictures import draw_plan
        from nearcast.pictures.report_folder import prepare_report_folder

        drawn = out.with_name(out.name + "-pictures")
        prepare_report_folder(drawn)
        draw_plan(scenario, outcome, drawn)
    if as_json:
        print_json(report_to_json(outcome.report))
    else:
        _print_report(outcome.report, out)


def _print_report(report: PlanReport, out: Path) -> None:
    rows = [
        ["status", report.status.value],
        ["cost, ms", show_number(report.cost)],
        ["proven bound, ms", show_number(report.bound)],
        ["gap: at most this far from the best plan", show_percent(report.gap)],
        *([name, show_number(value)] for name, value in report.metrics.items()),
        *([f"limit {name}", show_number(value)] for name, value in report.limits.items()),
        ["seconds", show_number(report.seconds, 2)],
        *(
            [name.replace("_", " "), f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"]
            for name, value in report.search.items()
            if isinstance(value, (int, float))
        ),
    ]
    print_table(
        ["plan", "value"], rows, title=f"{report.method} under the {report.model} model -> {out}"
    )
