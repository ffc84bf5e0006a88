"""Panels of a sweep show every line with its band, the limits, and one legend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nearcast.pictures.style import figure_bytes
from nearcast.pictures.sweep_panels import Line, Panel, draw_sweep_panels


def line(name: str, *means: float, band: float = 0.5) -> Line:
    mean = np.array(means)
    return Line(name, np.arange(1.0, len(means) + 1), mean, mean - band, mean + band)


def test_every_panel_has_its_lines_bands_and_limits() -> None:
    panels = [
        Panel("Storage", "messages", [line("a", 3, 4), line("b", 5, 6)], {"limit": 9.0}),
        Panel("Y", "delay [ms]", [line("a", 1, 10, band=0.1)], log=True),
        Panel("Y1", "delay [ms]", [line("b", 1, 2, band=np.nan)]),
        Panel("Y2", "delay [ms]", [line("b", 1, 2)]),
    ]
    figure = draw_sweep_panels(
        panels, title="All", x_label="sigma [km]", note="Small print.", x_ticks={1: "one", 2: "two"}
    )
    panels_drawn: list[Any] = figure.axes
    storage, delay, bandless, _, *unused = panels_drawn
    assert [axes.get_visible() for axes in unused] == [False, False]
    assert [list(one.get_ydata()) for one in storage.lines] == [[3, 4], [5, 6], [9, 9]]
    assert len(storage.collections) == 2
    assert len(bandless.collections) == 0
    assert storage.get_ylim()[0] == 0
    assert delay.get_yscale() == "log"
    assert [text.get_text() for text in delay.get_xticklabels()] == ["one", "two"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "limit"]
    assert figure.texts[-1].get_text() == "Small print."


def test_legend_and_small_print_stay_below_the_panels() -> None:
    names = [f"a line with a rather long name {number}" for number in range(9)]
    panels = [Panel("Y", "ms", [line(name, 1, 2) for name in names])] * 2
    figure = draw_sweep_panels(panels, title="T", x_label="x", note="word " * 60)
    figure_bytes(figure)
    canvas: Any = figure.canvas
    renderer, drawn = canvas.get_renderer(), list[Any](figure.axes)
    lowest = min(axes.get_tightbbox(renderer).y0 for axes in drawn)
    legend = figure.legends[0].get_window_extent(renderer)
    small_print = figure.texts[-1].get_window_extent(renderer)
    assert small_print.y0 >= 0
    assert small_print.y1 <= legend.y0 + 1
    assert legend.y1 <= lowest
    assert max(legend.x1, small_print.x1) <= figure.bbox.x1


@pytest.mark.parametrize("count", [1, 3])
def test_the_figure_grows_with_its_panels(count: int) -> None:
    figure = draw_sweep_panels(
        [Panel("Y", "ms", [line("a", 1, 2)])] * count, title="T", x_label="x", note=""
    )
    assert len(figure.axes) == count
