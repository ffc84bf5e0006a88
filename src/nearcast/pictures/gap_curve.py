"""How the gap to the bound closes with time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from nearcast.domain.scenario import FloatArray
from nearcast.pictures.style import (
    caption,
    house_style,
    legend_below,
    method_colours,
    new_figure,
    number_text,
    plain,
    plain_log_axis,
    title_text,
)

__all__ = ["GapSeries", "draw_gap_curve"]

_MARKERS = "osD^vPX*"


@dataclass(frozen=True, slots=True, eq=False)
class GapSeries:
    """The gaps of one method, several seeds at the same times."""

    seconds: FloatArray
    """[point], positive and rising."""
    gap: FloatArray
    """(cost - bound) / bound [seed, point]; NaN where there was no plan yet."""


@house_style()
def draw_gap_curve(
    series: Mapping[str, GapSeries], *, title: str = "Gap to the proven bound over time"
) -> Figure:
    """Return the mean gap of each method against seconds, with a band from best to worst seed."""
    figure = new_figure(9, 5.2)
    axes = figure.add_subplot()
    colours = method_colours(series)
    means: list[float] = []
    for number, (method, one) in enumerate(series.items()):
        percent = 100 * np.atleast_2d(one.gap)
        known = ~np.isnan(percent).all(axis=0)
        seconds, percent = one.seconds[known], percent[:, known]
        low, mean, high = (
            summary(percent, axis=0) for summary in (np.nanmin, np.nanmean, np.nanmax)
        )
        means.extend(mean)
        end = f"ends at {number_text(float(mean[-1]))} %" if len(mean) else "no plan"
        axes.plot(
            seconds, mean, color=colours[method], linewidth=2, markersize=6,
            marker=_MARKERS[number % len(_MARKERS)],
            label=plain(f"{method} ({end})"),
        )  # fmt: skip
        axes.fill_between(seconds, low, high, color=colours[method], alpha=0.18, linewidth=0)
    if means:
        plain_log_axis(axes, "x")
    if means and min(means) > 0:
        plain_log_axis(axes, "y")
        # A seed that is all but proved optimal would stretch the axis by decades.
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(means) / 3))
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_title(title_text(title, figure.get_figwidth()))
    axes.set_xlabel("time of planning [s]")
    axes.set_ylabel("gap to the bound [%]")
    legend_below(axes)
    seeds = sorted({len(np.atleast_2d(one.gap)) for one in series.values()})
    count = "/".join(map(str, seeds))
    caption(figure, f"Lines: mean over {count} seeds; bands: from the best to the worst seed.")
    return figure
