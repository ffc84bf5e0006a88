"""The report page of a running site: whether it does what the plans say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from nearcast.domain.plan import Model, Plan
from nearcast.domain.scenario import Scenario
from nearcast.errors import ScenarioError
from nearcast.pictures.home_map import draw_home_map
from nearcast.pictures.report import Cell, Picture, Section, Table, Tile, write_report
from nearcast.pictures.server_load import PlanCost
from nearcast.pictures.site_delays import SiteDelays, measure_site, predict_site, ratio_of
from nearcast.pictures.site_pictures import (
    draw_site_distribution,
    draw_site_stages,
    draw_site_topics,
)
from nearcast.pictures.style import save_figure

__all__ = ["SiteRun", "write_site_report"]


@dataclass(frozen=True, slots=True, eq=False)
class SiteRun:
    """A plan that the site ran."""

    method: str
    plan: Plan
    cost: PlanCost
    """What the model says of it, as in `Assessment.detail`."""


def write_site_report(
    folder: Path,
    scenario: Scenario,
    model: Model,
    runs: Sequence[SiteRun],
    notifications: pa.Table,
    *,
    factor: float = 1.0,
    title: str = "A running site: measured against predicted",
    more: Sequence[Section] = (),
) -> Path:
    """Write report.html and its pictures as PNG files into a folder and return the page's path.

    Parameters
    ----------
    notifications
        Measured at clients; see `measure_site`. Ids of topics are those of the scenario.
    factor
        How many times as long as the model's the emulated delays were.
    more
        Sections for the end of the page.

    Raises
    ------
    ScenarioError
        When a column is missing, or a method has no measured notification.
    """
    measured = measure_site(notifications)
    predicted = {
        run.method: predict_site(scenario, run.plan, model, run.cost, factor) for run in runs
    }
    for run in runs:
        if run.method not in measured:
            raise ScenarioError(f"no notification was measured under the plan of {run.method}")
    measured = {run.method: measured[run.method] for run in runs}
    figures = {
        "site-stages.png": draw_site_stages(predicted, measured),
        "site-delays.png": draw_site_distribution(predicted, measured),
        "site-topics.png": draw_site_topics(predicted, measured),
    }
    for run in runs:
        figures[f"site-map-{run.method}.png"] = draw_home_map(
            scenario, run.plan, run.cost, run.method
        )
    for name, figure in figures.items():
        save_figure(figure, folder / name)
    page = folder / "report.html"
    write_report(
        page,
        title,
        [*_sections(runs, predicted, measured, figures, factor), *more],
        tiles=_tiles(predicted, measured),
        lead=_lead(scenario, measured, factor),
    )
    return page


def _lead(scenario: Scenario, measured: Mapping[str, SiteDelays], factor: float) -> str:
    count = sum(len(site.each_ms) for site in measured.values())
    times = "" if factor == 1 else f", {factor:g} times as long as in the scenario"
    return (
        f"{len(scenario.clients):,} clients, {len(scenario.topics):,} topics and "
        f"{len(scenario.servers):,} edge servers, run under the plans of {len(measured)} "
        f"methods. The delays of the network are emulated{times}. "
        f"{count:,} notifications were measured from the publisher to the subscriber."
    )


def _tiles(predicted: Mapping[str, SiteDelays], measured: Mapping[str, SiteDelays]) -> list[Tile]:
    best = min(measured, key=lambda method: measured[method].total_ms)
    worst = max(measured, key=lambda method: measured[method].total_ms)
    by_model = min(predicted, key=lambda method: predicted[method].total_ms)
    ratio = measured[best].total_ms / measured[worst].total_ms
    error = max(
        abs(site.total_ms / predicted[method].total_ms - 1) for method, site in measured.items()
    )
    return [
        Tile("Fastest, measured", f"{measured[best].total_ms:.4g} ms", f"by {best}"),
        Tile("Fastest, predicted", f"{predicted[by_model].total_ms:.4g} ms", f"by {by_model}"),
        Tile(f"Against {worst}", f"{100 * ratio:.0f} %", "of its measured delay"),
        Tile("Prediction off by", f"{100 * error:.1f} %", "at most, over all plans"),
    ]


def _sections(
    runs: Sequence[SiteRun],
    predicted: Mapping[str, SiteDelays],
    measured: Mapping[str, SiteDelays],
    figures: Mapping[str, Figure],
    factor: float,
) -> list[Section]:
    rows = [_row(method, predicted[method], site) for method, site in measured.items()]
    waits = [_wait(method, site) for method, site in measured.items()]
    unscaled = "" if factor == 1 else "Y in the titles is that of the scenario, not of the site."
    return [
        Section(
            "Does the site do what the plans say?",
            tables=[
                Table(
                    rows,
                    best_by="measured [ms]",
                    how_to_read="Means of a delivery. Y1 are the two ways between clients and "
                    "servers, Y2 is the way between servers; a ratio is measured / predicted.",
                )
            ],
            pictures=[
                Picture(
                    figures["site-stages.png"],
                    "Bars of the stages of a delivery, predicted and measured, by method.",
                    "The two bars of a method should be alike. What is measured beyond the "
                    "prediction is the time that real servers take.",
                )
            ],
        ),
        Section(
            "Who waits how long",
            tables=[Table(waits, best_by="median [ms]", how_to_read="Of single notifications.")],
            pictures=[
                Picture(
                    figures["site-delays.png"],
                    "Share of notifications that arrived within a delay, by method.",
                    "Further left is faster.",
                ),
                Picture(
                    figures["site-topics.png"],
                    "Measured against predicted mean delay of each topic.",
                    "On the line the prediction is right. What a plan delegates goes to the cloud by "
                    "whole publishers, so a topic may get more or less of that than its share.",
                ),
            ],
        ),
        Section(
            "Where clients were at home",
            unscaled,
            pictures=[
                Picture(
                    figures[f"site-map-{run.method}.png"],
                    f"Map of clients under the plan of {run.method}, coloured by home server.",
                    "A cross marks a server that carries more than it can hold.",
                )
                for run in runs
            ],
        ),
    ]


def _row(method: str, model: SiteDelays, site: SiteDelays) -> dict[str, Cell]:
    between = "between servers"
    return {
        "method": method,
        "measured [ms]": site.total_ms,
        "predicted Y [ms]": model.total_ms,
        "ratio": ratio_of(site.total_ms, model.total_ms),
        "predicted Y1 [ms]": model.legs_ms,
        "ratio of Y1": ratio_of(site.legs_ms, model.legs_ms),
        "predicted Y2 [ms]": model.stage_ms[between],
        "ratio of Y2": ratio_of(site.stage_ms[between], model.stage_ms[between]),
        "processing [ms]": site.stage_ms["processing"],
    }


def _wait(method: str, site: SiteDelays) -> dict[str, Cell]:
    return {
        "method": method,
        "notifications": len(site.each_ms),
        "median [ms]": float(np.median(site.each_ms)),
        "90 % within [ms]": float(np.quantile(site.each_ms, 0.9)),
        "99 % within [ms]": float(np.quantile(site.each_ms, 0.99)),
        "slowest [ms]": float(site.each_ms[-1]),
    }
