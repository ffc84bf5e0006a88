"""``nearcast pipeline stream``: alerts, members and plan drift while a site logs, on Spark."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.console import json_option, print_json
from nearcast.cli.durations import DURATION
from nearcast.cli.kafka_options import kafka_settings, read_event_options, read_pair
from nearcast.cli.local_path import LocalPath
from nearcast.cli.options import out_option
from nearcast.cli.spark_options import SparkOptions, spark_options, spark_session
from nearcast.cli.stopping import Stop

if TYPE_CHECKING:
    from nearcast.pipeline.stream.stream_settings import StreamSettings

__all__ = ["stream"]

_LATE_FILES_S = 20.0
"""A server's log has rows in files that end every ten seconds."""


@click.command()
@click.option("--bootstrap", metavar="HOST:PORT", help="Kafka: the source; alerts go there too.")
@click.option("--prefix", default="nearcast", show_default=True, help="Of Kafka's topics.")
@click.option(
    "--kafka-option",
    "kafka_more",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting of librdkafka, which checks topics and writes alerts; may be repeated.",
)
@click.option(
    "--source-option",
    "source_more",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any option of Spark's Kafka source, such as kafka.security.protocol=SSL or "
    "failOnDataLoss=false; may be repeated.",
)
@click.option(
    "--log",
    type=LocalPath(),
    help="The source is this folder of an event log, or of a site on this machine.",
)
@click.option(
    "--events",
    "patterns",
    multiple=True,
    default=("#",),
    show_default=True,
    metavar="PATTERN",
    help="With --log: topics of events.",
)
@click.option(
    "--options",
    "text",
    metavar="JSON",
    help='Make alerts, by the processor events: {"field_km": [west, south, east, north], ...}.',
)
@click.option("--members", is_flag=True, help="Keep members, rates and positions as tables.")
@click.option(
    "--scenario", type=LocalPath(), help="With --plan: the scenario that it was made for."
)
@click.option("--plan", type=LocalPath(), help="Weigh this plan, in force, against a new one.")
@click.option(
    "--late",
    "late_s",
    type=DURATION,
    help="Hold events so long for those that come late.  [default: 20s with --log; with Kafka they "
    "count in its order]",
)
@click.option(
    "--window",
    "window_s",
    type=DURATION,
    default=60.0,
    show_default="60s",
    help="Time constant of rates; who published within it is active.",
)
@click.option(
    "--every",
    "every_s",
    type=DURATION,
    default=10.0,
    show_default="10s",
    help="Between two states of the tables; alerts are made as soon as possible.",
)
@click.option(
    "--weigh-every",
    "weigh_every_s",
    type=DURATION,
    default=60.0,
    show_default="60s",
    help="With --plan: between two looks at the plan.",
)
@click.option(
    "--least-saving",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.01,
    show_default=True,
    help="With --plan: part of the cost that a new plan must save.",
)
@click.option(
    "--migration-price",
    "migration_price_ms",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="With --plan: ms of summed delay that moving one spool must save.",
)
@click.option(
    "--most-rows",
    type=click.IntRange(min=1),
    default=50_000,
    show_default=True,
    help="Events that a batch reads from Kafka.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Tasks that topics are spread over; a stream keeps it.",
)
@click.option("--once", is_flag=True, help="End when all that is there now was read.")
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0), help="Stop then.  [default: at Ctrl-C]"
)
@out_option
@spark_options
@json_option
def stream(
    bootstrap: str | None,
    prefix: str,
    kafka_more: tuple[str, ...],
    source_more: tuple[str, ...],
    log: Path | None,
    patterns: tuple[str, ...],
    text: str | None,
    members: bool,
    scenario: Path | None,
    plan: Path | None,
    late_s: float | None,
    window_s: float,
    every_s: float,
    weigh_every_s: float,
    least_saving: float,
    migration_price_ms: float,
    most_rows: int,
    partitions: int,
    once: bool,
    seconds: float | None,
    out: Path,
    spark_with: SparkOptions,
    as_json: bool,
) -> None:
    """Follow what a site logs: alerts, members and plan drift while it happens.

    The source is Kafka (--bootstrap) or the files of the event log (--log). OUT has the tables and
    Spark's checkpoints: the same command goes on where it was, also after a kill, and nothing is
    lost or there twice. Alerts go to OUT/alerts and, with --bootstrap, to PREFIX.alerts, from where
    `nearcast kafka bridge` brings them to subscribers. A line on stderr tells of each batch.

    \b
      nearcast pipeline stream --log city/site/log --members --out streamed --once
    """
    from nearcast.pipeline.stream.run import check_stream, run_stream
    from nearcast.pipeline.stream.stream_settings import (
        AlertSettings,
        DriftSettings,
        StreamSettings,
        TrafficSettings,
    )

    if bootstrap is None and log is None:
        raise click.UsageError("give a source: --bootstrap HOST:PORT or --log FOLDER")
    if (plan is None) != (scenario is None):
        raise click.UsageError("--plan and --scenario go together")
    if text is None and not members and plan is None:
        raise click.UsageError("give --options for alerts, --members for tables, or --plan")
    kafka = None
    if bootstrap is not None:
        kafka = kafka_settings(bootstrap, prefix, (), kafka_more, "--bootstrap")
    if log is not None:
        nested = (log, log / "log", log / "site" / "log")
        log = next((one for one in nested if (one / "publications").is_dir()), log)
        kafka_settings("none:0", prefix, patterns, (), "--events")
    drift = None
    if plan is not None and scenario is not None:
        drift = DriftSettings(scenario, plan, weigh_every_s, least_saving, migration_price_ms)
    alerts = None
    if text is not None:
        if late_s is None:
            late_s = _LATE_FILES_S if log is not None else 0.0
        alerts = AlertSettings(read_event_options(text), late_s)
    traffic = None
    if members or drift is not None:
        traffic = TrafficSettings(window_s, every_s=every_s, drift=drift)
    settings = StreamSettings(
        out=out,
        kafka=kafka,
        log=log,
        events=patterns,
        alerts=alerts,
        traffic=traffic,
        once=once,
        most_rows=most_rows,
        partitions=partitions,
        source_options=dict(read_pair(one, "--source-option") for one in source_more),
    )
    check_stream(settings)
    with Stop(seconds) as stop, spark_session(_for_streams(spark_with, settings)) as session:
        counts = run_stream(session, settings, stop.is_due, lambda line: click.echo(line, err=True))
    if as_json:
        print_json({"out": str(out), **counts})
        return
    for name, found in counts.items():
        said = ", ".join(f"{key} {count:,}" for key, count in sorted(found.items()))
        click.echo(f"{name}: {said or 'nothing'}")


def _for_streams(options: SparkOptions, settings: StreamSettings) -> SparkOptions:
    """Give Spark its connector to Kafka, unless the user names another one, and quick workers."""
    from nearcast.pipeline.session import is_embedded

    ours = {}
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # to a master that is not known here
    if is_embedded(options.master or "local") and not is_submitted:
        ours["spark.python.daemon.module"] = "nearcast.pipeline.stream.stream_daemon"
    if settings.log is None and not {"spark.jars", "spark.jars.packages"} & options.conf.keys():
        from nearcast.links.maven_jars import CONNECTOR, find_jars

        ours["spark.jars"] = ",".join(map(str, find_jars(CONNECTOR)))
    # compiling takes a third of the JVM's time for minutes, and batches of a second gain nothing
    return replace(options, conf={**ours, **options.conf}, quick_compiler=True)
