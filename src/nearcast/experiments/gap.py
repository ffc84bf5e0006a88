"""How far `optimised` is from the proven bound, against seconds, on the papers' settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from nearcast.domain.generators.reloc2020 import Reloc2020, generate_reloc2020
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model, Objective
from nearcast.domain.scenario import Scenario
from nearcast.pictures.gap_curve import GapSeries, draw_gap_curve
from nearcast.planning.assessment import assess_homes
from nearcast.planning.bounds import proven_bound
from nearcast.planning.optimised import search_plan
from nearcast.planning.registry import find_method
from nearcast.planning.request import PlanRequest

__all__ = ["BASELINES", "SETTINGS", "GapPoint", "Setting", "draw", "run", "summary"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A kind of scenario and the regions that its paper gives RELOC."""

    model: Model
    regions: int
    generate: Callable[[int], Scenario]
    """From a seed."""


def _reloc2021(parameters: Reloc2021) -> Setting:
    return Setting(Model.RATIO, 4, lambda seed: generate_reloc2021(parameters, seed))


def _reloc2020(ratio: float) -> Setting:
    parameters = Reloc2020(ratio=ratio)
    return Setting(Model.CONNECTIONS, 10, lambda seed: generate_reloc2020(parameters, seed))


SETTINGS: Mapping[str, Setting] = {
    **{f"sigma {sigma}": _reloc2021(Reloc2021(sigma_km=sigma)) for sigma in (1, 5, 10, 15, 20)},
    "overlap 0.3": _reloc2021(Reloc2021(overlap=0.3)),
    "p 4": _reloc2021(Reloc2021(spool_per_member=4)),
    "p 8": _reloc2021(Reloc2021(spool_per_member=8)),
    **{f"ratio {ratio}": _reloc2020(ratio) for ratio in (0.07, 0.52, 0.81, 0.95, 1.28)},
}
BASELINES = ("nearest", "reloc", "otos", "otos-centre")


@dataclass(frozen=True, slots=True)
class GapPoint:
    """One seed of one setting at one time limit."""

    setting: str
    seed: int
    seconds: float
    """Time limit of the search."""
    cost_ms: float
    bound_ms: float
    gap: float
    bound_seconds: float
    reloc_ms: float
    best_baseline_ms: float


def run(
    settings: Mapping[str, Setting] = SETTINGS,
    seeds: Sequence[int] = range(10),
    limits_s: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 10.0),
    *,
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[GapPoint]:
    """Search each seed anew for every time limit; the bound is proved once per seed."""
    for name, setting in settings.items():
        for seed in seeds:
            begin(f"{name}, seed {seed}")
            yield from _measure(name, setting, seed, limits_s)


def _measure(name: str, setting: Setting, seed: int, limits_s: Sequence[float]) -> list[GapPoint]:
    scenario, model = setting.generate(seed), setting.model
    request = PlanRequest(model=model, seed=seed, regions=setting.regions)
    baselines = {
        method: assess_homes(
            scenario, find_method(method, model).plan(scenario, request).homes, model
        ).cost
        for method in BASELINES
    }
    costs = {}
    for limit_s in limits_s:
        homes = search_plan(scenario, replace(request, time_limit_s=limit_s)).homes
        costs[limit_s] = assess_homes(scenario, homes, model).cost
    bound = proven_bound(scenario, model, Objective.D1, upper_cost=min(costs.values()))
    return [
        GapPoint(
            setting=name,
            seed=seed,
            seconds=limit_s,
            cost_ms=cost,
            bound_ms=bound.value,
            gap=cost / bound.value - 1,
            bound_seconds=bound.seconds,
            reloc_ms=baselines["reloc"],
            best_baseline_ms=min(baselines.values()),
        )
        for limit_s, cost in costs.items()
    ]


def summary(points: Sequence[GapPoint]) -> list[dict[str, object]]:
    """Return one row a setting: mean and largest gap at each limit, and RELOC beside it."""
    rows: list[dict[str, object]] = []
    for setting in dict.fromkeys(point.setting for point in points):
        mine = [point for point in points if point.setting == setting]
        longest = max(point.seconds for point in mine)
        last = [point for point in mine if point.seconds == longest]
        row: dict[str, object] = {"setting": setting}
        for limit_s in sorted({point.seconds for point in mine}):
            gaps = [point.gap for point in mine if point.seconds == limit_s]
            row[f"gap at {limit_s:g} s"] = float(np.mean(gaps))
            row[f"largest at {limit_s:g} s"] = float(np.max(gaps))
        row["bound"] = float(np.mean([point.bound_ms for point in last]))
        row["optimised"] = float(np.mean([point.cost_ms for point in last]))
        row["reloc"] = float(np.mean([point.reloc_ms for point in last]))
        row["best published"] = float(np.mean([point.best_baseline_ms for point in last]))
        row["bound seconds"] = float(np.mean([point.bound_seconds for point in last]))
        rows.append(row)
    return rows


def draw(points: Sequence[GapPoint]) -> Figure:
    """Return the gap against seconds, a curve a setting."""
    series = {}
    for setting in dict.fromkeys(point.setting for point in points):
        mine = [point for point in points if point.setting == setting]
        seconds = sorted({point.seconds for point in mine})
        seeds = sorted({point.seed for point in mine})
        gap = {(point.seed, point.seconds): point.gap for point in mine}
        series[setting] = GapSeries(
            seconds=np.array(seconds),
            gap=np.array([[gap[seed, limit_s] for limit_s in seconds] for seed in seeds]),
        )
    return draw_gap_curve(series, title="Gap of optimised to the proven bound")
