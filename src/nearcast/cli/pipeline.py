"""``nearcast pipeline``: data work on Spark, from raw logs to plans."""

from __future__ import annotations

import click

from nearcast.cli.pipeline_bridge import bridge
from nearcast.cli.pipeline_replay import replay
from nearcast.cli.pipeline_run import run
from nearcast.cli.pipeline_stages import evaluate, plan, relations
from nearcast.cli.pipeline_stream import stream
from nearcast.cli.pipeline_sweep import sweep

__all__ = ["pipeline"]


@click.group()
def pipeline() -> None:
    """Run data work on Spark, embedded or on a cluster.

    \b
      run        raw logs -> members -> relations -> regions -> plan -> evaluation
      relations  the most related clients of each client of a scenario
      plan       plan a scenario region by region in parallel
      evaluate   delays of a plan over all pairs: by topic, by server, percentiles
      stream     alerts, members and plan drift while a site logs
      bridge     alerts of a stream to the site's subscribers, without Kafka
      replay     a live processor over the historical log
      sweep      methods x parameters x seeds as one resumable job

    Every stage leaves Parquet tables and a line in manifest.jsonl. The same commands run on a
    cluster with --master spark://HOST:PORT; folders must then be visible to all its machines.
    """


for verb in (run, stream, bridge, replay, relations, plan, evaluate, sweep):
    pipeline.add_command(verb)
