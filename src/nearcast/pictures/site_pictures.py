"""Pictures of a running site: what its clients measured against what the model predicts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nearcast.pictures.site_delays import STAGES, SiteDelays, ratio_of
from nearcast.pictures.style import (
    caption,
    counted,
    house_style,
    legend_below,
    method_colours,
    new_figure,
    plain,
    shortened,
    title_text,
)

__all__ = ["draw_site_distribution", "draw_site_stages", "draw_site_topics"]

_STAGE_COLOURS = dict(zip(STAGES, ("#0072B2", "#56B4E9", "#E69F00", "#8C8C8C"), strict=True))
_PREDICTED_ALPHA = 0.45
_LINE_STYLES = ("-", "--", "-.", ":")
_MOST_POINTS = 1000
_SHOWN_SHARE = 0.995
"""The axis ends where the slowest method has delivered this much."""
_LABEL_SHARE = 0.42
"""Part of the width that the numbers beside the bars need."""


@house_style()
def draw_site_stages(
    predicted: Mapping[str, SiteDelays], measured: Mapping[str, SiteDelays]
) -> Figure:
    """Return two bars a method, predicted and measured, of the stages of a delivery."""
    methods = sorted(measured, key=lambda method: measured[method].total_ms)
    figure = new_figure(10, 2.2 + 0.85 * len(methods))
    axes = figure.add_subplot()
    names: dict[float, str] = {}
    for place, method in enumerate(methods):
        model, site = predicted[method], measured[method]
        names[place - 0.2] = f"{plain(shortened(method, 20))}: predicted"
        names[place + 0.2] = "measured"
        _draw_bar(axes, place - 0.2, model, f"{model.total_ms:.2f} ms", _PREDICTED_ALPHA)
        _draw_bar(axes, place + 0.2, site, _measured_label(model, site))
    longest = max((one.total_ms for one in (*predicted.values(), *measured.values())), default=0.0)
    axes.set_xlim(0, longest / (1 - _LABEL_SHARE) or 1.0)
    axes.set_yticks(list(names), list(names.values()))
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_title(title_text("Predicted and measured, stage by stage", 10))
    axes.set_xlabel("mean delay of a delivery [ms]")
    handles = [Patch(facecolor=colour, label=stage) for stage, colour in _STAGE_COLOURS.items()]
    legend_below(axes, handles, columns=4)
    caption(
        figure,
        "\N{MULTIPLICATION SIGN}: measured / predicted; the model has no time for processing.",
    )
    return figure


@house_style()
def draw_site_distribution(
    predicted: Mapping[str, SiteDelays], measured: Mapping[str, SiteDelays]
) -> Figure:
    """Return the share of notifications that arrived within a delay, a curve a method."""
    figure = new_figure(9, 5.2 + 0.12 * len(measured))
    axes = figure.add_subplot()
    colours = method_colours(measured)
    end_ms = 0.0
    for number, (method, site) in enumerate(measured.items()):
        share = np.linspace(0, 1, min(len(site.each_ms), _MOST_POINTS))
        delay_ms = np.quantile(site.each_ms, share)
        end_ms = max(end_ms, float(np.quantile(site.each_ms, _SHOWN_SHARE)))
        axes.plot(
            delay_ms, 100 * share, color=colours[method], linewidth=2,
            linestyle=_LINE_STYLES[number % len(_LINE_STYLES)],
            label=plain(f"{method} (median {np.median(site.each_ms):.2f} ms)"),
        )  # fmt: skip
        axes.plot(
            predicted[method].total_ms, 0, marker="^", markersize=11, color=colours[method],
            markeredgecolor="black", clip_on=False, zorder=5, linestyle="",
        )  # fmt: skip
    axes.set_xlim(0, 1.02 * end_ms or 1.0)
    axes.set_ylim(0, 102)
    axes.set_title(title_text("Measured delay from publisher to subscriber", 9))
    axes.set_xlabel("delay of a notification [ms]")
    axes.set_ylabel("arrived within this delay [%]")
    legend_below(axes)
    count = sum(len(site.each_ms) for site in measured.values())
    caption(
        figure,
        f"{counted(count, 'notification')}; triangles: means that the model predicts. "
        f"The slowest {1 - _SHOWN_SHARE:.1%} may lie beyond the right edge.",
    )
    return figure


@house_style()
def draw_site_topics(
    predicted: Mapping[str, SiteDelays], measured: Mapping[str, SiteDelays]
) -> Figure:
    """Return a point a topic and method: what was predicted, and what was measured."""
    figure = new_figure(8, 7.6 + 0.12 * len(measured))
    axes = figure.add_subplot()
    colours = method_colours(measured)
    end_ms, points = 0.0, 0
    for method, site in measured.items():
        model = predicted[method]
        topics = [topic for topic in site.topic_ms if topic in model.topic_ms]
        x = [model.topic_ms[topic] for topic in topics]
        y = [site.topic_ms[topic] for topic in topics]
        axes.scatter(
            x, y, s=28, color=colours[method], alpha=0.7, linewidths=0,
            label=plain(f"{method} ({counted(len(topics), 'topic')})"),
        )  # fmt: skip
        end_ms, points = max([end_ms, *x, *y]), points + len(topics)
    axes.axline((0, 0), slope=1, color="#555555", linewidth=1.3, zorder=0, label="as predicted")
    axes.set_xlim(0, 1.05 * end_ms or 1.0)
    axes.set_ylim(0, 1.05 * end_ms or 1.0)
    axes.set_aspect("equal")
    axes.set_title(title_text("Each topic: measured against predicted", 8))
    axes.set_xlabel("predicted mean delay [ms]")
    axes.set_ylabel("measured mean delay [ms]")
    legend_below(axes)
    caption(figure, f"{counted(points, 'point')}; above the line: slower than predicted.")
    return figure


def _draw_bar(
    axes: Axes, place: float, delays: SiteDelays, label: str, alpha: float | None = None
) -> None:
    begin_ms = 0.0
    for stage, value_ms in delays.stage_ms.items():
        width_ms = max(value_ms, 0.0)  # clocks that disagree may say less than nothing
        axes.barh(
            place, width_ms, left=begin_ms, height=0.36, color=_STAGE_COLOURS[stage], alpha=alpha
        )
        begin_ms += width_ms
    axes.annotate(
        label, (begin_ms, place), xytext=(6, 0), textcoords="offset points", va="center",
        fontsize=9.5,
    )  # fmt: skip


def _measured_label(model: SiteDelays, site: SiteDelays) -> str:
    between = "between servers"
    whole = _times(site.total_ms, model.total_ms)
    legs = _times(site.legs_ms, model.legs_ms)
    middle = _times(site.stage_ms[between], model.stage_ms[between])
    return f"{site.total_ms:.2f} ms, {whole} (legs {legs}, between {middle})"


def _times(measured_ms: float, predicted_ms: float) -> str:
    ratio = ratio_of(measured_ms, predicted_ms)
    return "\N{EN DASH}" if ratio is None else f"\N{MULTIPLICATION SIGN}{ratio:.2f}"
