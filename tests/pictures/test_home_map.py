"""The map shows every client at its home, or says that it shows a sample."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.axes import Axes

from nearcast.delay.ratio import RatioCost, evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Brokers, Plan
from nearcast.domain.scenario import FloatArray, Scenario
from nearcast.pictures.home_map import draw_home_map
from nearcast.pictures.server_load import cost_text
from nearcast.pictures.style import figure_bytes


def small_scenario(side: int = 3, topics: int = 5) -> Scenario:
    return generate_reloc2021(Reloc2021(topics=topics, servers_per_side=side), seed=1)


def plan_of(scenario: Scenario) -> Plan:
    homes = (np.arange(len(scenario.clients)) % len(scenario.servers)).astype(np.int32)
    none = np.empty(0, dtype=np.int32)
    brokers = Brokers(none, none, np.empty(0, dtype=np.bool_), np.empty(0))
    return Plan(homes, homes[scenario.members.client], brokers)


def ratio_cost(servers: int, storage_used: FloatArray, compute_used: FloatArray) -> RatioCost:
    zeros = np.zeros(servers)
    return RatioCost(1.5, 1.0, 0.5, storage_used, compute_used, zeros, zeros, zeros)


def with_limits(scenario: Scenario, **limits: FloatArray) -> Scenario:
    return dataclasses.replace(scenario, servers=dataclasses.replace(scenario.servers, **limits))


def collection(axes: Axes, name: str) -> Any:
    return next(item for item in axes.collections if item.get_gid() == name)


def test_the_map_has_a_dot_and_a_line_a_client_and_a_square_a_server() -> None:
    scenario = small_scenario()
    plan = plan_of(scenario)
    cost = evaluate_ratio(ratio_problem(scenario), plan.homes)
    figure = draw_home_map(scenario, plan, cost, "nearest")
    (axes,) = figure.axes
    clients, servers = len(scenario.clients), len(scenario.servers)
    assert len(collection(axes, "clients").get_offsets()) == clients
    assert len(collection(axes, "servers").get_offsets()) == servers
    lines = collection(axes, "home-lines").get_segments()
    assert len(lines) == clients
    home = plan.homes[7]
    assert lines[7][1] == pytest.approx([scenario.servers.x_km[home], scenario.servers.y_km[home]])
    dots, squares = collection(axes, "clients"), collection(axes, "servers")
    assert np.array_equal(dots.get_facecolors(), squares.get_facecolors()[plan.homes])
    assert axes.get_title("left") == f"Homes by nearest: {cost_text(cost)}"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [km]", "y [km]")
    assert figure.get_supxlabel().startswith(f"{clients} clients, 9 servers, ")


def test_overloaded_servers_are_crossed_and_squares_grow_with_storage() -> None:
    scenario = with_limits(small_scenario(2), storage=np.array([100.0, 50, 200, 100]))
    cost = ratio_cost(4, np.array([101.0, 50, 3, 99]), np.zeros(4))
    figure = draw_home_map(scenario, plan_of(scenario), cost, "random")
    (axes,) = figure.axes
    crosses = collection(axes, "overloaded").get_offsets()
    assert crosses.tolist() == [[scenario.servers.x_km[0], scenario.servers.y_km[0]]]
    area = collection(axes, "servers").get_sizes()
    assert area / area[2] == pytest.approx([0.5, 0.25, 1, 0.5])
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_texts()[-1].get_text() == "overloaded server"


def test_neighbours_on_the_map_have_different_colours() -> None:
    scenario = small_scenario(side=6)
    cost = ratio_cost(36, np.zeros(36), np.zeros(36))
    (axes,) = draw_home_map(scenario, plan_of(scenario), cost, "nearest").axes
    colours = collection(axes, "servers").get_facecolors().reshape(6, 6, 4)
    assert (colours[1:] != colours[:-1]).any(axis=-1).all()
    assert (colours[:, 1:] != colours[:, :-1]).any(axis=-1).all()


def test_a_crowd_is_sampled_and_the_small_print_says_so() -> None:
    scenario = small_scenario(side=16, topics=1800)
    plan = plan_of(scenario)
    cost = ratio_cost(256, np.full(256, 1e9), np.zeros(256))
    figure = draw_home_map(scenario, plan, cost, "nearest", seed=3)
    (axes,) = figure.axes
    dots = collection(axes, "clients").get_offsets()
    assert len(dots) == len(np.unique(dots, axis=0)) == 20_000
    assert "home-lines" not in [item.get_gid() for item in axes.collections]
    assert "A random sample of 20,000 clients is shown." in figure.get_supxlabel()
    again = draw_home_map(scenario, plan, cost, "nearest", seed=3).axes[0]
    assert np.array_equal(dots, collection(again, "clients").get_offsets())


def test_one_server_with_a_strange_name_can_be_drawn() -> None:
    scenario = small_scenario(side=1, topics=1)
    scenario = with_limits(scenario, ids=pa.array(["$\\x{ <script> with a long tail"]))
    plan = plan_of(scenario)
    cost = evaluate_ratio(ratio_problem(scenario), plan.homes)
    figure = draw_home_map(scenario, plan, cost, "_$own")
    assert figure_bytes(figure).startswith(b"\x89PNG")
    assert "1 server," in figure.get_supxlabel()


def test_positions_outside_the_field_are_shown() -> None:
    scenario = small_scenario(2)
    moved = dataclasses.replace(
        scenario,
        servers=dataclasses.replace(scenario.servers, x_km=scenario.servers.x_km + 500),
        clients=dataclasses.replace(scenario.clients, x_km=scenario.clients.x_km + 500),
    )
    cost = ratio_cost(4, np.zeros(4), np.zeros(4))
    (axes,) = draw_home_map(moved, plan_of(moved), cost, "nearest").axes
    left, right = axes.get_xlim()
    assert 400 < left < moved.clients.x_km.min()
    assert moved.clients.x_km.max() < right < 600
