"""Which processor serves a topic: rules by topic pattern, the first that matches counts."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Literal

import msgspec

from nearcast.broker.registry import check_allowed, make_processor
from nearcast.errors import ConfigError
from nearcast.trust.topic_pattern import check_pattern, matches

__all__ = ["FORWARD", "Acknowledge", "ProcessorRule", "check_rules", "rule_for"]


Acknowledge = Literal["one", "two"]
"""On how many servers a message is durable before it is acknowledged: level L1 or L2."""


class ProcessorRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What brokers do with the messages of some topics."""

    pattern: str
    """A topic; ``+`` stands for one level, ``#`` at the end for all levels that follow."""
    processor: str = "forward"
    options: dict[str, Any] = {}
    """What the processor is made with."""
    notify_after_sync: bool = False
    """Notify only what is durable: later, but never about a message that a crash may undo."""
    acknowledge: Acknowledge = "one"
    """On how many servers a message is durable before it is acknowledged: level L1 or L2."""


FORWARD = ProcessorRule("#")
"""What is done with topics that no rule matches."""


def check_rules(rules: Iterable[ProcessorRule], allowed: Container[str] | None = None) -> None:
    """Check that each rule can be followed: its processor is made once, and thrown away.

    Parameters
    ----------
    allowed
        Processors that may be loaded here besides the shipped ones; None: any.

    Raises
    ------
    ConfigError
        When a pattern cannot match as it is meant, or is there twice.
    ProcessorError
        When a processor is not allowed or cannot be made with its options.
    """
    seen: set[str] = set()
    for rule in rules:
        check_pattern(rule.pattern)
        if rule.pattern in seen:
            raise ConfigError(f"topic pattern {rule.pattern!r} has two processors")
        seen.add(rule.pattern)
        check_allowed(rule.processor, allowed)
        make_processor(rule.processor, rule.options)


def rule_for(rules: Iterable[ProcessorRule], topic: str) -> ProcessorRule:
    """Return the first rule that matches a topic."""
    return next((rule for rule in rules if matches(rule.pattern, topic)), FORWARD)
