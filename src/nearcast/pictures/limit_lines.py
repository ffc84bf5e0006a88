"""Vertical lines at what no plan can beat."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

__all__ = ["draw_limit_lines"]

_LINES = {
    "bound": ("proven bound: no plan can be faster", "#000000", "-"),
    "one_server": ("one-server limit", "#555555", (0, (5, 2))),
    "speed": ("speed limit", "#808080", (0, (1, 1.5))),
}


def draw_limit_lines(
    axes: Axes,
    *,
    speed_ms: float | None = None,
    one_server_ms: float | None = None,
    bound_ms: float | None = None,
) -> None:
    """Draw the limits that are known, each with its value in the legend."""
    values = {"bound": bound_ms, "one_server": one_server_ms, "speed": speed_ms}
    for name, value in values.items():
        if value is not None:
            label, colour, style = _LINES[name]
            axes.axvline(
                value, color=colour, linestyle=style, linewidth=1.8,
                path_effects=[withStroke(linewidth=3.2, foreground="white")],
                label=f"{label} ({value:,.3f} ms)",
            )  # fmt: skip
