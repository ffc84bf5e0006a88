"""The report page of a comparison: methods side by side, and why the best one wins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from nearcast.delay.pair_delays import choose_pairs, pair_delays_ms
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.pictures.delay_distribution import draw_delay_distribution
from nearcast.pictures.home_map import draw_home_map
from nearcast.pictures.method_comparison import MethodCost, draw_method_comparison
from nearcast.pictures.report import Picture, Section, Table, Tile, write_report
from nearcast.pictures.server_bars import draw_server_bars
from nearcast.pictures.style import save_figure
from nearcast.planning.comparison import Comparison
from nearcast.planning.solve import PlanOutcome

__all__ = ["write_comparison_report"]

_REFERENCE = "reloc"
"""The published method that the best one is set against."""


def write_comparison_report(scenario: Scenario, comparison: Comparison, folder: Path) -> Path:
    """Write report.html and its pictures as PNG files into a folder and return the page's path."""
    best = comparison.outcomes[0]
    other = next(
        (one for one in comparison.outcomes if one.report.method == _REFERENCE),
        comparison.outcomes[-1],
    )
    shown = [best] if other is best else [best, other]
    figures = {
        "comparison.png": _side_by_side(comparison),
        "delays.png": _delays(scenario, comparison),
    }
    for one in shown:
        method = one.report.method
        figures[f"map-{method}.png"] = draw_home_map(
            scenario, one.plan, one.assessment.detail, method
        )
        figures[f"servers-{method}.png"] = draw_server_bars(scenario, one.assessment.detail, method)
    for name, figure in figures.items():
        save_figure(figure, folder / name)
    page = folder / "report.html"
    write_report(
        page,
        f"{comparison.scenario_name}: where topics and clients should live",
        _sections(comparison, shown, figures),
        tiles=_tiles(comparison, best, other),
        lead=_lead(scenario, comparison),
    )
    return page


def _lead(scenario: Scenario, comparison: Comparison) -> str:
    return (
        f"{len(scenario.clients):,} clients, {len(scenario.topics):,} topics and "
        f"{len(scenario.members):,} memberships on {len(scenario.servers):,} edge servers, "
        f"planned under the {comparison.model} model."
    )


def _tiles(comparison: Comparison, best: PlanOutcome, other: PlanOutcome) -> list[Tile]:
    ratio = best.report.cost / other.report.cost if other.report.cost > 0 else 1.0
    gap = best.report.gap
    return [
        Tile("Best plan", f"{best.report.cost:.4g} ms", f"by {best.report.method}"),
        Tile("No plan can be below", f"{comparison.bound:.4g} ms", "proven bound"),
        Tile("So it is at most", "-" if gap is None else f"{100 * gap:.2f} %", "from the optimum"),
        Tile(f"Against {other.report.method}", f"{100 * ratio:.0f} %", "of its delay"),
    ]


def _sections(
    comparison: Comparison, shown: list[PlanOutcome], figures: dict[str, Figure]
) -> list[Section]:
    rows = [
        {
            "method": one.report.method,
            "cost [ms]": one.report.cost,
            "gap to bound [%]": None if one.report.gap is None else 100 * one.report.gap,
            **one.report.metrics,
            "overloaded servers": int(np.sum(one.assessment.local_share < 1 - 1e-9)),
            "seconds": one.report.seconds,
        }
        for one in comparison.outcomes
    ]
    side_by_side = Section(
        "Methods side by side",
        tables=[Table(rows, best_by="cost [ms]")],
        pictures=[
            Picture(
                figures["comparison.png"],
                "Bars of the cost of each method, with the proven bound and the limits as lines.",
                "Shorter is faster. No bar can ever end left of the proven bound.",
            )
        ],
    )
    delays = Section(
        "Who waits how long",
        pictures=[
            Picture(
                figures["delays.png"],
                "Share of publisher/subscriber pairs that are served within a delay.",
                "Further left is faster; the limits are means that no plan can beat.",
            )
        ],
    )
    maps = [
        Section(
            f"The plan of {one.report.method}",
            pictures=[
                Picture(
                    figures[f"map-{one.report.method}.png"],
                    "Map of clients, coloured by home server.",
                    "A cross marks a server that carries more than it can hold.",
                ),
                Picture(
                    figures[f"servers-{one.report.method}.png"],
                    "Use of each server with its limits.",
                    "What exceeds a limit is delegated to the cloud, at the price of its delay.",
                ),
            ],
        )
        for one in shown
    ]
    return [side_by_side, delays, *maps]


def _side_by_side(comparison: Comparison) -> Figure:
    costs = [
        MethodCost(
            one.report.method,
            one.report.cost,
            parts_ms={"Y1": one.report.metrics["Y1"], "Y2": one.report.metrics["Y2"]}
            if comparison.model is Model.RATIO
            else {},
            seconds=one.report.seconds,
        )
        for one in comparison.outcomes
    ]
    if comparison.model is Model.PLACEMENT:
        objective = comparison.outcomes[0].report.objective
        return draw_method_comparison(
            costs, cost_label=f"{str(objective).upper()} [ms]", bound_ms=comparison.bound
        )
    return draw_method_comparison(
        costs,
        bound_ms=comparison.bound,
        speed_ms=comparison.limits.get("speed_ms"),
        one_server_ms=comparison.limits.get("one_server_ms"),
    )


def _delays(scenario: Scenario, comparison: Comparison) -> Figure:
    pairs = choose_pairs(scenario, comparison.model, np.random.default_rng(0))
    delays = {
        one.report.method: pair_delays_ms(scenario, one.plan, comparison.model, pairs)
        for one in comparison.outcomes
    }
    return draw_delay_distribution(
        delays,
        pairs,
        speed_ms=comparison.limits.get("speed_ms"),
        one_server_ms=comparison.limits.get("one_server_ms"),
    )
