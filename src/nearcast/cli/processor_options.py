"""How processors are named on the command line: ``PATTERN=NAME``, with options as JSON behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from nearcast.errors import ConfigError

if TYPE_CHECKING:
    from nearcast.server.processor_rules import Acknowledge, ProcessorRule

__all__ = [
    "notify_after_sync_option",
    "processor_for_option",
    "processor_option",
    "processor_options_option",
    "read_rules",
    "rules_for_site",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

processor_option: Decorator = click.option(
    "--processor",
    default="forward",
    show_default=True,
    help="What brokers do: forward, echo, proximity, speeding, threshold, one of your own (entry "
    "point group nearcast.processors), or module:Class.",
)
processor_options_option: Decorator = click.option(
    "--processor-options",
    default="{}",
    metavar="JSON",
    help="A JSON object that the processor is made with.",
)
processor_for_option: Decorator = click.option(
    "--processor-for",
    "processors_for",
    multiple=True,
    metavar="PATTERN=NAME[JSON]",
    help="Another processor for some topics, e.g. 'traffic/#=speeding{\"limit_kmh\": 50}'; + is one "
    "level, # at the end all that follow. May be repeated; the first that matches counts.",
)
notify_after_sync_option: Decorator = click.option(
    "--notify-after-sync", is_flag=True, help="Notify only what is durable: later."
)


def read_rules(
    texts: Iterable[str],
    *,
    notify_after_sync: bool = False,
    acknowledge: Acknowledge = "one",
    make: bool = True,
) -> list[ProcessorRule]:
    """Return the rules that words of the command line stand for.

    Parameters
    ----------
    make
        Whether processors are tried here: they may be on another machine.

    Raises
    ------
    ConfigError
        When one cannot be read, or its pattern cannot match as it is meant.
    ProcessorError
        When a processor cannot be made with its options.
    """
    from nearcast.server.processor_rules import ProcessorRule, check_rules
    from nearcast.trust.topic_pattern import check_pattern

    rules = []
    for text in texts:
        head, brace, json_text = text.partition("{")
        pattern, equals, name = head.rpartition("=")
        if not (equals and pattern and name.strip()):
            raise ConfigError(
                f"{text!r} is not PATTERN=PROCESSOR, such as 'traffic/#=proximity' or"
                " 'a/+=speeding{\"limit_kmh\": 50}'"
            )
        options = read_options(brace + json_text) if brace else {}
        check_pattern(pattern)
        rule = ProcessorRule(pattern, name.strip(), options, notify_after_sync, acknowledge)
        rules.append(rule)
    if make:
        check_rules(rules)
    return rules


def read_options(text: str) -> dict[str, Any]:
    """Return the JSON object that a processor is made with; ConfigError when it is not one."""
    import json

    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ConfigError(f"options of a processor: {text!r} is not a JSON object")
    return options


def rules_for_site(
    processors_for: Iterable[str], processor: str, options_text: str, notify_after_sync: bool
) -> tuple[ProcessorRule, ...]:
    """Return the rules of a whole site: those for some topics, then that for all others."""
    from nearcast.server.processor_rules import FORWARD, ProcessorRule, check_rules

    rest = ProcessorRule("#", processor, read_options(options_text), notify_after_sync)
    rules = read_rules(processors_for, notify_after_sync=notify_after_sync, make=False)
    if rest != FORWARD:
        rules.append(rest)
    check_rules(rules)
    return tuple(rules)
