"""The options that say which rows of a log can be true."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

__all__ = ["plausibility_options"]


def plausibility_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the limits of a plausible row; the command gets them as `plausible` and `strays`."""

    @click.option(
        "--largest-size", type=float, default=1e9, show_default=True, help="Of a plausible row."
    )
    @click.option(
        "--largest-km",
        type=float,
        default=50_000.0,
        show_default=True,
        help="Of x_km and y_km of a plausible row, to either side of 0.",
    )
    @click.option("--earliest", help="First plausible time: seconds or ISO 8601.  [default: any]")
    @click.option(
        "--latest", help="Last plausible time: seconds or ISO 8601.  [default: a day from now]"
    )
    @click.option(
        "--zero-degrees", is_flag=True, help="Latitude 0, longitude 0 is a place, not a lost fix."
    )
    @click.option(
        "--stray-share",
        type=float,
        default=0.01,
        show_default=True,
        help="Rows far from all others are put aside up to this share, or one; 0: never.",
    )
    @click.option(
        "--stray-widths",
        type=float,
        default=100.0,
        show_default=True,
        help="How far: so many widths of the middle eight tenths of times and positions, and so "
        "many times their largest size.",
    )
    @wraps(command)
    def with_options(
        *arguments: Any,
        largest_size: float,
        largest_km: float,
        earliest: str | None,
        latest: str | None,
        zero_degrees: bool,
        stray_share: float,
        stray_widths: float,
        **rest: Any,
    ) -> Any:
        from nearcast.pipeline.stages.plausible import Plausibility, StrayLimits

        limits = Plausibility(largest_size, largest_km, earliest, latest, zero_degrees)
        strays = StrayLimits(stray_share, stray_widths)
        return command(*arguments, plausible=limits, strays=strays, **rest)

    return with_options
