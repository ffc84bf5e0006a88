"""Figures 9, 12 and 13 of RELOC 2021: where clients are, and how large topics are."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from nearcast.domain.plan import Model
from nearcast.domain.scenario import FloatArray, Scenario
from nearcast.experiments.figures.figure import (
    CsvRow,
    Effort,
    FigureResult,
    FindingKind,
    PaperFigure,
    SweepRows,
    Verdict,
    judge,
)
from nearcast.experiments.figures.settings import source_2021
from nearcast.experiments.figures.thresholds import LITTLE
from nearcast.pictures.home_map import draw_home_map
from nearcast.pictures.topic_map import draw_topic_maps
from nearcast.pictures.topic_sizes import draw_topic_sizes
from nearcast.pipeline.sweep.cell import make_scenario
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import make_plan

__all__ = ["FIGURES_EXAMPLES", "scenario_2021", "size_verdicts", "spread_km"]

_SEED = 1
_PAPER_TOPICS, _PAPER_LARGEST, _PAPER_MOST_TOPICS = 64, 21, 4
_TRIES = 12
_OVERLAP = 0.12
"""Of five topics enough to see clients in several of them; 64 topics take the default."""


def scenario_2021(
    effort: Effort, seed: int, *, sigma_km: float, topics: int, p: float = 2.0, **others: float
) -> Scenario:
    """Return a scenario of 2021."""
    source, parameters = source_2021(
        effort, sigma_km=sigma_km, spool_per_member=p, topics=topics, **others
    )
    return make_scenario(source, json.dumps(parameters, sort_keys=True), seed)


def spread_km(scenario: Scenario) -> FloatArray:
    """Return the standard deviation of positions around the middle of each topic [topic].

    Only of clients whose first topic it is: the others stand where their first topic is.
    """
    members, clients = scenario.members, scenario.clients
    _, first = np.unique(members.client, return_index=True)
    spreads = []
    for topic in range(len(scenario.topics)):
        mine = members.client[first[members.topic[first] == topic]]
        place = np.column_stack([clients.x_km[mine], clients.y_km[mine]])
        if len(mine) > 1:
            spreads.append(np.sqrt(place.var(axis=0, ddof=1).mean()))
    return np.array(spreads)


def _position_rows(scenario: Scenario, name: str) -> list[CsvRow]:
    members, clients = scenario.members, scenario.clients
    return [
        {
            "example": name,
            "topic": int(topic),
            "client": int(client),
            "x_km": float(clients.x_km[client]),
            "y_km": float(clients.y_km[client]),
        }
        for topic, client in zip(members.topic, members.client, strict=True)
    ]


def _in_several(scenario: Scenario) -> int:
    return int(np.sum(np.bincount(scenario.members.client) > 1))


def _example(effort: Effort, overlap: float, fits: Callable[[int], bool]) -> Scenario:
    """Return the first scenario whose number of clients in several topics fits, or the last.

    A follower graph knows no overlap: which topics share clients is up to the seed.
    """
    for seed in range(_SEED, _SEED + _TRIES):
        scenario = scenario_2021(effort, seed, sigma_km=1.0, topics=5, overlap=overlap)
        if fits(_in_several(scenario)):
            break
    return scenario


def _distribution(effort: Effort, _rows: SweepRows) -> FigureResult:
    shared = _example(effort, _OVERLAP, lambda count: count > 0)
    apart = _example(effort, 0.0, lambda count: count == 0)
    spread = float(spread_km(apart).mean())
    examples = {"some clients in several topics": shared, "every client in one topic": apart}
    picture = draw_topic_maps(
        examples,
        title="2021, figure 9: examples of client distribution (N = 5, L = 16, sigma = 1 km)",
        note="Every two clients of a topic are joined by a line.",
    )
    return FigureResult(
        rows=[row for name, one in examples.items() for row in _position_rows(one, name)],
        verdicts=[
            judge(
                "Members of a topic follow a Gaussian with a standard deviation of 1 km",
                abs(spread - 1.0) < LITTLE,
                f"{spread:.2f} km on average over 5 topics",
                kind=FindingKind.INPUT,
                if_not="the field cuts off the tails, and five topics are few",
            ),
            judge(
                "One example has clients in several topics, the other has none",
                _in_several(shared) > 0 and _in_several(apart) == 0,
                f"{_in_several(shared)} and {_in_several(apart)} clients in several topics",
                kind=FindingKind.INPUT,
                if_not="which clients topics share is up to the follower graph",
            ),
        ],
        pictures={"": picture},
        alternative="Two maps of five topics, their clients joined by lines, and 16 servers.",
    )


def _map(effort: Effort, _rows: SweepRows) -> FigureResult:
    scenario = scenario_2021(effort, _SEED, sigma_km=1.0, topics=_PAPER_TOPICS)
    outcome = make_plan(scenario, PlanRequest(Model.RATIO, "reloc", regions=4, seed=_SEED))
    picture = draw_home_map(
        scenario, outcome.plan, outcome.assessment.detail, "RELOC, sigma = 1 km, K = 4"
    )
    most = int(np.bincount(scenario.members.client).max())
    cells: list[CsvRow] = [
        {
            "client": client,
            "x_km": float(scenario.clients.x_km[client]),
            "y_km": float(scenario.clients.y_km[client]),
            "home": int(home),
        }
        for client, home in enumerate(outcome.plan.homes)
    ]
    return FigureResult(
        rows=cells,
        verdicts=[
            judge(
                "A client is in fewer than 5 topics (max |T'| = 4)",
                most <= _PAPER_MOST_TOPICS,
                f"at most {most} topics a client; {_in_several(scenario)} of "
                f"{len(scenario.clients)} clients are in several",
                kind=FindingKind.INPUT,
                if_so="the scenario is made so",
            )
        ],
        pictures={"": picture},
        alternative="Map of the clients of 64 topics, coloured by the home that RELOC gives them.",
        notes=["The caption in the paper says N = 5, its text and the picture |T| = 64."],
    )


def _sizes(effort: Effort, _rows: SweepRows) -> FigureResult:
    scenario = scenario_2021(effort, _SEED, sigma_km=1.0, topics=_PAPER_TOPICS)
    sizes = np.bincount(scenario.members.topic, minlength=len(scenario.topics))
    picture = draw_topic_sizes(
        sizes,
        title="2021, figure 13: publishers/subscribers of the topics",
        note=f"{len(sizes)} topics with {int(sizes.sum())} memberships of "
        f"{len(scenario.clients)} clients.",
    )
    return FigureResult(
        rows=[
            {"members": size, "topics": int(count)}
            for size, count in enumerate(np.bincount(sizes))
            if count
        ],
        verdicts=size_verdicts(sizes),
        pictures={"": picture},
        alternative="Bars: how many topics have how many members.",
    )


def size_verdicts(sizes: np.ndarray) -> list[Verdict]:
    """Return the numbers that the paper gives of its topics against ours."""
    largest = int(sizes.max())
    return [
        judge(
            "|T| = 64 topics",
            len(sizes) == _PAPER_TOPICS,
            f"{len(sizes)}",
            kind=FindingKind.INPUT,
        ),
        judge(
            "The largest topic has 21 members (max |C_n|)",
            largest == _PAPER_LARGEST,
            f"{largest}; from {int(sizes.min())}, {sizes.mean():.1f} on average",
            kind=FindingKind.INPUT,
            if_not="which lines of the public data the paper took is not known; sizes are drawn "
            "from 10 to 21 here, and the largest of 64 draws is seldom the largest possible",
        ),
    ]


FIGURES_EXAMPLES = {
    "2021-9": PaperFigure(
        "2021-9",
        "Examples of client distribution (N = 5, L = 16, sigma = 1 km)",
        lambda _effort: [],
        _distribution,
    ),
    "2021-12": PaperFigure(
        "2021-12", "Homes by RELOC (sigma = 1 km, p = 2, K = 4)", lambda _effort: [], _map
    ),
    "2021-13": PaperFigure(
        "2021-13", "Publishers/subscribers of the topics", lambda _effort: [], _sizes
    ),
}
