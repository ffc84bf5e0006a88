"""Delay against distance of the pairs of a topic, under two plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from nearcast.domain.scenario import FloatArray
from nearcast.pictures.style import (
    caption,
    house_style,
    legend_below,
    new_figure,
    plain,
    title_text,
)

__all__ = ["PairDelays", "draw_pair_scatter"]

_LOOKS: Sequence[Mapping[str, Any]] = (
    {"marker": "o", "facecolors": "none", "edgecolors": "#8C8C8C", "linewidths": 1.3},
    {"marker": "D", "color": "#0072B2", "linewidths": 0},
)
_FASTER, _SLOWER = "#009E73", "#D55E00"
_ROUNDING_MS = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PairDelays:
    """Delays of the same pairs under the plan of one objective."""

    name: str
    ms: FloatArray


@house_style()
def draw_pair_scatter(
    distance_km: FloatArray,
    before: PairDelays,
    after: PairDelays,
    *,
    title: str,
    permissible_ms: float | None = None,
    ms_per_km: float | None = None,
    note: str = "",
) -> Figure:
    """Return a point a pair and plan; a line joins the two of a pair that changed."""
    figure = new_figure(8, 5.6)
    axes = figure.add_subplot()
    for change, colour in ((after.ms < before.ms - _ROUNDING_MS, _FASTER),
                           (after.ms > before.ms + _ROUNDING_MS, _SLOWER)):  # fmt: skip
        ends = [
            [(km, old), (km, new)]
            for km, old, new in zip(
                distance_km[change], before.ms[change], after.ms[change], strict=True
            )
        ]
        word = "faster" if colour == _FASTER else "slower"
        count = int(np.sum(change))
        axes.add_collection(
            LineCollection(
                ends, colors=colour, linewidths=1.1, alpha=0.7, zorder=1,
                label=f"{count} of {len(change)} pairs {word} under {after.name}",
            )
        )  # fmt: skip
    for one, look in zip((before, after), _LOOKS, strict=True):
        axes.scatter(distance_km, one.ms, s=32, label=plain(one.name), zorder=2, **look)
    if permissible_ms is not None:
        axes.axhline(
            permissible_ms, color="black", linestyle="--", linewidth=1.6,
            label=f"permissible delay {permissible_ms:g} ms",
        )  # fmt: skip
    if ms_per_km is not None:
        axes.axline(
            (0, 0), slope=ms_per_km, color="#808080", linestyle=(0, (1, 1.5)), linewidth=1.6,
            label="speed limit: straight from client to client",
        )  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_title(title_text(title, 8))
    axes.set_xlabel("distance between publisher and subscriber [km]")
    axes.set_ylabel("delay [ms]")
    legend_below(axes)
    if note:
        caption(figure, title_text(note, 12))
    return figure
