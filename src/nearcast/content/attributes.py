"""The attributes of a message: names with a text, a number or a truth value."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from nearcast.errors import FilterError

__all__ = [
    "MOST_ATTRIBUTES",
    "MOST_NAME_LENGTH",
    "MOST_TEXT_LENGTH",
    "Attributes",
    "Value",
    "check_attributes",
    "check_value",
    "is_number",
    "kind_of",
]

Value = str | bool | int | float
Attributes = Mapping[str, Value]

MOST_ATTRIBUTES = 32
MOST_NAME_LENGTH = 64
MOST_TEXT_LENGTH = 256
_LARGEST_WHOLE = 2**63 - 1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)


def is_number(value: object) -> bool:
    """Tell whether a value is a number; a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def kind_of(value: Value) -> str:
    """Return the type of a value; only values of one type are ever equal."""
    return "text" if isinstance(value, str) else "number" if is_number(value) else "truth value"


def check_attributes(attributes: Attributes) -> None:
    """Raise FilterError with the first name or value that cannot be used."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise FilterError(
            f"a message has {len(attributes)} attributes; at most {MOST_ATTRIBUTES} are taken"
        )
    for name, value in attributes.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise FilterError(f"{name!r:.60} is not the name of an attribute")
        if len(name) > MOST_NAME_LENGTH:
            raise FilterError(f"the name {name!r:.60} is longer than {MOST_NAME_LENGTH} characters")
        check_value(value, f"attribute {name!r:.60}")


def check_value(value: object, what: str, position: int | None = None) -> None:
    """Raise FilterError when a value is of another type, too long, too large or NaN."""
    if isinstance(value, bool):
        return
    if isinstance(value, str):
        if len(value) > MOST_TEXT_LENGTH:
            raise FilterError(f"{what} is longer than {MOST_TEXT_LENGTH} characters", position)
    elif isinstance(value, int):
        if abs(value) > _LARGEST_WHOLE:
            raise FilterError(f"{what} is a whole number of more than 64 bits", position)
    elif not isinstance(value, float):
        raise FilterError(f"{what} is {value!r:.40}, not a text, number or truth value", position)
    elif not math.isfinite(value):
        raise FilterError(f"{what} is {value}, not a finite number", position)
