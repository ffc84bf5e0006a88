"""Who shares topics with whom, on the map: members of a topic joined by lines."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nearcast.domain.scenario import Scenario
from nearcast.pictures.style import house_style, legend_of_panels, new_figure, plain, title_text

__all__ = ["draw_topic_maps"]

_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#6A51A3", "#999933",
)  # fmt: skip


@house_style()
def draw_topic_maps(scenarios: Mapping[str, Scenario], *, title: str, note: str = "") -> Figure:
    """Return a map for each scenario, by its name; a client in several topics has a ring."""
    figure = new_figure(6.2 * len(scenarios), 7.2)
    panels = figure.subplots(1, len(scenarios), squeeze=False)[0]
    for axes, (name, scenario) in zip(panels, scenarios.items(), strict=True):
        _draw(axes, scenario)
        axes.set_title(plain(name), fontsize=12)
    figure.suptitle(
        title_text(title, figure.get_figwidth()), x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    handles = [
        Line2D([], [], color=_COLOURS[0], marker="o", ms=4, label="clients of one topic"),
        Line2D([], [], color="none", marker="o", ms=9, mec="black", mew=1.4, ls="",
               label="client in several topics"),
        Line2D([], [], color="#444444", marker="s", ls="", ms=8, label="server"),
    ]  # fmt: skip
    if any(len(np.unique(one.members.client)) < len(one.clients) for one in scenarios.values()):
        handles.append(
            Line2D([], [], color="#AAAAAA", marker="o", ls="", ms=4, label="client in no topic")
        )
    legend_of_panels(figure, handles, 2 * len(scenarios), note)
    return figure


def _draw(axes: Axes, scenario: Scenario) -> None:
    members, clients = scenario.members, scenario.clients
    place = np.column_stack([clients.x_km, clients.y_km])
    alone = np.bincount(members.client, minlength=len(clients)) == 0
    axes.scatter(place[alone, 0], place[alone, 1], s=14, color="#AAAAAA", linewidths=0, zorder=3)
    start = members.topic_start(len(scenario.topics))
    for topic in range(len(scenario.topics)):
        mine = members.client[start[topic] : start[topic + 1]]
        colour = _COLOURS[topic % len(_COLOURS)]
        edges = [place[[a, b]] for a, b in combinations(mine.tolist(), 2)]
        lines = LineCollection(edges, colors=colour, linewidths=0.6, alpha=0.35, zorder=2)
        lines.set_gid(f"topic-{topic}")
        axes.add_collection(lines)
        axes.scatter(place[mine, 0], place[mine, 1], s=14, color=colour, linewidths=0, zorder=3)
    several = np.bincount(members.client, minlength=len(clients)) > 1
    rings = axes.scatter(
        place[several, 0], place[several, 1], s=70, facecolors="none", edgecolors="black",
        linewidths=1.2, zorder=4,
    )  # fmt: skip
    rings.set_gid("several")
    axes.scatter(
        scenario.servers.x_km, scenario.servers.y_km, s=60, marker="s", color="#444444", zorder=1
    )
    margin = 0.02 * scenario.settings.width_km
    axes.set_xlim(-margin, scenario.settings.width_km + margin)
    axes.set_ylim(-margin, scenario.settings.height_km + margin)
    axes.set_aspect("equal")
    axes.set_xlabel("x [km]")
    axes.set_ylabel("y [km]")
