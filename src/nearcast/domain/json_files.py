"""JSON files in and out: plain values only, no NaN, no infinity, always the same bytes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from nearcast.domain.columns import Place

__all__ = ["plain_json", "read_json_object", "write_json"]


def plain_json(value: Any) -> Any:
    """Return the value made of dict, list, str, int, float, bool and None only.

    Infinities and NaN, which JSON does not know, become None.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain_json(value.value)
    if isinstance(value, np.generic | np.ndarray):
        return plain_json(value.tolist())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {item.name: plain_json(getattr(value, item.name)) for item in fields}
    if isinstance(value, Mapping):
        return {str(plain_json(key)): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def read_json_object(path: Path, place: Place) -> dict[str, Any]:
    """Return the object that a JSON file holds."""
    try:
        content = json.loads(
            path.read_text(encoding="utf-8-sig"),
            parse_constant=_refuse_number,
            parse_float=_finite_number,
        )
        # Half a surrogate pair passes the parser, but could never be printed.
        json.dumps(content, ensure_ascii=False).encode()
    except OSError as reason:
        place.fail(f"cannot be read: {reason.strerror or reason}")
    except (ValueError, RecursionError) as reason:
        place.fail(f"is not valid JSON: {reason}")
    if not isinstance(content, dict):
        place.fail(f"must hold a JSON object, not {type(content).__name__}")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object, keys in the order given."""
    text = json.dumps(plain_json(content), indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8", newline="\n")


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is not a number that JSON knows")


def _finite_number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)
