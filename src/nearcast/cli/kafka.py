"""``nearcast kafka``: a site's topics in Apache Kafka, event brokers there, alerts to the site."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.alert_options import alert_options
from nearcast.cli.console import json_option, print_json
from nearcast.cli.kafka_options import kafka_options, read_event_options
from nearcast.cli.stopping import Stop
from nearcast.links.kafka_settings import KafkaSettings

__all__ = ["kafka"]

_seconds = click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0),
    help="Stop after this many seconds.  [default: at Ctrl-C]",
)


@click.group()
def kafka() -> None:
    """Join a site to Apache Kafka.

    \b
      topics  make the topics that servers write to
      events  an event broker of a consumer group: events in, alerts out
      bridge  alerts of Kafka to the site's subscribers
    """


@kafka.command()
@kafka_options
@click.option("--partitions", type=click.IntRange(min=1), default=4, show_default=True)
@click.option(
    "--copies", type=click.IntRange(min=1), default=1, show_default=True, help="Replication factor."
)
@click.option("--keep-hours", type=click.FloatRange(min=0, min_open=True), help="Retention.")
@json_option
def topics(
    kafka: KafkaSettings, partitions: int, copies: int, keep_hours: float | None, as_json: bool
) -> None:
    """Make the topics of a site that are not there yet.

    \b
      nearcast kafka topics --bootstrap 127.0.0.1:9092
    """
    from nearcast.links.kafka_client import create_topics

    made = create_topics(kafka, partitions, copies, keep_hours)
    if as_json:
        print_json({"made": made})
    else:
        click.echo("\n".join(made) or "all topics are there")


@kafka.command()
@kafka_options
@click.option("--group", default="nearcast-events", show_default=True, help="Consumer group.")
@click.option(
    "--options",
    "text",
    required=True,
    metavar="JSON",
    help='Of the processor events: {"field_km": [west, south, east, north], "kinds": {...}}.',
)
@_seconds
@json_option
def events(
    kafka: KafkaSettings, group: str, text: str, seconds: float | None, as_json: bool
) -> None:
    """Turn the events in Kafka into alerts, by the bins and predicates of the live event broker.

    Start several: the members of a group share the topics. Alerts go to PREFIX.alerts.

    \b
      nearcast kafka events --bootstrap 127.0.0.1:9092 --options '{"field_km": [0, 0, 20, 20]}' --for 2
    """
    from nearcast.site.kafka_events import EventService

    service = EventService(kafka, read_event_options(text), group=group)
    with Stop(seconds) as stop:
        service.run(stop.is_due)
    _tell(vars(service.counts), as_json)


@kafka.command()
@kafka_options
@alert_options
@click.option("--group", default="nearcast-bridge", show_default=True, help="Consumer group.")
@_seconds
@json_option
def bridge(
    kafka: KafkaSettings,
    credentials: Path,
    before: str,
    group: str,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Tell the site's subscribers the alerts in Kafka; what was missed is told after a return.

    \b
      nearcast kafka bridge --bootstrap 127.0.0.1:9092 --credentials service.json --for 2
    """
    from nearcast.site.kafka_bridge import AlertBridge

    bridge = AlertBridge(kafka, credentials, before=before, group=group)
    with Stop(seconds) as stop:
        bridge.run(stop.is_due)
    _tell(vars(bridge.counts), as_json)


def _tell(counts: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json(counts)
    else:
        click.echo(", ".join(f"{name} {count}" for name, count in counts.items()))
