"""Figure 3 of the placement paper (2022): what the objectives D2 and D3 change, proved optimal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from matplotlib.figure import Figure

from nearcast.domain.plan import Objective
from nearcast.experiments.figures.figure import (
    CsvRow,
    Effort,
    FigureResult,
    FindingKind,
    PaperFigure,
    SweepRows,
    beside,
    judge,
)
from nearcast.experiments.figures.placement_findings import (
    ROUNDING_MS,
    PairTable,
    distance_verdicts,
    loose_verdicts,
    pair_table,
    thirds,
    tight_verdicts,
)
from nearcast.experiments.figures.settings import LONGER_2022, cells_2022
from nearcast.pictures.pair_scatter import PairDelays, draw_pair_scatter
from nearcast.pictures.style import counted
from nearcast.pictures.topic_map import draw_topic_maps
from nearcast.pipeline.sweep.cell import SweepCell, make_scenario

__all__ = ["FIGURES_2022"]

_GAP = 1e-6


def _tables(
    effort: Effort,
    rows: SweepRows,
    other: Objective,
    permissible_ms: tuple[float, float] | None = None,
) -> list[PairTable]:
    """Return a table a seed with the optima of D1 and one other objective.

    The optimum of D1 is the same for all permissible delays.
    """
    tables = []
    others = cells_2022(effort, other, permissible_ms)
    for d1, d2 in zip(cells_2022(effort, Objective.D1), others, strict=True):
        scenario = make_scenario(d2.source, d2.parameters, d2.seed)
        brokers = {
            objective: np.array(rows[cell]["topic_brokers"], dtype=np.int64)
            for objective, cell in ((Objective.D1, d1), (other, d2))
        }
        ms = {
            objective: np.array(rows[cell]["pair_ms"], dtype=np.float64)
            for objective, cell in ((Objective.D1, d1), (other, d2))
        }
        # A gap may be null where the optimum is 0, which is then proved.
        proved = all((rows[cell]["gap"] or 0.0) <= _GAP for cell in (d1, d2))
        tables.append(pair_table(scenario, ms, brokers, proved=proved))
    return tables


def _csv_rows(tables: list[PairTable], other: Objective) -> list[CsvRow]:
    return [
        {
            "seed": seed,
            "topic": int(table.topic[pair]),
            "distance_km": float(table.distance_km[pair]),
            "permissible_ms": float(table.permissible_ms[pair]),
            "d1_ms": float(table.ms[Objective.D1][pair]),
            f"{other.value}_ms": float(table.ms[other][pair]),
        }
        for seed, table in enumerate(tables)
        for pair in range(len(table.topic))
    ]


def _map_result(effort: Effort, _rows: SweepRows) -> FigureResult:
    cell = cells_2022(effort, Objective.D1)[0]
    scenario = make_scenario(cell.source, cell.parameters, cell.seed)
    clients, servers, topics = scenario.clients, scenario.servers, scenario.topics
    different = len(np.unique(topics.permissible_ms))
    picture = draw_topic_maps(
        {"clients joined by topic": scenario},
        title="2022, figure 3a: clients and servers",
        note=f"{len(clients)} clients, {len(servers)} servers, {len(topics)} topics.",
    )
    places = (("client", clients), ("server", servers))
    return FigureResult(
        rows=[
            {"kind": kind, "number": number, "x_km": float(x_km), "y_km": float(y_km)}
            for kind, table in places
            for number, (x_km, y_km) in enumerate(zip(table.x_km, table.y_km, strict=True))
        ],
        verdicts=[
            judge(
                "30 clients and 7 servers in a field of 10 km square, 6 topics with different "
                "permissible delays",
                (len(clients), len(servers), different) == (30, 7, 6),
                f"{len(clients)} clients, {len(servers)} servers, "
                f"{scenario.settings.width_km:g} km square, {different} permissible delays from "
                f"{topics.permissible_ms.min():g} to {topics.permissible_ms.max():g} ms",
                kind=FindingKind.INPUT,
                if_so="memberships, spools, storage and the cloud's delay are ours: the paper "
                "does not give them",
            )
        ],
        pictures={"": picture},
        alternative="Map of 30 clients and 7 servers; lines join the clients of a topic.",
    )


def _distance_result(effort: Effort, rows: SweepRows) -> FigureResult:
    tables = _tables(effort, rows, Objective.D2)
    table = tables[0]
    change, (near, far) = table.change_ms(Objective.D2), thirds(table)

    def shift_ms(topic: int) -> float:
        mine = table.topic == topic
        return float(change[mine & far].sum() - change[mine & near].sum())

    topic = max(np.unique(table.topic).tolist(), key=shift_ms)
    return FigureResult(
        rows=_csv_rows(tables, Objective.D2),
        verdicts=distance_verdicts(tables),
        pictures={"": _scatter(table, topic, Objective.D2, "3b", with_limit=False)},
        alternative="Delay against distance of the pairs of a topic under D1 and D2.",
        notes=[
            "The picture shows the topic of the first seed that changes most; verdicts are over "
            f"all topics of {counted(len(tables), 'seed')}."
        ],
    )


def _scatter(
    table: PairTable, topic: int, other: Objective, number: str, *, with_limit: bool
) -> Figure:
    mine = table.topic == topic
    limit_ms = float(table.permissible_ms[mine][0])
    name = f"topic {topic}"
    return draw_pair_scatter(
        table.distance_km[mine],
        PairDelays("minimal D1", table.ms[Objective.D1][mine]),
        PairDelays(f"minimal {other.value.upper()}", table.ms[other][mine]),
        title=f"2022, figure {number}: {other.value.upper()} against D1, {name}",
        permissible_ms=limit_ms if with_limit else None,
        ms_per_km=table.ms_per_km,
        note="One point a publisher/subscriber pair and plan; both plans are proved optimal."
        if table.proved
        else "One point a publisher/subscriber pair and plan.",
    )


def _topic_pairs(tables: list[PairTable]) -> Iterator[tuple[int, int, int, int]]:
    """Yield how well two topics show the paper's point: (score, seed, shorter, longer)."""
    for seed, table in enumerate(tables):
        change, late = table.change_ms(Objective.D3), table.is_late(Objective.D1)
        gains = late & (change < -ROUNDING_MS)
        loses = late & (change > ROUNDING_MS)
        gives = (change > ROUNDING_MS) & ~table.is_late(Objective.D3)
        topics = np.unique(table.topic).tolist()
        limit_ms = {topic: float(table.permissible_ms[table.topic == topic][0]) for topic in topics}
        for first in topics:
            for second in topics:
                if limit_ms[first] < limit_ms[second]:
                    one, two = table.topic == first, table.topic == second
                    score = int(np.sum(gains & one) - np.sum(loses & one) + np.sum(gives & two))
                    yield score, seed, first, second


