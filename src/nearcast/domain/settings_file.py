"""``scenario.json``: the numbers of a scenario that are not in a table."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from nearcast.domain.columns import Place
from nearcast.domain.json_files import read_json_object
from nearcast.domain.scenario import ScenarioSettings

__all__ = ["check_settings", "read_settings", "settings_to_json"]

_NUMBERS = ("width_km", "height_km", "ms_per_km", "cloud_ms", "beta_ms")
_KEYS = ("name", *_NUMBERS, "seed", "generator")


def read_settings(path: Path, place: Place, extent_km: tuple[float, float]) -> ScenarioSettings:
    """Return what the file says, with defaults for what it does not say.

    The name defaults to the folder's, width and height to the extent of the positions,
    ``ms_per_km`` to 0.1, ``cloud_ms`` to 5 and ``beta_ms`` to 1. Unknown keys are kept.
    """
    content = read_json_object(path, place)
    known: dict[str, Any] = {
        "name": path.parent.resolve().name,
        "width_km": extent_km[0],
        "height_km": extent_km[1],
    }
    known |= {key: content[key] for key in _KEYS if content.get(key) is not None}
    _check(known, place)
    known |= {key: float(known[key]) for key in _NUMBERS if key in known}
    extra = {key: value for key, value in content.items() if key not in _KEYS}
    return ScenarioSettings(**known, extra=extra)


def settings_to_json(settings: ScenarioSettings) -> dict[str, Any]:
    """Return the content of ``scenario.json``; a seed or generator that is not known is left out."""
    known = {key: getattr(settings, key) for key in _KEYS}
    return {key: value for key, value in known.items() if value is not None} | dict(settings.extra)


def check_settings(settings: ScenarioSettings, place: Place) -> None:
    """Raise an error for the first setting that has a wrong type or value."""
    known = {item.name: getattr(settings, item.name) for item in fields(settings)}
    _check({key: value for key, value in known.items() if value is not None}, place)
    clash = sorted(set(settings.extra) & set(_KEYS))
    if clash:
        place.fail(f'"{clash[0]}" is a setting of its own and cannot be an extra one')


def _check(known: dict[str, Any], place: Place) -> None:
    for key in ("name", "generator"):
        if key in known and not (isinstance(known[key], str) and known[key]):
            place.fail(f'"{key}" must be a text, not {known[key]!r}')
    for key in _NUMBERS:
        if key in known and not _is_amount(known[key]):
            place.fail(f'"{key}" must be a number, 0 or more, not {known[key]!r}')
    if "seed" in known and not (_is_whole(known["seed"]) and known["seed"] >= 0):
        place.fail(f'"seed" must be a whole number, 0 or more, not {known["seed"]!r}')


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    if not (_is_whole(value) or isinstance(value, float | np.floating)):
        return False
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:  # a whole number beyond every float
        return False
