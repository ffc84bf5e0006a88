"""Filters as trees, and what they say of a message.

A comparison with an attribute that the message does not have, or has with another type, is false,
``!=`` too: what is not known is not different. ``not`` turns any false into true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nearcast.content.attributes import Attributes, Value, kind_of

__all__ = ["OPERATORS", "And", "Comparison", "Expression", "Has", "In", "Not", "Or"]

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Expression(Protocol):
    """A condition on the attributes of a message."""

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether the condition holds."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """An attribute against a value."""

    name: str
    sign: str
    value: Value

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether the attribute is there, of the value's type, and compares so."""
        found = attributes.get(self.name)
        if found is None:
            return False
        if type(found) is not type(self.value) and kind_of(found) != kind_of(self.value):
            return False
        return OPERATORS[self.sign](found, self.value)


@dataclass(frozen=True, slots=True)
class In:
    """An attribute that is one of several values."""

    name: str
    values: tuple[Value, ...]

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether the attribute equals one of the values."""
        found = attributes.get(self.name)
        return found is not None and any(
            found == value and kind_of(found) == kind_of(value) for value in self.values
        )


@dataclass(frozen=True, slots=True)
class Has:
    """An attribute that is there, with any value."""

    name: str

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether the attribute is there."""
        return self.name in attributes


@dataclass(frozen=True, slots=True)
class And:
    """All of several conditions."""

    parts: tuple[Expression, ...]

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether all hold."""
        for part in self.parts:  # noqa: SIM110 - a generator would take as long again
            if not part.matches(attributes):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Or:
    """Some of several conditions."""

    parts: tuple[Expression, ...]

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether one holds."""
        return any(part.matches(attributes) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: Expression

    def matches(self, attributes: Attributes) -> bool:
        """Tell whether it does not hold."""
        return not self.part.matches(attributes)
