"""The distribution of pair delays, several methods in one picture."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from nearcast.delay.pair_delays import Pairs
from nearcast.domain.scenario import FloatArray
from nearcast.pictures.limit_lines import draw_limit_lines
from nearcast.pictures.style import (
    caption,
    house_style,
    legend_below,
    method_colours,
    new_figure,
    plain,
    title_text,
)

__all__ = ["draw_delay_distribution"]

_MOST_POINTS = 2_000
_SHOWN_SHARE = 0.999
"""The axis ends where the slowest method has delivered this much: rare extremes squeeze the rest."""
_LINE_STYLES = ("-", "--", "-.", ":")


@house_style()
def draw_delay_distribution(
    delays_ms: Mapping[str, FloatArray],
    pairs: Pairs,
    *,
    title: str = "Delay of publisher/subscriber pairs",
    speed_ms: float | None = None,
    one_server_ms: float | None = None,
) -> Figure:
    """Return the share of pairs delivered within a delay, a curve a method.

    Parameters
    ----------
    delays_ms
        Delay of each of `pairs`, by method; from `delay.pair_delays.pair_delays_ms`.
    speed_ms, one_server_ms
        Means that no plan can beat, drawn as vertical lines.
    """
    figure = new_figure(9, 5.0 + 0.12 * len(delays_ms))
    axes = figure.add_subplot()
    colours = method_colours(delays_ms)
    end_ms = 0.0
    for number, (method, delay_ms) in enumerate(delays_ms.items() if len(pairs) else ()):
        x_ms, share = _curve(delay_ms, pairs.weight)
        end_ms = max(end_ms, float(x_ms[np.searchsorted(share, _SHOWN_SHARE - 1e-12)]))
        mean_ms = float(pairs.weight @ delay_ms)
        axes.step(
            x_ms, 100 * share, where="post", color=colours[method], linewidth=2,
            linestyle=_LINE_STYLES[number % len(_LINE_STYLES)],
            label=plain(f"{method} (mean {mean_ms:.3f} ms)"),
        )  # fmt: skip
        at_mean = share[np.searchsorted(x_ms, mean_ms, side="right") - 1]
        axes.plot(mean_ms, 100 * at_mean, "o", color=colours[method], markersize=7)
    draw_limit_lines(axes, speed_ms=speed_ms, one_server_ms=one_server_ms)
    axes.set_xlim(0, 1.02 * end_ms or 1.0)
    axes.set_ylim(0, 102)
    axes.set_title(title_text(title, figure.get_figwidth()))
    axes.set_xlabel("mean delay of the pair [ms]")
    axes.set_ylabel("pairs delivered within this delay [%]")
    legend_below(axes)
    text = f"{pairs.total:,} pairs; dots: mean of each method."
    if pairs.total > len(pairs):
        text = f"{len(pairs):,} pairs drawn from {pairs.total:,}; dots: mean of each method."
    caption(figure, f"{text} The slowest {1 - _SHOWN_SHARE:.1%} may lie beyond the right edge.")
    return figure


def _curve(delay_ms: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the distribution function, thinned to what a picture can show."""
    order = np.argsort(delay_ms, kind="stable")
    share = np.cumsum(weight[order])
    share /= share[-1]
    x_ms = delay_ms[order]
    if len(order) > _MOST_POINTS:
        chosen = np.searchsorted(share, np.linspace(0, 1, _MOST_POINTS))
        chosen = np.unique(np.minimum(chosen, len(order) - 1))
        x_ms, share = x_ms[chosen], share[chosen]
    return np.concatenate([x_ms[:1], x_ms]), np.concatenate([[0.0], share])
