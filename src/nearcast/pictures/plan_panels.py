"""Several plans of one scenario side by side: a map of homes each, bars of the servers below."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.pictures.home_map import draw_homes
from nearcast.pictures.server_load import (
    PlanCost,
    ServerResource,
    cost_text,
    overloaded_servers,
    server_resources,
)
from nearcast.pictures.style import (
    OVERLOAD_COLOUR,
    house_style,
    legend_of_panels,
    new_figure,
    plain,
    title_text,
)

__all__ = ["draw_plan_panels"]

_COLUMN_IN = 3.9
_FINE_COLOUR = "#4C8DBF"


@house_style()
def draw_plan_panels(
    scenario: Scenario,
    plans: Mapping[str, tuple[IndexArray, PlanCost]],
    *,
    title: str,
    note: str = "",
) -> Figure:
    """Return a column for each plan (homes and cost, by name); the bars share their axes."""
    resources = {name: server_resources(scenario, cost) for name, (_, cost) in plans.items()}
    kinds = len(next(iter(resources.values())))
    figure = new_figure(_COLUMN_IN * len(plans), 4.6 + 1.7 * kinds)
    grid = figure.subplots(
        1 + kinds, len(plans), squeeze=False, height_ratios=[3.6, *[1.5] * kinds], sharey="row"
    )
    for column, (name, (homes, cost)) in enumerate(plans.items()):
        over = overloaded_servers(resources[name])
        draw_homes(grid[0, column], scenario, homes, over, scale=0.5)
        grid[0, column].set_title(plain(f"{name}\n{cost_text(cost)}"), fontsize=12)
        for row, resource in enumerate(resources[name], 1):
            _draw_bars(grid[row, column], resource, [one[row - 1] for one in resources.values()])
            if column == 0:
                grid[row, column].set_ylabel(resource.name)
        grid[-1, column].set_xlabel("server")
    for axes in grid[0, 1:]:
        axes.set_ylabel("")
    figure.suptitle(
        title_text(title, figure.get_figwidth()), x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    legend_of_panels(figure, _legend(), 5, note)
    return figure


def _draw_bars(axes: Axes, resource: ServerResource, all_plans: list[ServerResource]) -> None:
    place = np.arange(len(resource.used))
    over = resource.share > 1 + 1e-9
    bars = axes.bar(place, resource.used, width=0.75, color=_FINE_COLOUR)
    for bar in np.array(bars.patches)[over]:
        bar.set(facecolor=OVERLOAD_COLOUR, hatch="///", edgecolor="white", linewidth=0)
    limit = resource.limit[np.isfinite(resource.limit)]
    if len(limit):
        axes.hlines(resource.limit, place - 0.5, place + 0.5, colors="black", linewidth=1.6)
    top = max(float(one.used.max()) for one in all_plans)
    axes.set_ylim(0, 1.1 * max(top, float(limit.max(initial=0.0)), 1e-9))
    step = max(len(place) // 8, 1)
    axes.set_xticks(place[::step])
    axes.grid(visible=False, axis="x")


def _legend() -> list[Line2D | Patch]:
    grey = "#777777"
    return [
        Line2D([], [], color=grey, marker="o", ls="", ms=5, label="client (colour: its home)"),
        Line2D([], [], color=grey, marker="s", ls="", ms=8, mec="black", label="server"),
        Line2D([], [], color=OVERLOAD_COLOUR, marker="x", ls="", ms=8, mew=2, label="overloaded"),
        Patch(facecolor=_FINE_COLOUR, label="used"),
        Line2D([], [], color="black", lw=1.6, label="limit of a server"),
    ]
