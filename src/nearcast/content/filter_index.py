"""Which of many filters a message matches, without looking at those that fail.

A filter is taken apart into alternatives, each a list of conditions of which all must hold. The
equalities of an alternative lead down a tree of dictionaries, a range then into an index of
intervals; what a message does not find on its way down costs nothing. What it finds is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import product
from typing import Generic, TypeVar

from nearcast.content.attributes import Attributes, Value, is_number, kind_of
from nearcast.content.expression import And, Comparison, Expression, Has, In, Or
from nearcast.content.interval_index import IntervalIndex
from nearcast.errors import FilterError

__all__ = ["FilterIndex"]

Key = TypeVar("Key", bound=Hashable)
Condition = Comparison | Has
Equality = tuple[str, str, Value]
"""Name, type and value; or name, "present" and True."""

_MOST_ALTERNATIVES = 16
_MOST_STEPS = 3
"""Equalities on the way down; what else an alternative wants is left to the evaluation."""


@dataclass(slots=True)
class _Node:
    equal: dict[Equality, _Node] = field(default_factory=dict)
    ranges: dict[str, IntervalIndex] = field(default_factory=dict)
    rows: dict[int, None] = field(default_factory=dict)
    """Those that nothing more can be told of."""

    def is_empty(self) -> bool:
        return not (self.equal or self.ranges or self.rows)


@dataclass(frozen=True, slots=True)
class _Way:
    """Where an alternative stands in the tree."""

    steps: tuple[Equality, ...]
    name: str | None
    low: float
    high: float


class FilterIndex(Generic[Key]):
    """Filters by key; finds those that a message matches.

    Parameters
    ----------
    most_filters
        More are refused.
    """

    def __init__(self, most_filters: int = 1_000_000) -> None:
        self._most_filters = most_filters
        self._root = _Node()
        self._row_of: dict[Key, int] = {}
        self._filters: dict[int, tuple[Key, Expression]] = {}
        self._next_row = 0

    def __len__(self) -> int:
        return len(self._row_of)

    def put(self, key: Key, expression: Expression) -> None:
        """Add a filter, or replace the one of this key."""
        if key in self._row_of:
            self.remove(key)
        elif len(self._row_of) >= self._most_filters:
            raise FilterError(f"there are {self._most_filters:,} filters; no more are taken")
        row = self._row_of[key] = self._next_row
        self._next_row += 1
        self._filters[row] = key, expression
        for way in _ways(expression):
            node = self._root
            for step in way.steps:
                node = node.equal.setdefault(step, _Node())
            if way.name is None:
                node.rows[row] = None
            else:
                node.ranges.setdefault(way.name, IntervalIndex()).add(way.low, way.high, row)

    def remove(self, key: Key) -> None:
        """Take a filter out; KeyError when it is not there."""
        row = self._row_of.pop(key)
        _, expression = self._filters.pop(row)
        for way in _ways(expression):
            nodes = [self._root]
            for step in way.steps:
                nodes.append(nodes[-1].equal[step])
            last = nodes[-1]
            if way.name is None:
                del last.rows[row]
            else:
                last.ranges[way.name].remove(way.low, way.high, row)
                if not last.ranges[way.name]:
                    del last.ranges[way.name]
            for parent, step in zip(reversed(nodes[:-1]), reversed(way.steps), strict=True):
                if parent.equal[step].is_empty():
                    del parent.equal[step]

    def matching(self, attributes: Attributes) -> list[Key]:
        """Return the keys of all filters that the message matches, in the order they came."""
        found = self.candidates(attributes)
        filters = self._filters
        return [filters[row][0] for row in found if filters[row][1].matches(attributes)]

    def candidates(self, attributes: Attributes) -> list[int]:
        """Return the rows that have to be evaluated; for measurements."""
        steps: list[Equality] = [(name, "present", True) for name in attributes]
        steps += [(name, kind_of(value), value) for name, value in attributes.items()]
        found: set[int] = set()
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            found.update(node.rows)
            if node.ranges:
                for name, intervals in node.ranges.items():
                    value = attributes.get(name)
                    if value is not None and is_number(value):
                        found.update(intervals.containing(float(value)))
            if node.equal:
                nodes.extend(node.equal[step] for step in steps if step in node.equal)
        return sorted(found)


def _ways(expression: Expression) -> list[_Way]:
    """Return where a filter stands, each place once."""
    return list(dict.fromkeys(_way(conditions) for conditions in _alternatives(expression)))


def _alternatives(expression: Expression) -> list[tuple[Condition, ...]]:
    """Return lists of conditions; when the filter holds, all of some list hold."""
    if isinstance(expression, Comparison):
        return [(Has(expression.name) if expression.sign == "!=" else expression,)]
    if isinstance(expression, Has):
        return [(expression,)]
    if isinstance(expression, In):
        return [(Comparison(expression.name, "=", value),) for value in expression.values]
    if isinstance(expression, Or):
        found = [one for part in expression.parts for one in _alternatives(part)]
        return [()] if () in found else found
    if isinstance(expression, And):
        parts = sorted((_alternatives(part) for part in expression.parts), key=len)
        kept: list[list[tuple[Condition, ...]]] = []
        for part in parts:
            if not kept or math.prod(map(len, kept)) * len(part) <= _MOST_ALTERNATIVES:
                kept.append(part)
        return [tuple(one for parts in chosen for one in parts) for chosen in product(*kept)]
    return [()]  # what must not hold tells nothing that an index could use


def _way(conditions: tuple[Condition, ...]) -> _Way:
    equal: dict[Equality, None] = {}
    for one in sorted(conditions, key=lambda one: (isinstance(one, Has), one.name)):
        if isinstance(one, Has):
            equal[one.name, "present", True] = None
        elif one.sign == "=":
            equal[one.name, kind_of(one.value), one.value] = None
    ends: dict[str, tuple[float, float]] = {}
    for one in conditions:
        if isinstance(one, Comparison) and one.sign != "=":
            low, high = ends.get(one.name, (-math.inf, math.inf))
            value = float(one.value)
            ends[one.name] = (
                (low, min(high, value)) if one.sign in ("<", "<=") else (max(low, value), high)
            )
    # one range is used: the narrowest
    best = min(ends.items(), key=lambda item: (item[1][1] - item[1][0], item[0]), default=None)
    steps = tuple(equal)[:_MOST_STEPS]
    if best is None:
        return _Way(steps, None, -math.inf, math.inf)
    name, (low, high) = best
    if low > high:  # nothing is both; any place will do
        low = high
    return _Way(steps, name, low, high)
