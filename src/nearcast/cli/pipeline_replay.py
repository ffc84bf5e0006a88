"""``nearcast pipeline replay``: a live processor over the historical log, on Spark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from nearcast.cli.console import json_option, print_json, print_table
from nearcast.cli.local_path import LocalPath
from nearcast.cli.options import out_option
from nearcast.cli.processor_options import read_options
from nearcast.cli.spark_options import SparkOptions, spark_options, spark_session

__all__ = ["replay"]


@click.command()
@click.option("--processor", required=True, help="A name, or module:Class, as of `nearcast up`.")
@click.option(
    "--processor-options", default="{}", show_default=True, help="What it is made with, as JSON."
)
@click.option(
    "--log",
    type=LocalPath(),
    required=True,
    help="Folder of an event log, or of a site on this machine.",
)
@click.option(
    "--spool",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Messages that a topic's spool keeps.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Seconds for one message; then it counts as hung.",
)
@out_option
@spark_options
@json_option
def replay(
    processor: str,
    processor_options: str,
    log: Path,
    spool: int,
    timeout_s: float,
    out: Path,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Run a live processor over the event log and keep the notifications that it would have made.

    Each topic is replayed in order, one publication after the other, as its server did. A message
    at which the processor raises or hangs is counted, kept in OUT/failures, and has no other
    effect. OUT/notifications is a Parquet table: topic, publisher, epoch, durable, sequence, part,
    time, payload, audience.

    \b
      nearcast pipeline replay --processor forward --log city/site/log --out replayed
    """
    import json

    from nearcast.broker.registry import make_processor
    from nearcast.domain.output_folder import check_output_folder
    from nearcast.pipeline.replay import ReplaySettings, replay_log

    options = read_options(processor_options)
    make_processor(processor, options)
    check_output_folder(out, False)
    nested = [
        one for one in (log, log / "log", log / "site" / "log") if (one / "publications").is_dir()
    ]
    settings = ReplaySettings(processor, json.dumps(options), spool, timeout_s)
    with spark_session(spark_with) as session:
        result = replay_log(session, nested[0] if nested else log, out, settings)
    if as_json:
        print_json(asdict(result))
        return
    rows = [
        [name.replace("_", " "), f"{value:,}"]
        for name, value in asdict(result).items()
        if name != "path"
    ]
    print_table(["replayed", "count"], rows, title=f"{processor} -> {result.path}")
