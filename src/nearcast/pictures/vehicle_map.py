"""Vehicles in the colours of their homes, coverage and alerts: one picture, and a short film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.patches import Polygon as Outline
from PIL import Image

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
    figure.set_dpi(_FILM_DPI)
    axes = figure.add_axes((0.1, 0.09, 0.87, 0.85))
    _ground(axes, field, servers)
    canvas: Any = FigureCanvasAgg(figure)  # its blitting has no types
    canvas.draw()
    ground = canvas.copy_from_bbox(figure.bbox)
    pictures = []
    for scene in scenes:
        canvas.restore_region(ground)
        clock = f"{scene.second // 60}:{scene.second % 60:02d}"
        painted = [*_paint(axes, scene), figure.text(0.1, 0.955, clock, weight="bold")]
        for artist in painted:
            figure.draw_artist(artist)
            artist.remove()
        pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3]).quantize(64))
    first, *others = pictures
    first.save(file, save_all=True, append_images=others, duration=1000 // _FRAMES_PER_S, loop=0)


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


def _paint(axes: Axes, scene: Scene) -> list[Artist]:
    """Draw what moves; return it, the lowest first."""
    artists: list[Artist] = []
    circles = [((one.x_km, one.y_km), one.radius_km, _colour(one)) for one in scene.alerts]
    for centre, radius_km, colour in circles:
        within = Circle(centre, radius_km, color=colour, alpha=0.25, linewidth=0, zorder=1)
        artists.append(axes.add_patch(within))
    colours = [_COLOURS[home * 3 % len(_COLOURS)] for home in scene.homes]
    artists.append(axes.scatter(scene.x_km, scene.y_km, s=9, c=colours, linewidths=0, zorder=2))
    for centre, radius_km, colour in circles:
        edge = Circle(centre, radius_km, fill=False, color=colour, zorder=5)
        artists.append(axes.add_patch(edge))
    return artists


def _colour(alert: AlertMark) -> str:
    return _ALERT_COLOURS.get(alert.kind, "black")
