"""``nearcast size``: the least storage and compute that reach a target delay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import (
    json_option,
    print_json,
    print_table,
    show_number,
    step_progress,
)
from nearcast.cli.options import model_option, seed_option
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.planning.sizing import Resource, Sizing

__all__ = ["size"]

_ROWS_SHOWN = 20


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--target-ms", type=float, required=True, help="Mean delay to reach, in ms.")
@model_option
@click.option(
    "--resource",
    type=click.Choice([resource.value for resource in Resource]),
    default="both",
    show_default=True,
    help="What may grow or shrink.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    help="Seconds of search per size tried (about 12 are).  [default: as the size needs]",
)
@seed_option
@json_option
def size(
    folder: Path,
    target_ms: float,
    model: str | None,
    resource: str,
    time_limit_s: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """Find the least storage and compute with which the scenario in FOLDER reaches a target.

    Answers with a factor on all servers, with the servers that really need more, and with what is
    proved: below which factor no plan can reach the target. Or "not reachable", with the limit that
    says so: no server, however large, brings the clients nearer to each other.
    """
    from nearcast.domain.scenario_files import read_scenario
    from nearcast.planning.request import PlanRequest
    from nearcast.planning.sizing import find_size

    scenario = read_scenario(folder)
    request = PlanRequest(model=Model(model or Model.RATIO), seed=seed, time_limit_s=time_limit_s)
    with step_progress(12, enabled=not as_json) as begin:
        answer = find_size(scenario, target_ms, request, Resource(resource), begin)
    if as_json:
        print_json(_as_json(scenario, answer))
        return
    if not answer.reachable or answer.factor is None:
        if answer.reached_ms is None:
            click.echo(
                f"not reachable: with unlimited servers at these places no plan goes below "
                f"{answer.limit_ms:.4f} ms (proved). More or better placed servers would help."
            )
        else:
            click.echo(
                f"not reached: the best plan found has {answer.reached_ms:.4f} ms, whatever the "
                f"size; the proved limit is {answer.limit_ms:.4f} ms."
            )
        return
    what = "storage and compute" if resource == Resource.BOTH else resource
    click.echo(
        f"{target_ms:g} ms is reached with {answer.factor:.3f} times the present {what} "
        f"(a plan with {answer.reached_ms:.4f} ms shows it); below "
        f"{answer.proved_insufficient:.3f} times it is proved impossible."
    )
    rows = _needs(scenario, answer)
    if not rows:
        click.echo("No server needs more than it has now.")
        return
    rows.sort(key=lambda row: -row["add_storage"] - row["add_compute"])
    print_table(
        ["server", "add storage", "add compute"],
        [
            [
                str(row["server_id"]),
                show_number(row["add_storage"], 0),
                show_number(row["add_compute"], 0),
            ]
            for row in rows[:_ROWS_SHOWN]
        ],
        title=f"where to add ({min(len(rows), _ROWS_SHOWN)} of {len(rows)} servers that need more)",
    )


def _needs(scenario: Scenario, answer: Sizing) -> list[dict[str, Any]]:
    if answer.add_storage is None or answer.add_compute is None:
        return []
    return [
        {
            "server_id": server_id,
            "add_storage": float(answer.add_storage[index]),
            "add_compute": float(answer.add_compute[index]),
        }
        for index, server_id in enumerate(scenario.servers.ids.to_pylist())
        if answer.add_storage[index] > 0 or answer.add_compute[index] > 0
    ]


def _as_json(scenario: Scenario, answer: Sizing) -> dict[str, Any]:
    return {
        "target_ms": answer.target_ms,
        "reachable": answer.reachable,
        "limit_ms": answer.limit_ms,
        "factor": answer.factor,
        "proved_insufficient_below": answer.proved_insufficient,
        "reached_ms": answer.reached_ms,
        "where_to_add": _needs(scenario, answer),
        "tried": [{"factor": factor, "reached_ms": reached} for factor, reached in answer.tried],
    }
