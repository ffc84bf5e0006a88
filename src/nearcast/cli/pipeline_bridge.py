"""``nearcast pipeline bridge``: alerts of a stream's table to the site's subscribers."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.alert_options import alert_options
from nearcast.cli.console import json_option, print_json
from nearcast.cli.local_path import LocalPath
from nearcast.cli.stopping import Stop

__all__ = ["bridge"]


@click.command()
@click.argument("out", type=LocalPath())
@alert_options
@click.option("--once", is_flag=True, help="End when all that is there now was told.")
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0), help="Stop then.  [default: at Ctrl-C]"
)
@json_option
def bridge(
    out: Path, credentials: Path, before: str, once: bool, seconds: float | None, as_json: bool
) -> None:
    """Tell the site's subscribers the alerts of `pipeline stream --out OUT`, without Kafka.

    It may run beside the stream or later, and goes on where it was.

    \b
      nearcast pipeline bridge alerted --credentials service.json --once
    """
    from nearcast.site.alert_table_bridge import AlertTableBridge

    found = AlertTableBridge(out, credentials, before=before)
    with Stop(seconds) as stop:
        found.run(stop.is_due, once)
    if as_json:
        print_json(vars(found.counts))
    else:
        click.echo(", ".join(f"{name} {count}" for name, count in vars(found.counts).items()))
