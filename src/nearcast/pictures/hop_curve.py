"""How the ways through an overlay grow with the number of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure

from nearcast.pictures.style import (
    caption,
    house_style,
    legend_below,
    method_colours,
    new_figure,
    plain_log_axis,
)

__all__ = ["HopSeries", "draw_hop_curve"]

_MARKERS = "osD^vPX*<>hd"


@dataclass(frozen=True, slots=True)
class HopSeries:
    """Ways of one overlay in one state at several sizes."""

    keys: tuple[int, ...]
    mean_hops: tuple[float, ...]
    max_hops: tuple[int, ...]


@house_style()
def draw_hop_curve(series: Mapping[str, HopSeries]) -> Figure:
    """Return mean and longest ways against keys, both axes logarithmic."""
    figure = new_figure(10, 5.2 + 0.12 * len(series))
    panels = figure.subplots(1, 2)
    colours = method_colours(series)
    for axes, which, label in (
        (panels[0], "mean_hops", "hops of a lookup, mean"),
        (panels[1], "max_hops", "hops of a lookup, longest"),
    ):
        for number, (name, one) in enumerate(series.items()):
            marker = _MARKERS[number % len(_MARKERS)]
            axes.plot(one.keys, getattr(one, which), marker=marker, color=colours[name], label=name)
        axes.set_xlabel("keys")
        axes.set_ylabel(label)
        plain_log_axis(axes, "x")
        plain_log_axis(axes, "y")
    legend_below(panels[0])
    figure.suptitle("Ways through the overlay", x=0.01, ha="left", fontsize=13, fontweight="bold")
    caption(figure, "Each answer was compared with a sorted list of the keys.")
    return figure
