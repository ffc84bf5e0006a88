"""Methods side by side: the cost of each against what no plan can beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nearcast.pictures.limit_lines import draw_limit_lines
from nearcast.pictures.style import (
    caption,
    house_style,
    legend_below,
    method_colours,
    new_figure,
    number_text,
    plain,
    shortened,
    title_text,
)

__all__ = ["MethodCost", "draw_method_comparison"]

_LIGHTER_PER_PART = 0.55
_WIDTH_IN = 9.0
_NAME_LETTER_IN, _LABEL_LETTER_IN = 0.095, 0.075


@dataclass(frozen=True, slots=True)
class MethodCost:
    """The cost that one method reached."""

    method: str
    cost_ms: float
    parts_ms: Mapping[str, float] = field(default_factory=dict)
    """Parts that add up to the cost, by name (Y1, Y2), or empty."""
    seconds: float | None = None
    """How long planning took."""


@house_style()
def draw_method_comparison(
    costs: Sequence[MethodCost],
    *,
    title: str = "Methods side by side",
    cost_label: str = "Y, mean delay of a delivery [ms]",
    bound_ms: float | None = None,
    speed_ms: float | None = None,
    one_server_ms: float | None = None,
) -> Figure:
    """Return a horizontal bar per method, the best on top, with its gap to the bound."""
    ranked = sorted(costs, key=lambda cost: cost.cost_ms)
    figure = new_figure(_WIDTH_IN, 2.3 + 0.5 * len(ranked))
    axes = figure.add_subplot()
    colours = method_colours(cost.method for cost in ranked)
    for place, cost in enumerate(ranked):
        _draw_bar(axes, place, cost, colours[cost.method])
        axes.annotate(
            _label(cost, bound_ms), (cost.cost_ms, place), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=10,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
        )  # fmt: skip
    draw_limit_lines(axes, bound_ms=bound_ms, one_server_ms=one_server_ms, speed_ms=speed_ms)
    names = [plain(shortened(cost.method, 24)) for cost in ranked]
    axes.set_yticks(range(len(ranked)), names, fontsize=11)
    axes.set_ylim(len(ranked) - 0.4, -0.6)
    labels = [_label(cost, bound_ms) for cost in ranked]
    axes.set_xlim(0, max(_right_end(ranked, names, labels), 1.05 * (bound_ms or 0.0)))
    axes.grid(visible=False, axis="y")
    axes.set_title(title_text(title, figure.get_figwidth()))
    axes.set_xlabel(cost_label)
    handles = [*_part_handles(ranked), *axes.get_legend_handles_labels()[0]]
    legend_below(axes, handles)
    if bound_ms:
        caption(figure, "Percentages: how far the cost lies above the proven bound.")
    return figure


def _right_end(costs: Sequence[MethodCost], names: list[str], labels: list[str]) -> float:
    """Return the end of the axis that leaves room for every label, which starts after its bar."""
    axes_in = _WIDTH_IN - _NAME_LETTER_IN * max(map(len, names), default=0) - 0.3
    ends = [
        cost.cost_ms / max(1 - (_LABEL_LETTER_IN * len(label) + 0.1) / axes_in, 0.1)
        for cost, label in zip(costs, labels, strict=True)
    ]
    return max(ends, default=0.0) or 1.0


def _draw_bar(axes: Axes, place: int, cost: MethodCost, colour: str) -> None:
    begin_ms = 0.0
    for number, value_ms in enumerate(cost.parts_ms.values() or [cost.cost_ms]):
        axes.barh(place, value_ms, left=begin_ms, height=0.62, color=_lighter(colour, number))
        begin_ms += value_ms


def _lighter(colour: str, steps: int) -> tuple[float, float, float]:
    keep = (1 - _LIGHTER_PER_PART) ** steps
    red, green, blue = (1 - keep * (1 - channel) for channel in to_rgb(colour))
    return red, green, blue


def _label(cost: MethodCost, bound_ms: float | None) -> str:
    text = f"{cost.cost_ms:,.{3 if cost.cost_ms < 100 else 1}f} ms"
    if bound_ms:
        text += f"   +{number_text(100 * (cost.cost_ms / bound_ms - 1))} %"
    if cost.seconds is not None:
        text += f"   in {number_text(cost.seconds)} s"
    return text


def _part_handles(costs: Sequence[MethodCost]) -> list[Patch]:
    names = dict.fromkeys(name for cost in costs for name in cost.parts_ms)
    return [
        Patch(facecolor=_lighter("#606060", number), label=plain(name))
        for number, name in enumerate(names)
    ]
