"""Which processor serves a topic."""

from __future__ import annotations

import pytest

from nearcast.errors import ConfigError
from nearcast.server.processor_rules import FORWARD, ProcessorRule, rule_for
from nearcast.trust.topic_pattern import check_pattern, matches


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("traffic/north", "traffic/north", True),
        ("traffic/north", "traffic/south", False),
        ("traffic/+", "traffic/north", True),
        ("traffic/+", "traffic", False),
        ("traffic/+", "traffic/north/lane", False),
        ("traffic/#", "traffic", True),
        ("traffic/#", "traffic/north/lane", True),
        ("traffic/#", "parking/north", False),
        ("+/north", "traffic/north", True),
        ("+/+/lane", "a/b/lane", True),
        ("#", "anything/at/all", True),
        ("+", "", True),
        ("traffic/#", "traffic/#", True),
        ("traffic/#", "#", False),
        ("traffic/+", "traffic/#", False),
        ("traffic/+", "traffic/+", True),
        ("traffic/north", "traffic/+", False),
        ("traffic/+/lane", "traffic/#", False),
        ("#", "#", True),
    ],
)
def test_patterns_match_level_by_level(pattern: str, topic: str, expected: bool) -> None:
    assert matches(pattern, topic) is expected


def test_the_first_rule_that_matches_counts() -> None:
    rules = [
        ProcessorRule("traffic/slow", "threshold", {"limit": 1}),
        ProcessorRule("traffic/#", "proximity"),
    ]
    assert rule_for(rules, "traffic/slow") is rules[0]
    assert rule_for(rules, "traffic/fast") is rules[1]
    assert rule_for(rules, "parking") is FORWARD


@pytest.mark.parametrize("pattern", ["", "a/#/b", "a+/b", "a/b#"])
def test_a_pattern_that_means_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        check_pattern(pattern)
