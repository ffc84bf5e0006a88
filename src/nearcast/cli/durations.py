"""Options that are spans of time: 60s, 2m, 1h, or a number of seconds."""

from __future__ import annotations

import math
import re
from typing import Any

import click

__all__ = ["DURATION"]

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Duration(click.ParamType):  # type: ignore[type-arg]  # not generic when it runs
    """Turns such a text into seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds; the default is given as such."""
        if isinstance(value, (int, float)):
            return float(value)
        found = re.fullmatch(r"\s*([0-9.eE+]+)\s*(ms|s|m|h|)\s*", str(value))
        try:
            seconds = float(found[1]) * _SECONDS[found[2]] if found else math.nan
        except ValueError:
            seconds = math.nan
        if not (math.isfinite(seconds) and seconds > 0):
            self.fail(f"{value!r} is not a time such as 60s, 2m or 500ms", param, ctx)
        return seconds


DURATION = _Duration()
