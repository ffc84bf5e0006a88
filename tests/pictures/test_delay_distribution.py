"""The curves are the weighted distribution of the delays given."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from nearcast.delay.pair_delays import Pairs
from nearcast.pictures.delay_distribution import draw_delay_distribution
from nearcast.pictures.style import figure_bytes


def pairs_of(weight: list[float], total: int | None = None) -> Pairs:
    rows = np.arange(len(weight))
    return Pairs(rows, rows, np.array(weight), len(weight) if total is None else total)


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


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
    places = {line.get_label(): np.asarray(line.get_xdata())[0] for line in axes.get_lines()}
    assert places["speed limit (0.400 ms)"] == 0.4
    assert places["one-server limit (0.600 ms)"] == 0.6
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


def test_a_distribution_of_no_pairs_is_empty() -> None:
    figure = draw_delay_distribution({"nearest": np.empty(0)}, pairs_of([]))
    assert figure_bytes(figure).startswith(b"\x89PNG")
    assert list(figure.axes[0].get_lines()) == []
