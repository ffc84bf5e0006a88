"""Where components begin by a plan."""

from __future__ import annotations

import pytest

from nearcast.flow.flow import Component, Flow
from nearcast.flow.placing import places_by_plan


def _chain(*inputs: str) -> Flow:
    """Two components in a row behind sources, and one that reads both."""
    return Flow(
        "chain",
        inputs,
        {
            "last": Component("forward", ("made", *inputs[1:]), "out"),
            "first": Component("forward", inputs[:1], "made"),
        },
    )


@pytest.mark.parametrize(
    ("brokers", "placed"),
    [
        ({"a": ("e1",)}, {"first": "e1", "last": "e1"}),
        ({"a": ("e1", "e2")}, {}),
        ({"a": ("e1", "")}, {}),  # the cloud server has some of it
        ({}, {}),  # the plan does not know the topic
    ],
)
def test_a_component_begins_at_the_one_broker_of_what_it_reads(
    brokers: dict[str, tuple[str, ...]], placed: dict[str, str]
) -> None:
    assert places_by_plan(_chain("a"), {}, brokers) == placed


def test_a_component_that_reads_from_two_places_begins_in_the_cloud() -> None:
    brokers = {"a": ("e1",), "b": ("e2",)}
    assert places_by_plan(_chain("a", "b"), {}, brokers) == {"first": "e1"}
    assert places_by_plan(_chain("a", "b"), {}, {"a": ("e1",), "b": ("e1",)}) == {
        "first": "e1",
        "last": "e1",
    }


def test_a_place_that_was_named_wins_and_counts_for_what_follows() -> None:
    assert places_by_plan(_chain("a"), {"first": "e9"}, {"a": ("e1",)}) == {
        "first": "e9",
        "last": "e9",
    }
    assert places_by_plan(_chain("a"), {"last": "e9"}, {"a": ("e1",)}) == {
        "first": "e1",
        "last": "e9",
    }


def test_a_circle_is_left_to_the_check() -> None:
    circle = Flow(
        "circle",
        ("in",),
        {"a": Component("forward", ("in", "y"), "x"), "b": Component("forward", ("x",), "y")},
    )
    assert places_by_plan(circle, {}, {"in": ("e1",)}) == {}