def _deadline_result(effort: Effort, rows: SweepRows, *, tight: bool) -> FigureResult:
    tables = _tables(effort, rows, Objective.D3)
    longer = _tables(effort, rows, Objective.D3, LONGER_2022)
    findings = tight_verdicts if tight else loose_verdicts
    shortest_ms, longest_ms = LONGER_2022
    verdicts = beside(
        findings(tables),
        findings(longer),
        f"permissible delays of {shortest_ms:g} to {longest_ms:g} ms",
    )
    seed, tau1, tau2 = max(_topic_pairs(tables))[1:]
    return FigureResult(
        rows=_csv_rows(tables, Objective.D3),
        verdicts=verdicts,
        pictures={
            "": _scatter(
                tables[seed],
                tau1 if tight else tau2,
                Objective.D3,
                "3c" if tight else "3d",
                with_limit=True,
            )
        },
        alternative="Delay against distance of the pairs of a topic under D1 and D3, with its "
        "permissible delay.",
        notes=[
            f"The picture shows topic {tau1 if tight else tau2} of seed {seed}. The paper's two "
            "topics are, here, the two of one scenario in which most late pairs gain and most "
            "pairs in time give way.",
            f"Verdicts are over all topics of {counted(len(tables), 'seed')}. D3 has many optima, since how far "
            "a pair stays below its permissible delay does not count: of these the one with the "
            "least D1 is taken. The paper gives no permissible delays; ours decide whether its "
            "findings come out, so both choices are told.",
        ],
    )


def _cells(*objectives: Objective) -> Callable[[Effort], list[SweepCell]]:
    return lambda effort: [
        cell for objective in objectives for cell in cells_2022(effort, objective)
    ]


def _deadline_cells(effort: Effort) -> list[SweepCell]:
    both = _cells(Objective.D1, Objective.D3)(effort)
    return [*both, *cells_2022(effort, Objective.D3, LONGER_2022)]


FIGURES_2022 = (
    PaperFigure("2022-3a", "Clients and servers", _cells(), _map_result),
    PaperFigure(
        "2022-3b",
        "D2 against D1: delay against distance",
        _cells(Objective.D1, Objective.D2),
        _distance_result,
    ),
    PaperFigure(
        "2022-3c",
        "D3 against D1: a topic with a short permissible delay",
        _deadline_cells,
        lambda effort, rows: _deadline_result(effort, rows, tight=True),
    ),
    PaperFigure(
        "2022-3d",
        "D3 against D1: a topic with a longer permissible delay",
        _deadline_cells,
        lambda effort, rows: _deadline_result(effort, rows, tight=False),
    ),
)
