"""``nearcast bench sessions``: an edge server at rest, without sessions and with many."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.bench_output import finish_points, out_option, prepare
from nearcast.cli.console import json_option, step_progress

__all__ = ["sessions"]


@click.command()
@click.option("--sessions", "count", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="With all sessions; clients report every 10 s, and as many ask which servers were revoked.",
)
@out_option
@json_option
def sessions(count: int, seconds: float, out: Path | None, as_json: bool) -> None:
    """Measure memory and CPU time of an idle edge server, and what idle sessions add."""
    from nearcast.experiments.latency import idle_sessions
    from nearcast.experiments.latency.verdicts import Verdict

    prepare(out)
    with step_progress(3, enabled=not as_json) as begin:
        point = idle_sessions.run(count, seconds=seconds, begin=begin)
    finish_points("sessions", [point], out, as_json)
    if as_json:
        return
    found = [
        Verdict("idle edge server with its helpers, MB", point.idle_mb, idle_sessions.GOAL_IDLE_MB)
    ]
    if count == 10_000:
        share = idle_sessions.GOAL_CPU_PERCENT
        found += [
            Verdict(f"{count:,} idle sessions, % of a core", point.cpu_percent, share),
            Verdict(f"{count:,} idle sessions, MB", point.mb_more, idle_sessions.GOAL_MB_MORE),
        ]
    for verdict in found:
        click.echo(str(verdict))
