"""Plans side by side: a map and bars each, on shared axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.pictures.plan_panels import draw_plan_panels
from nearcast.pictures.style import figure_bytes


def test_every_plan_has_a_map_and_bars_of_its_servers() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=1, servers_per_side=2, storage=10), seed=1)
    problem, clients = ratio_problem(scenario), len(scenario.clients)
    homes = {
        "together": np.zeros(clients, dtype=np.int32),
        "apart": (np.arange(clients) % 4).astype(np.int32),
    }
    plans = {name: (one, evaluate_ratio(problem, one)) for name, one in homes.items()}
    figure = draw_plan_panels(scenario, plans, title="Two plans", note="Small print.")
    panels: list[Any] = figure.axes
    together, apart, storage_together, storage_apart, *compute = panels
    assert together.get_title("left").startswith("together\nY = ")
    assert apart.get_title("left").startswith("apart\n")
    used = plans["together"][1].storage_used
    assert [bar.get_height() for bar in storage_together.patches] == used.tolist()
    assert [bar.get_height() for bar in storage_apart.patches] == plans["apart"][
        1
    ].storage_used.tolist()
    assert storage_together.get_ylim() == storage_apart.get_ylim()
    assert len(compute) == 2
    over = [bar.get_hatch() for bar in storage_together.patches]
    assert over == ["///", None, None, None]
    assert figure_bytes(figure).startswith(b"\x89PNG")
