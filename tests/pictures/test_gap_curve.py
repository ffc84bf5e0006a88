"""Lines are means, bands reach from the best to the worst seed."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from nearcast.pictures.gap_curve import GapSeries, draw_gap_curve
from nearcast.pictures.style import figure_bytes


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_the_gap_band_reaches_from_the_best_to_the_worst_seed() -> None:
    gap = np.array([[np.nan, 0.4, 0.1], [np.nan, 0.2, np.nan]])
    figure = draw_gap_curve({"optimised": GapSeries(np.array([0.1, 1.0, 10.0]), gap)})
    (axes,) = figure.axes
    (line,) = axes.get_lines()
    assert np.asarray(line.get_xdata()).tolist() == [1, 10]
    assert np.asarray(line.get_ydata()) == pytest.approx([30, 10])
    band = axes.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == pytest.approx((10, 40))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "[s]" in axes.get_xlabel()
    assert "[%]" in axes.get_ylabel()


def test_a_gap_of_zero_is_shown_on_a_linear_axis() -> None:
    series = {"exact": GapSeries(np.array([1.0, 2.0]), np.array([[0.3, 0.0]]))}
    (axes,) = draw_gap_curve(series).axes
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[0] <= 0
    assert legend_texts(axes) == ["exact (ends at 0 %)"]


def test_a_method_without_any_plan_can_be_drawn() -> None:
    series = {"exact": GapSeries(np.array([1.0]), np.array([[np.nan]]))}
    figure = draw_gap_curve(series)
    assert figure_bytes(figure).startswith(b"\x89PNG")
    assert legend_texts(figure.axes[0]) == ["exact (no plan)"]
