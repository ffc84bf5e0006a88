"""What figures 14 to 16 of RELOC 2021 share: six panels of metrics against a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nearcast.experiments.figures.figure import paper_name
from nearcast.experiments.figures.settings import COMPUTE_2021, STORAGE_2021
from nearcast.experiments.figures.summary import Curves
from nearcast.pictures.style import method_colours
from nearcast.pictures.sweep_panels import Line, Panel

__all__ = [
    "BAND_NOTE",
    "METHODS",
    "PUBLISHED",
    "READINGS_NOTE",
    "TOGETHER",
    "least_lines",
    "left_on_the_table",
    "limit_lines",
    "listed",
    "method_look",
    "six_panels",
]

PUBLISHED = ("random", "nearest", "otos", "reloc")
"""What the paper compares."""
METHODS = (*PUBLISHED, "reloc-together", "otos-centre", "optimised")
_MARKERS = {
    "random": "v",
    "nearest": "s",
    "otos": "^",
    "otos-centre": "P",
    "region": "X",
    "relation": "D",
    "reloc": "o",
    "reloc-together": "p",
    "optimised": "*",
}
_LIMITS = {
    "bound": ("proven bound: no plan can be faster", "#000000", (0, (4, 1.5))),
    "one_server_ms": ("one-server limit", "#555555", (0, (3, 1, 1, 1))),
    "speed_ms": ("speed limit", "#808080", (0, (1, 1.5))),
}
_METRICS = {
    "storage_used": ("Storage used", "per server [messages]"),
    "compute_used": ("Computational load", "per server [messages x publishers]"),
    "home_km": ("Distance to the home server", "distance [km]"),
    "Y": ("Y: delivery delay", "mean delay [ms]"),
    "Y1": ("Y1: part of the distance to homes", "mean delay [ms]"),
    "Y2": ("Y2: part of resources and servers", "mean delay [ms]"),
}
BAND_NOTE = (
    "Lines: means. Bands: 95 % intervals (Student's t) of the mean over servers x seeds (storage, "
    "load), clients x seeds (distance), and seeds (Y, Y1, Y2; from three seeds on)."
)


READINGS_NOTE = (
    "Cooperation has two readings: the lines of Algorithm 1 move one publisher at a time (RELOC here, "
    "and in all verdicts), the prose moves all publishers of a topic together (`reloc-together`)."
)
TOGETHER = "all publishers of a topic moved together"
"""The other reading, beside a verdict."""


def method_look(method: str) -> dict[str, Any]:
    """Return colour and marker of a method, the same in all figures."""
    return {"colour": method_colours([method])[method], "marker": _MARKERS.get(method, "o")}


def limit_lines(curves: Curves, line: str = "optimised") -> list[Line]:
    """Return the bound and the limits that the cells of a line know."""
    return [
        curves.drawn(line, metric, label, colour=colour, dashes=dashes)
        for metric, (label, colour, dashes) in _LIMITS.items()
        if curves.has(line, metric)
    ]


def six_panels(
    curves: Curves,
    drawn: Sequence[str],
    label: Callable[[str], str],
    look: Callable[[str], dict[str, Any]],
    more_on_y: Sequence[Line],
    *,
    log_y: bool = True,
) -> list[Panel]:
    """Return the paper's six panels; `more_on_y` joins the panel of Y."""
    panels = []
    for metric, (title, y_label) in _METRICS.items():
        lines = [curves.drawn(line, metric, label(line), **look(line)) for line in drawn]
        levels = {
            "storage_used": {"limit of a server (A, B)": STORAGE_2021},
            "compute_used": {"limit of a server (A, B)": COMPUTE_2021},
        }.get(metric, {})
        if metric == "Y":
            lines.extend(more_on_y)
        panels.append(Panel(title, y_label, lines, levels, log=log_y and metric == "Y"))
    return panels


def least_lines(
    curves: Curves, metric: str, xs: Sequence[float], among: Sequence[str]
) -> dict[float, str]:
    """Return the line with the least mean at each x."""
    return {x: min(among, key=lambda line: curves.mean(line, x, metric)) for x in xs}


def listed(values: Sequence[float] | dict[float, str], digits: int = 2) -> str:
    """Return numbers (or what is named at each number) in a row of words."""
    if isinstance(values, dict):
        return ", ".join(f"{paper_name(name)} at {x:g}" for x, name in values.items())
    return ", ".join(f"{value:.{digits}f}" for value in values)


def left_on_the_table(curves: Curves, reference: str = "reloc") -> str:
    """Return how far below a published method the optimised plan is, and how near the bound."""
    saved = [
        1 - curves.mean("optimised", x, "Y") / curves.mean(reference, x, "Y")
        for x in curves.xs("optimised")
    ]
    gaps = [
        curves.mean("optimised", x, "Y") / curves.mean("optimised", x, "bound") - 1
        for x in curves.xs("optimised")
    ]
    return (
        f"Left on the table: `optimised` has {100 * min(saved):.0f} to {100 * max(saved):.0f} % "
        f"less delay than {paper_name(reference)}, and is {100 * min(gaps):.1f} to "
        f"{100 * max(gaps):.1f} % above the proven bound that no plan can beat."
    )
