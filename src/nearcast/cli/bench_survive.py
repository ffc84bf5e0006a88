"""``nearcast bench survive``: faults, attacks and bad input against everything that is promised."""

from __future__ import annotations

import click

from nearcast.cli.bench_output import print_rows
from nearcast.cli.console import json_option, print_json, step_progress

__all__ = ["survive"]

_SHOWN_VIOLATIONS = 20


@click.command()
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="About how long; below 5 all parts are smaller, above it simulated schedules go on.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@json_option
def survive(minutes: float, seed: int, as_json: bool) -> None:
    """Break a site in every known way and check that it keeps its promises.

    Real processes are killed, paused, cut off and switched to other plans under load; a live
    server is flooded; a simulated site is attacked, given bad input, and run through schedules
    of faults; seeded bugs show that all this would be noticed. Exits with 1 when a promise was
    not kept; the seeds in the list replay what happened.
    """
    from nearcast.experiments.survive import run as survive_run

    with step_progress(len(survive_run.PARTS), enabled=not as_json) as begin:
        result = survive_run.run(minutes, seed, begin)
    if as_json:
        print_json(result.to_json())
    else:
        rows = [{"what": name, "count": count} for name, count in sorted(result.counts.items())]
        print_rows(rows)
        print_rows([{"measured": name, "value": value} for name, value in result.measured.items()])
        for violation in result.violations[:_SHOWN_VIOLATIONS]:
            click.echo(f"not kept: {violation}")
        hidden = len(result.violations) - _SHOWN_VIOLATIONS
        if hidden > 0:
            click.echo(f"and {hidden} more: --json shows all")
        click.echo(f"seed {seed}: {len(result.violations)} violations")
    if result.violations:
        raise click.exceptions.Exit(1)
