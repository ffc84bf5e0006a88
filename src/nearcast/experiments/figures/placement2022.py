"""Figure 3 of the placement paper (2022): what the objectives D2 and D3 change, proved optimal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from nearcast.delay.pair_delays import choose_pairs, pair_distance_km
from nearcast.domain.plan import Model, Objective
from nearcast.domain.scenario import BoolArray, FloatArray, OffsetArray, Scenario
from nearcast.experiments.figures.figure import (
    CsvRow,
    Effort,
    FigureResult,
    PaperFigure,
    SweepRows,
    Verdict,
    judge,
)
from nearcast.experiments.figures.settings import cells_2022
from nearcast.pictures.pair_scatter import PairDelays, draw_pair_scatter
from nearcast.pictures.topic_map import draw_topic_maps
from nearcast.pipeline.sweep.cell import SweepCell, make_scenario

__all__ = [
    "FIGURES_2022",
    "PairTable",
    "distance_verdicts",
    "loose_verdicts",
    "pair_table",
    "tight_verdicts",
]

_ROUNDING_MS = 1e-7
_GAP = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class PairTable:
    """All pairs of one scenario and their delays under the optimum of each objective."""

    topic: OffsetArray
    distance_km: FloatArray
    permissible_ms: FloatArray
    """Of the pair's topic."""
    ms: dict[Objective, FloatArray]
    ms_per_km: float = 0.1
    proved: bool = True
    """Whether every optimum is proved."""

    def change_ms(self, objective: Objective) -> FloatArray:
        """Return the delay under an objective minus that under D1 [pair]."""
        change: FloatArray = self.ms[objective] - self.ms[Objective.D1]
        return change

    def is_late(self, objective: Objective) -> BoolArray:
        """Return which pairs exceed their topic's permissible delay."""
        late: BoolArray = self.ms[objective] > self.permissible_ms + _ROUNDING_MS
        return late


def pair_table(scenario: Scenario, ms: dict[Objective, FloatArray], *, proved: bool) -> PairTable:
    """Return the table of a scenario from the delays that the sweep kept."""
    pairs = choose_pairs(scenario, Model.PLACEMENT, np.random.default_rng(0))
    topic = scenario.members.topic[pairs.publisher_row].astype(np.int64)
    return PairTable(
        topic=topic,
        distance_km=pair_distance_km(scenario, pairs),
        permissible_ms=scenario.topics.permissible_ms[topic],
        ms=ms,
        ms_per_km=scenario.settings.ms_per_km,
        proved=proved,
    )


def _tables(effort: Effort, rows: SweepRows, other: Objective) -> list[PairTable]:
    """Return a table a seed with the optima of D1 and one other objective."""
    tables = []
    for d1, d2 in zip(cells_2022(effort, Objective.D1), cells_2022(effort, other), strict=True):
        scenario = make_scenario(d1.source, d1.parameters, d1.seed)
        ms = {
            objective: np.array(rows[cell]["pair_ms"], dtype=np.float64)
            for objective, cell in ((Objective.D1, d1), (other, d2))
        }
        # A gap may be null where the optimum is 0, which is then proved.
        proved = all((rows[cell]["gap"] or 0.0) <= _GAP for cell in (d1, d2))
        tables.append(pair_table(scenario, ms, proved=proved))
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


def _thirds(table: PairTable) -> tuple[BoolArray, BoolArray]:
    """Return which pairs are of the nearest and of the furthest third."""
    low, high = np.quantile(table.distance_km, [1 / 3, 2 / 3])
    return table.distance_km <= low, table.distance_km >= high


def distance_verdicts(tables: list[PairTable]) -> list[Verdict]:
    """Return what D2 does to near and far pairs, over all topics and seeds."""
    near, far, closer = [], [], 0
    for table in tables:
        is_near, is_far = _thirds(table)
        change = table.change_ms(Objective.D2)
        near.append(change[is_near])
        far.append(change[is_far])
        closer += bool(change[is_near].mean() < 0 < change[is_far].mean())
    near_ms, far_ms = np.concatenate(near), np.concatenate(far)
    return [
        judge(
            "With D2 the delay of near pairs decreases",
            near_ms.mean() < 0,
            f"nearest third: {near_ms.mean():+.3f} ms on average; {_moved(near_ms)}",
            if_so="near pairs weigh more in D2",
        ),
        judge(
            "With D2 the delay of far pairs increases",
            far_ms.mean() > 0,
            f"furthest third: {far_ms.mean():+.3f} ms on average; {_moved(far_ms)}",
            if_so="what near pairs gain is paid by far ones",
        ),
        judge(
            "Both hold in a single scenario",
            closer == len(tables),
            f"in {closer} of {len(tables)} seeds; {_proved(tables)}",
            if_not="where storage leaves little to choose the two optima are much the same",
        ),
    ]


def _moved(change_ms: FloatArray) -> str:
    faster = int(np.sum(change_ms < -_ROUNDING_MS))
    slower = int(np.sum(change_ms > _ROUNDING_MS))
    return f"of {len(change_ms)} pairs {faster} are faster and {slower} slower"


def _proved(tables: list[PairTable]) -> str:
    count = sum(table.proved for table in tables)
    return f"optimum proved in {count} of {len(tables)} seeds"


