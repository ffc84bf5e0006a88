"""Each known limit is one vertical line with its value in the legend."""

from __future__ import annotations

import numpy as np

from nearcast.pictures.limit_lines import draw_limit_lines
from nearcast.pictures.style import new_figure


def test_only_known_limits_are_drawn_and_zero_is_known() -> None:
    axes = new_figure(4, 3).add_subplot()
    draw_limit_lines(axes, speed_ms=0.0, bound_ms=1.5)
    places = {line.get_label(): set(np.asarray(line.get_xdata())) for line in axes.get_lines()}
    assert places == {
        "proven bound: no plan can be faster (1.500 ms)": {1.5},
        "speed limit (0.000 ms)": {0.0},
    }
