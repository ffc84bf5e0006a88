"""Figures 10 and 11 of RELOC 2021: one topic of seven clients, step by step and by each method.

The paper's limits fit a topic of exactly seven members: its spool of 7 fills A = 7, two
publishers take 14 of B = 20; with A = 10 and B = 50 the whole topic (7 x 7 = 49) fits one server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice

import numpy as np

from nearcast.delay.ratio import RatioCost, evaluate_ratio, ratio_problem
from nearcast.domain.plan import Model
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.experiments.figures.curves2021 import READINGS_NOTE, TOGETHER
from nearcast.experiments.figures.figure import (
    CsvRow,
    Effort,
    FigureResult,
    FindingKind,
    PaperFigure,
    SweepRows,
    Verdict,
    beside,
    judge,
    paper_name,
)
from nearcast.experiments.figures.settings import source_2021
from nearcast.pictures.plan_panels import draw_plan_panels
from nearcast.pictures.style import counted
from nearcast.pipeline.sweep.cell import make_scenario
from nearcast.planning.methods.assignment import Cooperation
from nearcast.planning.methods.reloc import reloc_steps
from nearcast.planning.registry import find_method
from nearcast.planning.request import PlanRequest

__all__ = [
    "FIGURES_PRELIMINARY",
    "Plans",
    "method_verdicts",
    "one_topic_scenarios",
    "plans_by_step",
    "step_verdicts",
]

Plans = dict[str, tuple[IndexArray, RatioCost]]
"""Homes and cost by the name of a step or a method."""

_MEMBERS = 7
_MEAN_TOPIC = 14.3
_METHODS = ("random", "nearest", "otos", "reloc", "optimised")
_ROUNDING = 1e-9


def one_topic_scenarios(effort: Effort, storage: float, compute: float) -> Iterator[Scenario]:
    """Yield scenarios of one topic with seven members, without end."""
    relative = _MEMBERS / _MEAN_TOPIC
    # The generator's limits grow with the size of topics; here they are the paper's.
    source, parameters = source_2021(
        effort,
        sigma_km=10.0,
        spool_per_member=1.0,
        topics=1,
        members_per_topic=_MEMBERS,
        storage=storage / relative,
        compute=compute / relative**2,
    )
    if effort.follows is not None:
        only = {"min_members": _MEMBERS, "max_members": _MEMBERS}
        parameters |= {**only, "storage": storage, "compute": compute}
    text = json.dumps(parameters, sort_keys=True)
    for seed in count():
        scenario = make_scenario(source, text, seed)
        if len(scenario.members) == _MEMBERS:
            yield scenario


def _request(scenario: Scenario, method: str) -> PlanRequest:
    seed = scenario.settings.seed or 0
    return PlanRequest(
        Model.RATIO, method, regions=4, seed=seed, iterations=20_000, bound_limit_s=0.05
    )


def plans_by_step(scenario: Scenario, cooperate: Cooperation = Cooperation.ALONE) -> Plans:
    """Return the plan after each step of RELOC."""
    problem = ratio_problem(scenario)
    steps = reloc_steps(scenario, _request(scenario, "reloc"), cooperate)
    return {name: (homes, evaluate_ratio(problem, homes)) for name, homes in steps.items()}


def _by_method(scenario: Scenario) -> Plans:
    problem = ratio_problem(scenario)
    plans: Plans = {}
    for method in _METHODS:
        planner = find_method(method, Model.RATIO)
        homes = planner.plan(scenario, _request(scenario, method)).homes
        plans[method] = (homes, evaluate_ratio(problem, homes))
    return plans


def _csv_rows(scenario: Scenario, plans: Plans, name: str) -> list[CsvRow]:
    return [
        {
            name: plan,
            "server": server,
            "clients_at_home": int(np.sum(homes == server)),
            "storage_used": float(cost.storage_used[server]),
            "compute_used": float(cost.compute_used[server]),
            "local_share": float(cost.local_share[server]),
            "Y_ms": cost.y_ms,
        }
        for plan, (homes, cost) in plans.items()
        for server in range(len(scenario.servers))
    ]


def _steps_result(effort: Effort, _rows: SweepRows) -> FigureResult:
    scenarios = list(
        islice(one_topic_scenarios(effort, storage=7.0, compute=20.0), effort.seeds_2021)
    )
    every = [plans_by_step(scenario) for scenario in scenarios]
    other = [plans_by_step(scenario, Cooperation.TOGETHER) for scenario in scenarios]
    titles = ("1. locality conscious", "2. relation conscious", "3. cooperation", "3. all together")
    drawn = every[0] | {"together": other[0]["cooperation"]}
    picture = draw_plan_panels(
        scenarios[0],
        dict(zip(titles, drawn.values(), strict=True)),
        title="2021, figure 10: homes and load after each step of RELOC (A = 7, B = 20)",
        note="One topic of 7 clients, 16 servers, sigma = 10 km, p = 1, K = 4.",
    )
    return FigureResult(
        rows=_csv_rows(scenarios[0], drawn, "step"),
        verdicts=beside(step_verdicts(every), step_verdicts(other), TOGETHER),
        pictures={"": picture},
        alternative="Maps of homes with bars of storage and load, one after each step, and by both "
        "readings of the last.",
        notes=[
            f"Verdicts over {counted(len(every), 'seed')}; the picture and the CSV show the first.",
            READINGS_NOTE,
        ],
    )


def step_verdicts(every: list[Plans]) -> list[Verdict]:
    """Return what each step is for, counted over seeds.

    With one topic neither can fail: members of a region end on fewer servers, and those who leave
    an exhausted one find another that has room. Of 300 seeds none did, by either reading.
    """

    def storage(plans: Plans, step: str) -> float:
        return float(plans[step][1].storage_used.sum())

    def overload(plans: Plans, step: str) -> float:
        return float(np.sum(1 - plans[step][1].local_share))

    seeds = len(every)
    saved = sum(storage(plans, "relation") <= storage(plans, "locality") for plans in every)
    spread = sum(
        overload(plans, "cooperation") <= overload(plans, "relation") + _ROUNDING for plans in every
    )
    kept = sum(overload(plans, "cooperation") <= _ROUNDING for plans in every)
    means = [np.mean([storage(plans, step) for plans in every]) for step in every[0]]
    over = [np.mean([overload(plans, step) for plans in every]) for step in every[0]]
    return [
        judge(
            "The relation step reduces the storage used",
            saved == seeds,
            f"not more storage in {saved} of {seeds} seeds; {means[0]:.0f} before and "
            f"{means[1]:.0f} after it, on average",
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="one spool a region instead of one a client",
        ),
        judge(
            "The cooperation step adjusts the use of storage among servers that are not heavily used",
            spread == seeds,
            f"not more overload in {spread} of {seeds} seeds, none left in {kept}; summed over "
            f"servers {over[1]:.2f} before and {over[2]:.2f} after it, on average",
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="a client that leaves an exhausted server goes to the least used one of its "
            "region, where one topic of seven finds room",
            if_not="the client that meets an exhausted server goes away alone, with a spool of "
            "its own",
        ),
    ]


def _methods_result(effort: Effort, _rows: SweepRows) -> FigureResult:
    scenarios = list(
        islice(one_topic_scenarios(effort, storage=10.0, compute=50.0), effort.seeds_2021)
    )
    every = [_by_method(scenario) for scenario in scenarios]
    picture = draw_plan_panels(
        scenarios[0],
        {paper_name(method): plan for method, plan in every[0].items()},
        title="2021, figure 11: homes and load by each method (A = 10, B = 50)",
        note="One topic of 7 clients, 16 servers, sigma = 10 km, p = 1, K = 4.",
    )
    return FigureResult(
        rows=_csv_rows(scenarios[0], every[0], "method"),
        verdicts=method_verdicts(every),
        pictures={"": picture},
        alternative="Maps of homes with bars of storage and load, by each method.",
        notes=[
            f"Verdicts over {counted(len(every), 'seed')}; the picture and the CSV show the first.",
            "The paper's text calls this figure 10 by a slip.",
        ],
    )


def method_verdicts(every: list[Plans]) -> list[Verdict]:
    """Return what the methods do with one topic, counted over seeds."""
    seeds = len(every)
    servers = {
        method: [int(np.sum(plans[method][1].storage_used > 0)) for plans in every]
        for method in _METHODS
    }
    one = sum(number == 1 for number in servers["otos"])
    delay = {
        method: float(np.mean([plans[method][1].y_ms for plans in every])) for method in _METHODS
    }
    used = ", ".join(
        f"{paper_name(method)} {np.mean(number):.1f}" for method, number in servers.items()
    )
    delays = ", ".join(f"{paper_name(method)} {ms:.2f}" for method, ms in delay.items())
    return [
        judge(
            "OTOS allocates the topic to one server, RELOC to several",
            one == seeds and sum(servers["reloc"]) > seeds,
            f"servers that keep the topic, on average: {used}; Y in ms: {delays}",
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="OTOS is defined so, and RELOC keeps clients of different regions apart",
        ),
    ]


FIGURES_PRELIMINARY = {
    "2021-10": PaperFigure(
        "2021-10",
        "Homes after each step of RELOC (A = 7, B = 20)",
        lambda _effort: [],
        _steps_result,
    ),
    "2021-11": PaperFigure(
        "2021-11", "Homes by each method (A = 10, B = 50)", lambda _effort: [], _methods_result
    ),
}
