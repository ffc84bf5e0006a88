"""``nearcast evaluate``: recompute the cost of any plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import (
    json_option,
    print_json,
    print_table,
    print_warnings,
    show_number,
    show_percent,
)
from nearcast.cli.options import model_option, objective_option
from nearcast.domain.plan import Model, Objective
from nearcast.domain.scenario import Scenario
from nearcast.planning.assessment import Assessment

__all__ = ["evaluate", "server_rows"]

_ROWS_SHOWN = 20


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("plan_folder", metavar="PLAN", type=click.Path(path_type=Path))
@model_option
@objective_option
@json_option
def evaluate(
    folder: Path, plan_folder: Path, model: str | None, objective: str | None, as_json: bool
) -> None:
    """Recompute the cost of PLAN on the scenario in FOLDER.

    PLAN may come from nearcast, another program or a text editor: the table homes is enough.
    Without publish, publishers send to their home; without brokers, a broker runs wherever somebody
    publishes. Model and objective default to what plan.json says, else ratio and d1.
    """
    from nearcast.domain.fingerprint import scenario_fingerprint
    from nearcast.domain.plan_files import read_plan
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.planning.assessment import assess, limits_of

    scenario = read_scenario(folder)
    plan, said = read_plan(plan_folder, scenario)
    chosen = Model(model or said.get("model") or Model.RATIO)
    aim = Objective(objective or said.get("objective") or Objective.D1)
    made_for = said.get("scenario_fingerprint")
    if made_for is not None and made_for != scenario_fingerprint(scenario):
        print_warnings([f"{plan_folder} was made for another scenario, or this one has changed"])
    value = assess(scenario, plan, chosen, aim)
    limits = limits_of(scenario, chosen)
    print_warnings(value.warnings)
    servers = server_rows(scenario, value)
    if as_json:
        print_json(
            {
                "model": chosen.value,
                "objective": aim.value if chosen is Model.PLACEMENT else None,
                "cost": value.cost,
                "metrics": value.metrics,
                "limits": limits,
                "servers": servers,
                "warnings": value.warnings,
            }
        )
        return
    rows = [["cost, ms", show_number(value.cost)]]
    rows += [[name, show_number(number)] for name, number in value.metrics.items()]
    rows += [[f"limit {name}", show_number(number)] for name, number in limits.items()]
    print_table(["plan", "value"], rows, title=f"{plan_folder} under the {chosen} model")
    busiest = sorted(servers, key=lambda row: (row["local_share"], -row["storage_used"]))
    print_table(
        ["server", "clients", "storage used", "of", "compute used", "of", "local share"],
        [
            [
                str(row["server_id"]),
                f"{row['clients']:,.0f}",
                show_number(row["storage_used"], 0),
                show_number(row["storage"], 0),
                show_number(row["compute_used"], 0),
                show_number(row["compute"], 0),
                show_percent(row["local_share"], 1),
            ]
            for row in busiest[:_ROWS_SHOWN]
        ],
        title=f"servers, most loaded first ({min(_ROWS_SHOWN, len(servers))} of {len(servers)})",
    )


def server_rows(scenario: Scenario, value: Assessment) -> list[dict[str, Any]]:
    """Return one row a server: what it has and what the plan uses of it."""
    servers = scenario.servers
    return [
        {
            "server_id": server_id,
            "storage": float(servers.storage[index]),
            "storage_used": float(value.storage_used[index]),
            "compute": float(servers.compute[index]),
            "compute_used": float(value.compute_used[index]),
            "local_share": float(value.local_share[index]),
            "clients": float(value.clients[index]),
        }
        for index, server_id in enumerate(servers.ids.to_pylist())
    ]
