"""What verbs that reach Kafka share: where it is, what its topics are called."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from nearcast.links.kafka_settings import KafkaSettings

__all__ = ["kafka_options", "kafka_settings", "log_to_kafka_options"]

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
    """Add --kafka, --kafka-events and --kafka-option; the command gets `kafka`, None without one."""

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
    @_option
    @wraps(command)
    def with_options(
        *arguments: Any,
        bootstrap: str | None,
        patterns: tuple[str, ...],
        kafka_more: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        settings = None
        if bootstrap is not None:
            settings = kafka_settings(bootstrap, "nearcast", patterns, kafka_more, "--kafka")
        elif patterns or kafka_more:
            raise click.UsageError("--kafka-events and --kafka-option want --kafka HOST:PORT")
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
        "options": dict(_pair(text) for text in more),
    }
    try:
        return msgspec.convert(said, KafkaSettings)
    except msgspec.ValidationError:
        what = bootstrap if ":" not in bootstrap else f"{bootstrap}, {prefix}"
        raise click.BadParameter(
            f"{what!r}: HOST:PORT and a prefix of letters, digits and . _ - are wanted",
            param_hint=name,
        ) from None


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--kafka-option")
    return key, value
