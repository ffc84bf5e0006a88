"""Bars are sorted by load and carry their limits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.colors import to_hex

from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.pictures.server_bars import draw_server_bars
from nearcast.pictures.style import OVERLOAD_COLOUR, figure_bytes
from pictures.small_loads import ratio_cost, small_scenario, with_limits


def test_bars_are_sorted_by_load_with_a_tick_at_each_limit() -> None:
    scenario = with_limits(
        small_scenario(2),
        ids=pa.array(["a", "b", "c", "d"]),
        storage=np.array([100.0, 50, 25, 10]),
        compute=np.array([1.0, 1, 1, np.inf]),
    )
    cost = ratio_cost(4, np.array([50.0, 40, 30, 1]), np.array([0.1, 0.1, 0.1, 9]))
    storage, compute = draw_server_bars(scenario, cost, "nearest").axes
    heights = [bar.get_height() for bar in storage.patches]  # type: ignore[attr-defined]
    assert heights == [30, 40, 50, 1]  # shares 1.2, 0.8, 0.5, 0.1
    assert [label.get_text() for label in compute.get_xticklabels()] == ["c", "b", "a", "d"]
    ticks = [segment[0][1] for segment in storage.collections[0].get_segments()]  # type: ignore[attr-defined]
    assert ticks == [25, 50, 100, 10]
    assert len(compute.collections[0].get_segments()) == 3  # type: ignore[attr-defined]
    colours = [to_hex(bar.get_facecolor()).upper() for bar in storage.patches]
    assert [colour == OVERLOAD_COLOUR for colour in colours] == [True, False, False, False]
    assert "storage" in storage.get_ylabel()
    assert "[spool units]" in storage.get_ylabel()


def test_many_servers_become_a_profile_of_use_against_the_limit() -> None:
    scenario = small_scenario(side=8)
    count = len(scenario.servers)
    cost = ratio_cost(count, np.linspace(0, 1280, count), np.full(count, 320.0))
    figure = draw_server_bars(scenario, cost, "nearest")
    (axes,) = figure.axes
    storage, compute, limit = axes.get_lines()
    assert np.asarray(storage.get_ydata()) == pytest.approx(np.linspace(200, 0, count))
    assert np.asarray(compute.get_ydata()) == pytest.approx(np.full(count, 10.0))
    assert set(np.asarray(limit.get_ydata())) == {100}
    assert storage.get_label() == "storage (32 servers over the limit)"
    assert figure.get_supxlabel() == "64 servers, 32 with more than a limit allows."


def test_one_server_with_a_strange_name_can_be_drawn() -> None:
    scenario = small_scenario(side=1, topics=1)
    scenario = with_limits(scenario, ids=pa.array(["$\\x{ <script> with a long tail"]))
    homes = np.zeros(len(scenario.clients), dtype=np.int32)
    cost = evaluate_ratio(ratio_problem(scenario), homes)
    figure = draw_server_bars(scenario, cost, "_$own")
    assert figure_bytes(figure).startswith(b"\x89PNG")
    assert "1 server," in figure.get_supxlabel()
