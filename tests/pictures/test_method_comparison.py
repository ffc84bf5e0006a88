"""Bars show costs, parts and gaps, and stay inside the picture."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from nearcast.pictures.method_comparison import MethodCost, draw_method_comparison
from nearcast.pictures.style import figure_bytes, method_colours


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def vertical_lines(axes: Axes) -> dict[str, float]:
    """Return the place of each line that is vertical, by its legend text."""
    found = {}
    for line in axes.get_lines():
        x = np.asarray(line.get_xdata(), dtype=float)
        if len(x) == 2 and x[0] == x[1]:
            found[str(line.get_label())] = float(x[0])
    return found


def test_bars_show_the_parts_the_best_method_on_top() -> None:
    costs = [
        MethodCost("nearest", 3.0, {"Y1": 1.0, "Y2": 2.0}),
        MethodCost("optimised", 1.1, {"Y1": 0.8, "Y2": 0.3}, seconds=2.0),
        MethodCost("mine", 2.0, {"Y1": 1.5, "Y2": 0.5}),
    ]
    figure = draw_method_comparison(costs, bound_ms=1.0, speed_ms=0.5, one_server_ms=0.7)
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["optimised", "mine", "nearest"]
    widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([0.8, 0.3, 1.5, 0.5, 1.0, 2.0])
    begins = [bar.get_x() for bar in axes.patches]  # type: ignore[attr-defined]
    assert begins == [0, 0.8, 0, 1.5, 0, 1.0]
    assert [text.get_text() for text in axes.texts] == [
        "1.100 ms   +10 %   in 2 s",
        "2.000 ms   +100 %",
        "3.000 ms   +200 %",
    ]
    first = to_hex(axes.patches[0].get_facecolor()).upper()
    assert first == method_colours(["optimised"])["optimised"]
    assert vertical_lines(axes) == {
        "proven bound: no plan can be faster (1.000 ms)": 1.0,
        "one-server limit (0.700 ms)": 0.7,
        "speed limit (0.500 ms)": 0.5,
    }
    assert legend_texts(axes)[:2] == ["Y1", "Y2"]
    assert "[ms]" in axes.get_xlabel()


def test_no_label_of_the_comparison_leaves_the_picture() -> None:
    costs = [
        MethodCost(f"a rather long name {number}", 10.0**number, seconds=12_345.0)
        for number in range(6)
    ]
    figure = draw_method_comparison(costs, bound_ms=0.001, title="a long title " * 12)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for text in (*axes.texts, *axes.get_yticklabels(), axes.title):
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width


def test_a_comparison_without_a_bound_claims_no_gap() -> None:
    figure = draw_method_comparison([MethodCost("nearest", 12_345.6)], cost_label="D1 [ms]")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["12,345.6 ms"]
    assert vertical_lines(axes) == {}
    assert axes.get_legend() is None


def test_a_comparison_of_no_methods_is_empty() -> None:
    figure = draw_method_comparison([])
    assert figure_bytes(figure).startswith(b"\x89PNG")
    assert list(figure.axes[0].patches) == []
