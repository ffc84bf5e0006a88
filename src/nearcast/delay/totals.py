"""Sums over topics that a plan's value is made of: computed block by block and added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import reduce
from typing import Any, TypeVar

__all__ = ["add_totals"]

T = TypeVar("T")


def add_totals(parts: Iterable[T]) -> T:
    """Return the sum of dataclasses of one kind, field by field."""
    return reduce(_add, parts)


def _add(one: Any, other: Any) -> Any:
    if not is_dataclass(one) or isinstance(one, type):
        return one + other
    values = ((getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return type(one)(*(_add(a, b) for a, b in values))
