"""``nearcast demo``: the main job from start to end, on a generated city."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.compare import print_comparison
from nearcast.cli.console import json_option, print_json, step_progress
from nearcast.cli.options import seed_option

__all__ = ["demo"]


@click.command()
@click.option("--clients", type=int, default=1500, show_default=True, help="Number of clients.")
@click.option("--servers", type=int, default=25, show_default=True, help="Number of edge servers.")
@click.option("--topics", type=int, default=150, show_default=True, help="Number of topics.")
@click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds for each method that searches.",
)
@seed_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the city, its best plan, and the report.",
)
@json_option
def demo(
    clients: int,
    servers: int,
    topics: int,
    time_limit_s: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Generate a city, plan it by every method, show the comparison and write a report."""
    from nearcast.domain.generators.city import City, generate_city
    from nearcast.domain.plan import Model
    from nearcast.domain.plan_files import write_plan
    from nearcast.domain.scenario_files import write_scenario
    from nearcast.pictures.comparison_report import write_comparison_report
    from nearcast.pictures.report_folder import prepare_report_folder
    from nearcast.planning.comparison import compare_methods, comparison_json, methods_for
    from nearcast.planning.request import PlanRequest

    prepare_report_folder(out)
    city = generate_city(City(clients=clients, servers=servers, topics=topics), seed)
    write_scenario(city, out / "city", overwrite=True)
    names = methods_for(Model.RATIO)
    request = PlanRequest(model=Model.RATIO, seed=seed, time_limit_s=time_limit_s)
    with step_progress(len(names), enabled=not as_json) as begin:
        comparison = compare_methods(city, request, names, begin)
    best = comparison.outcomes[0]
    write_plan(best.plan, best.report, city, out / "plan", overwrite=True)
    page = write_comparison_report(city, comparison, out)
    if as_json:
        print_json({"report": str(page), **comparison_json(comparison)})
        return
    print_comparison(comparison)
    click.echo(f"the city: {out / 'city'}, its best plan: {out / 'plan'}, the report: {page}")
    click.echo(f"next: nearcast evaluate {out / 'city'} {out / 'plan'}")
