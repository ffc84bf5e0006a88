"""The pictures of one plan: map, servers, delays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearcast.delay.pair_delays import choose_pairs, pair_delays_ms
from nearcast.domain.scenario import Scenario
from nearcast.pictures.delay_distribution import draw_delay_distribution
from nearcast.pictures.home_map import draw_home_map
from nearcast.pictures.server_bars import draw_server_bars
from nearcast.pictures.style import save_figure
from nearcast.planning.solve import PlanOutcome

__all__ = ["draw_plan"]


def draw_plan(scenario: Scenario, outcome: PlanOutcome, folder: Path) -> list[Path]:
    """Draw map.png, servers.png and delays.png into a folder and return their paths."""
    report, cost = outcome.report, outcome.assessment.detail
    pairs = choose_pairs(scenario, report.model, np.random.default_rng(0))
    delays = {report.method: pair_delays_ms(scenario, outcome.plan, report.model, pairs)}
    figures = {
        "map.png": draw_home_map(scenario, outcome.plan, cost, report.method),
        "servers.png": draw_server_bars(scenario, cost, report.method),
        "delays.png": draw_delay_distribution(
            delays,
            pairs,
            speed_ms=report.limits.get("speed_ms"),
            one_server_ms=report.limits.get("one_server_ms"),
        ),
    }
    for name, figure in figures.items():
        save_figure(figure, folder / name)
    return [folder / name for name in figures]
