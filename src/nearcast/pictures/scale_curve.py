"""How time and memory grow with the number of clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
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

__all__ = ["ScaleSeries", "draw_scale_curve", "growth_per_tenfold"]

_MARKERS = "osD^vPX*"


@dataclass(frozen=True, slots=True, eq=False)
class ScaleSeries:
    """What one method took at several sizes; all values are positive."""

    clients: FloatArray
    seconds: FloatArray
    peak_mb: FloatArray | None = None


@house_style()
def draw_scale_curve(
    series: Mapping[str, ScaleSeries], *, title: str = "Growth with the number of clients"
) -> Figure:
    """Return seconds, and peak memory where measured, against clients on logarithmic axes."""
    memory = {name: one.peak_mb for name, one in series.items() if one.peak_mb is not None}
    figure = new_figure(10 if memory else 6.5, 4.8 + 0.12 * len(series))
    panels = figure.subplots(1, 2 if memory else 1, squeeze=False)[0]
    colours = method_colours(series)
    clients = {name: one.clients for name, one in series.items()}
    seconds = {name: one.seconds for name, one in series.items()}
    _draw_panel(panels[0], clients, seconds, colours, "time of planning [s]")
    if memory:
        _draw_panel(panels[1], clients, memory, colours, "peak memory [MB]")
    figure.suptitle(
        title_text(title, figure.get_figwidth()), x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    times = "\N{MULTIPLICATION SIGN}"
    caption(
        figure,
        f"In brackets: growth when the clients grow tenfold; {times}10 is in proportion to them.",
    )
    return figure


def growth_per_tenfold(clients: FloatArray, values: FloatArray) -> float | None:
    """Return the factor by which values grow when clients grow tenfold (least squares of logs)."""
    if len(np.unique(clients)) < 2:
        return None
    slope = np.polyfit(np.log10(clients), np.log10(values), 1)[0]
    return float(10**slope)


def _draw_panel(
    axes: Axes,
    clients: Mapping[str, FloatArray],
    values: Mapping[str, FloatArray],
    colours: Mapping[str, str],
    label: str,
) -> None:
    for number, (method, value) in enumerate(values.items()):
        growth = growth_per_tenfold(clients[method], value)
        note = "" if growth is None else f" (\N{MULTIPLICATION SIGN}{number_text(growth)})"
        axes.plot(
            clients[method], value, color=colours[method], linewidth=2, markersize=6,
            marker=_MARKERS[number % len(_MARKERS)], label=plain(method + note),
        )  # fmt: skip
    plain_log_axis(axes, "x")
    plain_log_axis(axes, "y")
    axes.set_xlabel("clients")
    axes.set_ylabel(label)
    legend_below(axes)
