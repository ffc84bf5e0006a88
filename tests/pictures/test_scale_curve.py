"""Growth is annotated as the factor for ten times the clients."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from nearcast.pictures.scale_curve import ScaleSeries, draw_scale_curve, growth_per_tenfold


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_growth_is_the_factor_for_ten_times_the_clients(power: float) -> None:
    clients = np.array([1e3, 1e4, 1e6])
    assert growth_per_tenfold(clients, 0.1 * clients**power) == pytest.approx(10**power)


def test_one_size_has_no_growth() -> None:
    assert growth_per_tenfold(np.array([1e3]), np.array([1.0])) is None


def test_scale_curves_show_time_and_memory_side_by_side() -> None:
    clients = np.array([1e4, 1e5, 1e6])
    series = {
        "nearest": ScaleSeries(clients, clients / 1e6),
        "reloc": ScaleSeries(clients, clients**2 / 1e9, peak_mb=np.full(3, 200.0)),
    }
    time, memory = draw_scale_curve(series).axes
    times = "\N{MULTIPLICATION SIGN}"
    assert legend_texts(time) == [f"nearest ({times}10)", f"reloc ({times}100)"]
    assert legend_texts(memory) == [f"reloc ({times}1)"]
    assert (time.get_ylabel(), memory.get_ylabel()) == ("time of planning [s]", "peak memory [MB]")
    assert {axes.get_xscale() for axes in (time, memory)} == {"log"}
    assert np.asarray(time.get_lines()[1].get_ydata()).tolist() == [0.1, 10, 1000]


def test_without_measured_memory_there_is_one_panel() -> None:
    series = {"nearest": ScaleSeries(np.array([1e4]), np.array([0.1]))}
    assert len(draw_scale_curve(series).axes) == 1
