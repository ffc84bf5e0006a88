"""Use and limit of every server: bars, or a sorted profile when there are many servers."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nearcast.domain.scenario import OffsetArray, Scenario
from nearcast.pictures.server_load import (
    PlanCost,
    ServerResource,
    cost_text,
    overloaded_servers,
    server_resources,
)
from nearcast.pictures.style import (
    OVERLOAD_COLOUR,
    caption,
    counted,
    house_style,
    new_figure,
    plain,
    shortened,
    title_text,
)

__all__ = ["draw_server_bars"]

_MOST_BARS = 60
_FINE_COLOUR = "#4C8DBF"
_PROFILE_COLOURS = ("#0072B2", "#E69F00")


@house_style()
def draw_server_bars(scenario: Scenario, cost: PlanCost, method: str) -> Figure:
    """Return bars of use with the limits, sorted by load; above 60 servers a sorted profile."""
    resources = server_resources(scenario, cost)
    count = len(scenario.servers)
    if count > _MOST_BARS:
        figure = new_figure(9, 4.8)
        axes = figure.add_subplot()
        _draw_profile(axes, resources)
    else:
        figure = new_figure(float(np.clip(2 + 0.24 * count, 7, 14)), 1.2 + 2.6 * len(resources))
        panels = figure.subplots(len(resources), 1, sharex=True, squeeze=False)[:, 0]
        load = np.max([resource.share for resource in resources], axis=0)
        order = np.argsort(-load, kind="stable")
        for axes, resource in zip(panels, resources, strict=True):
            _draw_bars(axes, resource, order)
        names = [shortened(str(name)) for name in scenario.servers.ids.take(order).to_pylist()]
        upright = sum(map(len, names)) * 0.11 > figure.get_figwidth() - 1.5
        panels[-1].set_xticks(
            range(count), [plain(name) for name in names], rotation=90 if upright else 0
        )
        panels[-1].set_xlabel("server, by its larger share of storage or other limits")
    figure.suptitle(
        title_text(
            f"Load of the servers by {method}: {cost_text(cost)}", figure.get_figwidth()
        ),
        x=0.01, ha="left", fontsize=13, fontweight="bold",
    )  # fmt: skip
    caption(
        figure,
        f"{counted(count, 'server')}, {int(overloaded_servers(resources).sum()):,} with more than"
        " a limit allows.",
    )
    return figure


def _draw_bars(axes: Axes, resource: ServerResource, order: OffsetArray) -> None:
    used, limit = resource.used[order], resource.limit[order]
    over = resource.share[order] > 1 + 1e-9
    place = np.arange(len(order))
    bars = axes.bar(place, used, width=0.75, color=_FINE_COLOUR)
    for bar in np.array(bars.patches)[over]:
        bar.set(facecolor=OVERLOAD_COLOUR, hatch="///", edgecolor="white", linewidth=0)
    limited = np.isfinite(limit)
    axes.hlines(
        limit[limited], place[limited] - 0.48, place[limited] + 0.48, colors="black", linewidth=1.8
    )
    axes.set_ylabel(f"{resource.name}\n[{resource.unit}]")
    axes.set_ylim(0, 1.08 * max(float(used.max()), float(limit[limited].max(initial=0.0)), 1e-9))
    axes.set_xlim(-0.7, max(len(order), 6) - 0.3)
    axes.grid(visible=False, axis="x")
    handles: list[Line2D | Patch] = [Patch(facecolor=_FINE_COLOUR, label="used")]
    if over.any():
        handles.append(
            Patch(facecolor=OVERLOAD_COLOUR, hatch="///", edgecolor="white", label="overloaded")
        )
    if limited.any():
        handles.append(Line2D([], [], color="black", lw=1.8, label="limit"))
    axes.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.1
    )


def _draw_profile(axes: Axes, resources: tuple[ServerResource, ...]) -> None:
    """Draw use / limit of all servers, each resource sorted by itself."""
    for resource, colour, style in zip(resources, _PROFILE_COLOURS, ("-", "--"), strict=False):
        share = np.sort(resource.share)[::-1]
        rank = np.arange(1, len(share) + 1)
        over = int(np.count_nonzero(share > 1 + 1e-9))
        axes.plot(
            rank, 100 * share, color=colour, linestyle=style, linewidth=2,
            label=f"{resource.name} ({over:,} servers over the limit)",
        )  # fmt: skip
    axes.axhline(100, color="black", linewidth=1.5, label="limit")
    top = axes.get_ylim()[1]
    axes.axhspan(100, max(top, 105), color=OVERLOAD_COLOUR, alpha=0.08, linewidth=0)
    axes.set_ylim(0, max(top, 105))
    axes.set_xlim(1, len(resources[0].used))
    axes.set_xlabel("rank of the server (most used first)")
    axes.set_ylabel("use of the limit [%]")
    axes.legend(loc="upper right")
