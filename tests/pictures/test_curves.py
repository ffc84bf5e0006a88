"""The comparison, the distribution and the curves show the numbers they were given."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from nearcast.delay.pair_delays import Pairs
from nearcast.pictures.delay_distribution import draw_delay_distribution
from nearcast.pictures.gap_curve import GapSeries, draw_gap_curve
from nearcast.pictures.method_comparison import MethodCost, draw_method_comparison
from nearcast.pictures.scale_curve import ScaleSeries, draw_scale_curve, growth_per_tenfold
from nearcast.pictures.style import figure_bytes, method_colours


def pairs_of(weight: list[float], total: int | None = None) -> Pairs:
    rows = np.arange(len(weight))
    return Pairs(rows, rows, np.array(weight), len(weight) if total is None else total)


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
    assert widths == [0.8, 0.3, 1.5, 0.5, 1.0, 2.0]
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


def test_the_distribution_steps_by_the_weights() -> None:
    delays = {"nearest": np.array([3.0, 1.0, 2.0]), "mine": np.array([4.0, 4.0, 4.0])}
    figure = draw_delay_distribution(
        delays, pairs_of([0.5, 0.25, 0.25]), speed_ms=0.4, one_server_ms=0.6
    )
    (axes,) = figure.axes
    curve = axes.get_lines()[0]
    assert np.asarray(curve.get_xdata()).tolist() == [1, 1, 2, 3]
    assert np.asarray(curve.get_ydata()).tolist() == [0, 25, 50, 100]
    assert curve.get_drawstyle() == "steps-post"
    assert legend_texts(axes)[:2] == ["nearest (mean 2.250 ms)", "mine (mean 4.000 ms)"]
    lines = vertical_lines(axes)
    assert lines["speed limit (0.400 ms)"] == 0.4
    assert lines["one-server limit (0.600 ms)"] == 0.6
    assert axes.get_xlim()[1] >= 4.0
    assert figure.get_supxlabel().startswith("3 pairs;")


def test_a_large_sample_is_thinned_without_bending_the_curve() -> None:
    rng = np.random.default_rng(0)
    delays = rng.exponential(2.0, 100_000)
    figure = draw_delay_distribution({"nearest": delays}, pairs_of([1e-5] * 100_000, total=10**9))
    (axes,) = figure.axes
    x, y = (np.asarray(data) for data in axes.get_lines()[0].get_data())
    assert len(x) <= 2_001
    for quantile in (0.1, 0.5, 0.9):
        expected = np.quantile(delays, quantile)
        assert np.interp(100 * quantile, y, x) == pytest.approx(expected, rel=0.02)
    assert "100,000 pairs drawn from 1,000,000,000" in figure.get_supxlabel()


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
