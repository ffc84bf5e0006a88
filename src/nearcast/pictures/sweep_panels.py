"""Metrics against a varied parameter: one panel a metric, one line a method, with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nearcast.domain.scenario import FloatArray
from nearcast.pictures.style import (
    house_style,
    legend_of_panels,
    new_figure,
    plain,
    plain_log_axis,
    title_text,
)

__all__ = ["Line", "Panel", "draw_sweep_panels"]

_PANEL_WIDTH_IN, _PANEL_HEIGHT_IN = 4.2, 3.3
_LEGEND_ROW_IN = 0.26


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line of a panel: a mean and its band at each x."""

    name: str
    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    colour: str = "#000000"
    marker: str = ""
    dashes: tuple[float, tuple[float, ...]] | None = None
    """Lengths on and off; None: a solid line."""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A metric."""

    title: str
    y_label: str
    lines: Sequence[Line]
    levels: Mapping[str, float] = field(default_factory=dict)
    """Limits of servers, by their label: black lines across the panel."""
    log: bool = False


@house_style()
def draw_sweep_panels(
    panels: Sequence[Panel],
    *,
    title: str,
    x_label: str,
    note: str,
    columns: int = 3,
    x_ticks: Mapping[float, str] | None = None,
) -> Figure:
    """Return the panels in rows of `columns`, with one legend for all of them below."""
    handles = _legend(panels)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    single = len(panels) == 1
    width_in = 8.0 if single else _PANEL_WIDTH_IN * columns
    legend_columns = 4 if single else 2 * columns
    legend_rows = -(-len(handles) // legend_columns)
    height_in = (4.4 if single else _PANEL_HEIGHT_IN * rows) + 1.0 + _LEGEND_ROW_IN * legend_rows
    figure = new_figure(width_in, height_in)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel)
        axes.set_xlabel(x_label)
        if x_ticks is not None:
            axes.set_xticks(list(x_ticks), list(x_ticks.values()))
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(title_text(title, width_in), x=0.01, ha="left", fontsize=13, fontweight="bold")
    legend_of_panels(figure, handles, legend_columns, note)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        axes.plot(
            line.x, line.mean, color=line.colour, marker=line.marker, linestyle=line.dashes or "-",
            linewidth=1.8, markersize=5,
        )  # fmt: skip
        if np.any(line.high > line.low):
            axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.2, lw=0)
    for level in panel.levels.values():
        axes.axhline(level, color="black", linewidth=1.6, zorder=1)
    axes.set_title(plain(panel.title))
    axes.set_ylabel(plain(panel.y_label))
    if panel.log:
        plain_log_axis(axes, "y")
    else:
        lowest = [np.nanmin([line.mean, line.low]) for line in panel.lines if len(line.x)]
        axes.set_ylim(bottom=min(0.0, *lowest))


def _legend(panels: Sequence[Panel]) -> list[Line2D]:
    handles: dict[str, Line2D] = {}
    for line in (line for panel in panels for line in panel.lines):
        # Lines of one name share the entry of the first.
        handles.setdefault(
            line.name,
            Line2D([], [], color=line.colour, marker=line.marker, linestyle=line.dashes or "-",
                   lw=1.8, ms=5, label=plain(line.name)),
        )  # fmt: skip
    levels = [label for panel in panels for label in panel.levels]
    for label in dict.fromkeys(levels):
        handles[label] = Line2D([], [], color="black", lw=1.6, label=plain(label))
    return list(handles.values())