def tight_verdicts(tables: list[PairTable]) -> list[Verdict]:
    """Return what D3 does to pairs that D1 leaves late."""
    late = np.concatenate([table.is_late(Objective.D1) for table in tables])
    still = np.concatenate([table.is_late(Objective.D3) for table in tables])
    change = np.concatenate([table.change_ms(Objective.D3) for table in tables])[late]
    excess = {
        objective: sum(
            float(np.maximum(table.ms[objective] - table.permissible_ms, 0).sum())
            for table in tables
        )
        for objective in (Objective.D1, Objective.D3)
    }
    slower = int(np.sum(change > _ROUNDING_MS))
    faster = int(np.sum(change < -_ROUNDING_MS))
    return [
        judge(
            "Many pairs that exceed the permissible delay under D1 are faster under D3",
            faster > slower,
            f"of {int(late.sum())} late pairs {faster} are faster, {slower} slower, the others "
            "as before",
            if_so="only what exceeds the permissible delay counts in D3",
        ),
        judge(
            "D3 reduces what exceeds the permissible delays",
            excess[Objective.D3] < excess[Objective.D1],
            f"summed excess {excess[Objective.D1]:.1f} ms under D1, {excess[Objective.D3]:.1f} ms "
            f"under D3; {_proved(tables)}",
            if_so="the excess is what D3 minimises",
        ),
        judge(
            "D3 prioritises topics so that permissible delays are met",
            int(still.sum()) < int(late.sum()),
            f"late pairs: {int(late.sum())} under D1, {int(still.sum())} under D3, of {len(late)}; "
            f"topics without a late pair: {_on_time(tables, Objective.D1)} under D1, "
            f"{_on_time(tables, Objective.D3)} under D3",
            if_not="D3 counts by how much delays are exceeded, not by how many pairs: it is cheap "
            "to let many pairs be a little late. Storage and permissible delays are ours, the "
            "paper does not give them, and here not all topics can be in time",
        ),
    ]


def _on_time(tables: list[PairTable], objective: Objective) -> str:
    topics = [
        not table.is_late(objective)[table.topic == topic].any()
        for table in tables
        for topic in np.unique(table.topic)
    ]
    return f"{sum(topics)} of {len(topics)}"


def _is_loose(table: PairTable) -> BoolArray:
    """Return which pairs are of the half of topics with the longer permissible delays."""
    limits_ms = [float(table.permissible_ms[table.topic == t][0]) for t in np.unique(table.topic)]
    loose: BoolArray = table.permissible_ms > np.median(limits_ms)
    return loose


def loose_verdicts(tables: list[PairTable]) -> list[Verdict]:
    """Return what D3 takes from topics that have time to spare."""
    loose = [_is_loose(table) for table in tables]
    change = np.concatenate(
        [table.change_ms(Objective.D3)[mine] for table, mine in zip(tables, loose, strict=True)]
    )
    late = np.concatenate(
        [table.is_late(Objective.D3)[mine] for table, mine in zip(tables, loose, strict=True)]
    )
    slower = change > _ROUNDING_MS
    faster = int(np.sum(change < -_ROUNDING_MS))
    kept = int(np.sum(slower & ~late))
    return [
        judge(
            "Many pairs of the topic with the longer permissible delay are slower under D3",
            int(slower.sum()) > faster,
            f"the longer half of permissible delays: of {len(change)} pairs {int(slower.sum())} "
            f"are slower and {faster} faster",
            if_so="brokers go to the topics that need them; below its permissible delay a pair "
            "costs nothing in D3",
        ),
        judge(
            "These slower pairs keep within the permissible range",
            kept == int(slower.sum()) > 0,
            f"{kept} of the {int(slower.sum())} slower pairs",
            if_not="D3 counts by how much delays are exceeded, not by how many pairs: a small "
            "excess of many pairs here is cheaper than a large one of few elsewhere",
        ),
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
    change, (near, far) = table.change_ms(Objective.D2), _thirds(table)

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
            f"all topics of {len(tables)} seeds."
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
        gains = late & (change < -_ROUNDING_MS)
        loses = late & (change > _ROUNDING_MS)
        gives = (change > _ROUNDING_MS) & ~table.is_late(Objective.D3)
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
    seed, tau1, tau2 = max(_topic_pairs(tables))[1:]
    return FigureResult(
        rows=_csv_rows(tables, Objective.D3),
        verdicts=tight_verdicts(tables) if tight else loose_verdicts(tables),
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
            f"Verdicts are over all topics of {len(tables)} seeds. D3 has many optima: how far a "
            "pair stays below its permissible delay does not count.",
        ],
    )


def _cells(*objectives: Objective) -> Callable[[Effort], list[SweepCell]]:
    return lambda effort: [
        cell for objective in objectives for cell in cells_2022(effort, objective)
    ]


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
        _cells(Objective.D1, Objective.D3),
        lambda effort, rows: _deadline_result(effort, rows, tight=True),
    ),
    PaperFigure(
        "2022-3d",
        "D3 against D1: a topic with a longer permissible delay",
        _cells(Objective.D1, Objective.D3),
        lambda effort, rows: _deadline_result(effort, rows, tight=False),
    ),
)
