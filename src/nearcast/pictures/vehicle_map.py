"""Vehicles in the colours of their homes, coverage and alerts: one picture, and a short film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.animation import PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.patches import Polygon as Outline

from nearcast.geo.bounds import Bounds
from nearcast.geo.coverage import Coverage
from nearcast.pictures.style import caption, house_style, legend_below, new_figure

__all__ = ["AlertMark", "Scene", "draw_scene", "write_film"]

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#AA7733", "#6A51A3", "#B5B52E")
_ALERT_COLOURS = {
    "emergency": "#C00000",
    "collision": "#D55E00",
    "obstacle": "#555555",
    "lane_change": "#7A0177",
}
_FILM_DPI = 70
_FRAMES_PER_S = 5


class AlertMark(NamedTuple):
    """An alert on the map."""

    kind: str
    x_km: float
    y_km: float
    radius_km: float


class Scene(NamedTuple):
    """All vehicles at one second, with the number of each one's home, and the alerts of then."""

    second: int
    x_km: npt.NDArray[np.float64]
    y_km: npt.NDArray[np.float64]
    homes: Sequence[int]
    alerts: Sequence[AlertMark]


@house_style()
def draw_scene(
    field: Bounds, servers: Mapping[str, tuple[float, float]], scene: Scene, note: str
) -> Figure:
    """Return the map of one second."""
    figure = new_figure(8, 8.4)
    axes = figure.add_subplot()
    _ground(axes, field, servers)
    _paint(axes, scene)
    axes.set_title(f"{len(scene.x_km):,} vehicles past {len(servers)} edge servers")
    kinds = sorted({one.kind for one in scene.alerts})
    handles = [
        Line2D([], [], marker="s", color="black", linestyle="", label="edge server"),
        Line2D([], [], marker="o", color=_COLOURS[0], linestyle="", label="vehicle, by its home"),
        *(
            Line2D([], [], color=_ALERT_COLOURS.get(kind, "black"), label=f"alert: {kind}")
            for kind in kinds
        ),
    ]
    legend_below(axes, handles, columns=3)
    caption(figure, note)
    return figure


@house_style()
def write_film(
    file: Path, field: Bounds, servers: Mapping[str, tuple[float, float]], scenes: Sequence[Scene]
) -> None:
    """Write a film of scenes, as an animated GIF."""
    figure = new_figure(6, 6.3)
    figure.set_layout_engine("none")  # the same for all pictures, and many times quicker
    axes = figure.add_axes((0.1, 0.09, 0.87, 0.85))
    writer = PillowWriter(fps=_FRAMES_PER_S)
    with writer.saving(figure, str(file), _FILM_DPI):
        for scene in scenes:
            axes.clear()
            _ground(axes, field, servers)
            _paint(axes, scene)
            axes.set_title(f"{scene.second // 60}:{scene.second % 60:02d}")
            writer.grab_frame()


def _ground(axes: Axes, field: Bounds, servers: Mapping[str, tuple[float, float]]) -> None:
    for polygons in Coverage(servers, field).areas.values():
        for polygon in polygons:
            ring = [tuple(corner) for corner in polygon.rings[0]]
            axes.add_patch(Outline(ring, fill=False, edgecolor="#BBBBBB", linewidth=0.8))
    places = np.array(list(servers.values()))
    axes.scatter(places[:, 0], places[:, 1], marker="s", s=36, color="black", zorder=3)
    if len(servers) <= 64:
        for name, place in servers.items():
            axes.annotate(name, place, (4, 4), textcoords="offset points", fontsize=8, zorder=4)
    axes.set_xlim(field.west_km, field.east_km)
    axes.set_ylim(field.south_km, field.north_km)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.set_xlabel("km")
    axes.set_ylabel("km")


def _paint(axes: Axes, scene: Scene) -> None:
    colours = [_COLOURS[home * 3 % len(_COLOURS)] for home in scene.homes]
    axes.scatter(scene.x_km, scene.y_km, s=9, c=colours, linewidths=0, zorder=2)
    for one in scene.alerts:
        colour = _ALERT_COLOURS.get(one.kind, "black")
        circle = Circle((one.x_km, one.y_km), one.radius_km, color=colour, alpha=0.25, zorder=1)
        axes.add_patch(circle)
        edge = Circle((one.x_km, one.y_km), one.radius_km, fill=False, color=colour, zorder=5)
        axes.add_patch(edge)
