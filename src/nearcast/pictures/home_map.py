"""The map of homes: clients in the colour of their home server, servers by storage and load."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nearcast.domain.plan import Plan
from nearcast.domain.scenario import BoolArray, IndexArray, OffsetArray, Scenario
from nearcast.geo.distance import nearest
from nearcast.pictures.server_load import (
    PlanCost,
    cost_text,
    overloaded_servers,
    server_resources,
)
from nearcast.pictures.style import (
    OVERLOAD_COLOUR,
    caption,
    counted,
    house_style,
    legend_below,
    new_figure,
    plain,
    shortened,
    title_text,
)

__all__ = ["draw_home_map", "draw_homes"]

_MOST_LINES = 3_000
_FEW = 60
_MOST_DOTS = 20_000
_MOST_NAMES = 40
_MOST_CROSSES = 200
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#AA7733",
    "#6A51A3",
    "#B5B52E",
    "#D55E00",
    "#44AA99",
)
_NEIGHBOURS = 9


@house_style()
def draw_home_map(
    scenario: Scenario, plan: Plan, cost: PlanCost, method: str, *, seed: int = 0
) -> Figure:
    """Return the map of a plan; `seed` chooses the clients shown when they are too many."""
    figure = new_figure(8, 8)
    axes = figure.add_subplot()
    shown = _sample(len(scenario.clients), seed)
    overloaded = overloaded_servers(server_resources(scenario, cost))
    draw_homes(axes, scenario, plan.homes, overloaded, shown)
    axes.set_title(title_text(f"Homes by {method}: {cost_text(cost)}", 8))
    many = len(scenario.servers) > _MOST_CROSSES
    legend_below(axes, _legend(bool(overloaded.any()), many), columns=3)
    caption(figure, _small_print(scenario, len(shown), int(overloaded.sum())))
    return figure


def draw_homes(
    axes: Axes,
    scenario: Scenario,
    homes: IndexArray,
    overloaded: BoolArray,
    shown: OffsetArray | None = None,
    *,
    scale: float = 1.0,
) -> None:
    """Draw the field with servers and clients into a panel.

    Parameters
    ----------
    shown : the clients to show; None: all.
    scale : of the area of servers, less than 1 in a small panel.
    """
    colours = np.array(_COLOURS)[_colour_index(scenario)]
    if shown is None:
        shown = np.arange(len(scenario.clients))
    _draw_clients(axes, scenario, homes, shown, colours)
    _draw_servers(axes, scenario, colours, overloaded, scale)
    _set_field(axes, scenario)


def _sample(count: int, seed: int) -> OffsetArray:
    """Return all clients, or a sorted seeded choice when they are too many to show."""
    if count <= _MOST_DOTS:
        return np.arange(count)
    chosen = np.random.default_rng(seed).choice(count, _MOST_DOTS, replace=False, shuffle=False)
    return np.sort(chosen)


def _colour_index(scenario: Scenario) -> OffsetArray:
    """Return a colour number for each server such that near servers differ."""
    servers = scenario.servers
    x, y = servers.x_km, servers.y_km
    _, near = nearest(x, y, x, y, _NEIGHBOURS + 1)
    index = np.full(len(servers), -1, dtype=np.int64)
    used = np.zeros(len(_COLOURS), dtype=np.int64)
    for server in range(len(servers)):
        taken = index[near[server]]
        # The least used of the colours that no neighbour has, so that all of them appear.
        blocked = np.bincount(taken[taken >= 0], minlength=len(_COLOURS))
        index[server] = np.lexsort((used, blocked))[0]
        used[index[server]] += 1
    return index


def _draw_clients(
    axes: Axes, scenario: Scenario, homes: IndexArray, shown: OffsetArray, colours: np.ndarray
) -> None:
    servers = scenario.servers
    x, y, home = scenario.clients.x_km[shown], scenario.clients.y_km[shown], homes[shown]
    few = len(scenario.clients) <= _FEW
    if len(scenario.clients) < _MOST_LINES:
        ends = np.column_stack([x, y, servers.x_km[home], servers.y_km[home]]).reshape(-1, 2, 2)
        lines = LineCollection(
            list(ends), colors=colours[home], linewidths=1.5 if few else 0.6,
            alpha=0.9 if few else 0.35, zorder=1,
        )  # fmt: skip
        lines.set_gid("home-lines")
        axes.add_collection(lines)
    size = 30.0 if few else float(np.clip(20_000 / max(len(shown), 1), 3.5, 16.0))
    # A few are worth being seen on top of a server that they stand beside.
    dots = axes.scatter(
        x, y, s=size, c=colours[home], edgecolors="black", linewidths=0.8 if few else 0,
        zorder=4 if few else 2,
    )  # fmt: skip
    dots.set_gid("clients")
    dots.set_rasterized(True)


def _draw_servers(
    axes: Axes, scenario: Scenario, colours: np.ndarray, overloaded: BoolArray, scale: float
) -> None:
    servers = scenario.servers
    many = len(servers) > _MOST_CROSSES
    largest = float(np.clip(4_000 / len(servers), 14, 220)) * scale
    finite = servers.storage[np.isfinite(servers.storage)]
    most = float(finite.max(initial=0.0))
    share = np.minimum(servers.storage / most, 1.0) if most > 0 else np.ones(len(servers))
    size = np.maximum(largest * share, largest / 12)
    edge = np.where(overloaded, OVERLOAD_COLOUR, "#000000")
    face = np.where(overloaded, OVERLOAD_COLOUR, "#FFFFFF") if many else colours
    squares = axes.scatter(
        servers.x_km, servers.y_km, s=size, c=face, marker="s", edgecolors=edge.tolist(),
        linewidths=0.7 if many else 1.2, zorder=3,
    )  # fmt: skip
    squares.set_gid("servers")
    if not many:
        crosses = axes.scatter(
            servers.x_km[overloaded], servers.y_km[overloaded], s=size[overloaded], marker="x",
            c=OVERLOAD_COLOUR, linewidths=1.8, zorder=4,
        )  # fmt: skip
        crosses.set_gid("overloaded")
    if len(servers) > _MOST_NAMES:
        return
    for name, x, y, area in zip(
        servers.ids.to_pylist(), servers.x_km, servers.y_km, size, strict=True
    ):
        label = axes.annotate(
            plain(shortened(str(name))), (x, y), xytext=(0, float(np.sqrt(area)) / 2 + 3),
            textcoords="offset points", ha="center", fontsize=9, zorder=5,
        )  # fmt: skip
        label.set_bbox({"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.6})


def _set_field(axes: Axes, scenario: Scenario) -> None:
    """Show the field, or what there is when positions lie outside of it."""
    for positions, size, set_limits in (
        ((scenario.servers.x_km, scenario.clients.x_km), scenario.settings.width_km, axes.set_xlim),
        (
            (scenario.servers.y_km, scenario.clients.y_km),
            scenario.settings.height_km,
            axes.set_ylim,
        ),
    ):
        values = np.concatenate(positions)
        low, high = float(values.min()), float(values.max())
        if low >= 0 and high <= size:
            low, high = 0.0, size
        margin = 0.02 * (high - low) or 0.5
        set_limits(low - margin, high + margin)
    axes.set_aspect("equal")
    axes.set_xlabel("x [km]")
    axes.set_ylabel("y [km]")


def _legend(any_overloaded: bool, many: bool) -> list[Line2D]:
    grey = "#777777"
    handles = [
        Line2D([], [], color=grey, marker="o", ls="", ms=5, label="client (colour: its home)"),
        Line2D([], [], color="white" if many else grey, marker="s", ls="", ms=9, mec="black",
               label="server (area: storage)"),
    ]  # fmt: skip
    if any_overloaded:
        handles.append(
            Line2D([], [], color=OVERLOAD_COLOUR, marker="s" if many else "x", ls="", ms=9, mew=2,
                   label="overloaded server")
        )  # fmt: skip
    return handles


def _small_print(scenario: Scenario, shown: int, overloaded: int) -> str:
    clients, servers = len(scenario.clients), len(scenario.servers)
    text = f"{counted(clients, 'client')}, {counted(servers, 'server')}, {overloaded:,} overloaded."
    if shown < clients:
        text += f" A random sample of {shown:,} clients is shown."
    return text
