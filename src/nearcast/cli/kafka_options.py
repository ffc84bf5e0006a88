"""What verbs that reach Kafka share: where it is, what its topics are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from nearcast.links.kafka_settings import KafkaSettings

__all__ = [
    "kafka_options",
    "kafka_settings",
    "log_to_kafka_options",
    "read_event_options",
    "read_pair",
]

_option = click.option(
    "--kafka-option",
    "kafka_more",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting of librdkafka, such as security.protocol=SSL; may be repeated.",
)
_prefix = click.option(
    "--prefix", default="nearcast", show_default=True, help="What Kafka's topics begin with."
)


def kafka_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --bootstrap, --prefix and --kafka-option; the command gets `kafka`."""

    @click.option("--bootstrap", required=True, metavar="HOST:PORT", help="Where Kafka answers.")
    @_prefix
    @_option
    @wraps(command)
    def with_options(
        *arguments: Any, bootstrap: str, prefix: str, kafka_more: tuple[str, ...], **rest: Any
    ) -> Any:
        settings = kafka_settings(bootstrap, prefix, (), kafka_more, "--bootstrap")
        return command(*arguments, kafka=settings, **rest)

    return with_options


def log_to_kafka_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kafka and what goes with it; the command gets `kafka`, None without one."""

    @click.option(
        "--kafka",
        "bootstrap",
        metavar="HOST:PORT",
        help="Send the event log to the Apache Kafka there, besides the files.",
    )
    @click.option(
        "--kafka-events",
        "patterns",
        multiple=True,
        metavar="PATTERN",
        help="Publications to these topics are events: they get a topic of Kafka of their own.",
    )
    @click.option(
        "--kafka-prefix",
        "prefix",
        help="What Kafka's topics begin with.  [default: nearcast]",
    )
    @_option
    @wraps(command)
    def with_options(
        *arguments: Any,
        bootstrap: str | None,
        patterns: tuple[str, ...],
        prefix: str | None,
        kafka_more: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        settings = None
        if bootstrap is not None:
            prefix = "nearcast" if prefix is None else prefix
            settings = kafka_settings(bootstrap, prefix, patterns, kafka_more, "--kafka")
        elif patterns or kafka_more or prefix is not None:
            raise click.UsageError(
                "--kafka-events, --kafka-prefix and --kafka-option want --kafka HOST:PORT"
            )
        return command(*arguments, kafka=settings, **rest)

    return with_options


def kafka_settings(
    bootstrap: str, prefix: str, events: tuple[str, ...], more: tuple[str, ...], name: str
) -> KafkaSettings:
    """Return checked settings; click.BadParameter for what is wrong."""
    from nearcast.trust.topic_pattern import check_pattern

    for pattern in events:
        check_pattern(pattern)
    said = {
        "bootstrap": bootstrap,
        "prefix": prefix,
        "events": events,
        "options": dict(read_pair(text) for text in more),
    }
    try:
        return msgspec.convert(said, KafkaSettings)
    except msgspec.ValidationError:
        what = bootstrap if ":" not in bootstrap else f"{bootstrap}, {prefix}"
        raise click.BadParameter(
            f"{what!r}: HOST:PORT and a prefix of letters, digits and . _ - are wanted",
            param_hint=name,
        ) from None


def read_pair(text: str, option: str = "--kafka-option") -> tuple[str, str]:
    """Return KEY and VALUE; click.BadParameter for what is not both."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
    return key, value


def read_event_options(text: str) -> dict[str, Any]:
    """Return options of the processor `events`; click.BadParameter when they are not such."""
    try:
        options = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--options") from None
    if not isinstance(options, dict) or "field_km" not in options:
        raise click.BadParameter("an object with field_km is wanted", param_hint="--options")
    if unknown := sorted(set(options) - {"field_km", "kinds", "congestion"}):
        raise click.BadParameter(f"unknown key {unknown[0]!r}", param_hint="--options")
    return options
