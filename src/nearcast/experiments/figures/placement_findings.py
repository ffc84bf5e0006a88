"""What the findings of the placement paper (2022) come to on pairs under proved optima."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.pair_delays import choose_pairs, pair_distance_km
from nearcast.domain.plan import Model, Objective
from nearcast.domain.scenario import BoolArray, FloatArray, OffsetArray, Scenario
from nearcast.experiments.figures.figure import Verdict, judge
from nearcast.experiments.figures.thresholds import MANY, NEAR_SHARE, SHORT_SHARE

__all__ = [
    "ROUNDING_MS",
    "PairTable",
    "distance_verdicts",
    "is_loose",
    "loose_verdicts",
    "pair_table",
    "thirds",
    "tight_verdicts",
]

ROUNDING_MS = 1e-7
_MANY = f"many: judged as {100 * MANY:g} % or more, and more than the other way"
_AS_D1 = (
    "with permissible delays so short that many pairs of all topics are late under either "
    "objective, D3 adds their delays up much as D1 does"
)


@dataclass(frozen=True, slots=True, eq=False)
class PairTable:
    """All pairs of one scenario and their delays under the optimum of each objective."""

    topic: OffsetArray
    distance_km: FloatArray
    permissible_ms: FloatArray
    """Of the pair's topic."""
    ms: dict[Objective, FloatArray]
    brokers: dict[Objective, OffsetArray]
    """Edge servers with a broker of the topic [topic]."""
    ms_per_km: float = 0.1
    proved: bool = True
    """Whether every optimum is proved."""

    def change_ms(self, objective: Objective) -> FloatArray:
        """Return the delay under an objective minus that under D1 [pair]."""
        change: FloatArray = self.ms[objective] - self.ms[Objective.D1]
        return change

    def is_late(self, objective: Objective) -> BoolArray:
        """Return which pairs exceed their topic's permissible delay."""
        late: BoolArray = self.ms[objective] > self.permissible_ms + ROUNDING_MS
        return late


def pair_table(
    scenario: Scenario,
    ms: dict[Objective, FloatArray],
    brokers: dict[Objective, OffsetArray],
    *,
    proved: bool,
) -> PairTable:
    """Return the table of a scenario from the delays that the sweep kept."""
    pairs = choose_pairs(scenario, Model.PLACEMENT, np.random.default_rng(0))
    topic = scenario.members.topic[pairs.publisher_row].astype(np.int64)
    return PairTable(
        topic=topic,
        distance_km=pair_distance_km(scenario, pairs),
        permissible_ms=scenario.topics.permissible_ms[topic],
        ms=ms,
        brokers=brokers,
        ms_per_km=scenario.settings.ms_per_km,
        proved=proved,
    )


def thirds(table: PairTable) -> tuple[BoolArray, BoolArray]:
    """Return which pairs are of the nearest and of the furthest third."""
    low, high = np.quantile(table.distance_km, [NEAR_SHARE, 1 - NEAR_SHARE])
    return table.distance_km <= low, table.distance_km >= high


def distance_verdicts(tables: list[PairTable]) -> list[Verdict]:
    """Return what D2 does to near and far pairs, over all topics and seeds."""
    near, far, closer = [], [], 0
    for table in tables:
        is_near, is_far = thirds(table)
        change = table.change_ms(Objective.D2)
        near.append(change[is_near])
        far.append(change[is_far])
        closer += bool(change[is_near].mean() < 0 < change[is_far].mean())
    near_ms, far_ms = np.concatenate(near), np.concatenate(far)
    return [
        judge(
            "With D2 the delay of near pairs decreases",
            near_ms.mean() < 0,
            f"nearest third: {near_ms.mean():+.3f} ms on average; {_moved(near_ms)}; both findings "
            f"in {closer} of {len(tables)} seeds; {_proved(tables)}",
            if_so="near pairs weigh more in D2",
        ),
        judge(
            "With D2 the delay of far pairs increases",
            far_ms.mean() > 0,
            f"furthest third: {far_ms.mean():+.3f} ms on average; {_moved(far_ms)}",
            if_so="what near pairs gain is paid by far ones",
        ),
    ]


def _moved(change_ms: FloatArray) -> str:
    faster = int(np.sum(change_ms < -ROUNDING_MS))
    slower = int(np.sum(change_ms > ROUNDING_MS))
    return f"of {len(change_ms)} pairs {faster} are faster and {slower} slower"


def _proved(tables: list[PairTable]) -> str:
    count = sum(table.proved for table in tables)
    return f"optimum proved in {count} of {len(tables)} seeds"


def tight_verdicts(tables: list[PairTable]) -> list[Verdict]:
    """Return what D3 does to pairs that D1 leaves late, and to the brokers of their topics."""
    late = np.concatenate([table.is_late(Objective.D1) for table in tables])
    still = np.concatenate([table.is_late(Objective.D3) for table in tables])
    change = np.concatenate([table.change_ms(Objective.D3) for table in tables])[late]
    slower = int(np.sum(change > ROUNDING_MS))
    faster = int(np.sum(change < -ROUNDING_MS))
    short, long = (_brokers(tables, loose=loose) for loose in (False, True))
    return [
        judge(
            "Many pairs that exceed the permissible delay under D1 are faster under D3",
            _are_many(faster, slower, len(change)),
            f"of {int(late.sum())} late pairs {faster} are faster, {slower} slower, the others "
            f"as before; late under D3: {int(still.sum())} of {len(late)}; {_proved(tables)}",
            if_so=f"{_MANY}; only what exceeds the permissible delay counts in D3",
            if_not=f"{_MANY}; {_AS_D1}",
        ),
        judge(
            "D3 prioritises the brokers of topics with a short permissible delay",
            short[1] > short[0] and short[1] - short[0] > long[1] - long[0],
            f"brokers, D1 and D3: {short[0]} and {short[1]} of the shorter half of permissible "
            f"delays, {long[0]} and {long[1]} of the longer half",
            if_so="brokers go to the topics that need them",
            if_not=_AS_D1,
        ),
    ]


def _are_many(some: int, others: int, total: int) -> bool:
    """Return whether many pairs change, and not as many the other way."""
    return some > others and some >= MANY * total


def _brokers(tables: list[PairTable], *, loose: bool) -> tuple[int, int]:
    """Return the brokers of one half of the topics under D1 and under D3."""
    counts = [0, 0]
    for table in tables:
        mine = np.unique(table.topic[is_loose(table) == loose])
        for number, objective in enumerate((Objective.D1, Objective.D3)):
            counts[number] += int(table.brokers[objective][mine].sum())
    return counts[0], counts[1]


def is_loose(table: PairTable) -> BoolArray:
    """Return which pairs are of the half of topics with the longer permissible delays."""
    limits_ms = [float(table.permissible_ms[table.topic == t][0]) for t in np.unique(table.topic)]
    loose: BoolArray = table.permissible_ms > np.quantile(limits_ms, SHORT_SHARE)
    return loose


def loose_verdicts(tables: list[PairTable]) -> list[Verdict]:
    """Return what D3 takes from topics that have time to spare."""
    loose = [is_loose(table) for table in tables]
    change = np.concatenate(
        [table.change_ms(Objective.D3)[mine] for table, mine in zip(tables, loose, strict=True)]
    )
    late = np.concatenate(
        [table.is_late(Objective.D3)[mine] for table, mine in zip(tables, loose, strict=True)]
    )
    slower = change > ROUNDING_MS
    faster = int(np.sum(change < -ROUNDING_MS))
    kept = int(np.sum(slower & ~late))
    return [
        judge(
            "Many pairs of the topic with the longer permissible delay are slower under D3",
            _are_many(int(slower.sum()), faster, len(change)),
            f"the longer half of permissible delays: of {len(change)} pairs {int(slower.sum())} "
            f"are slower and {faster} faster",
            if_so=f"{_MANY}; brokers go to the topics that need them; below its permissible delay a "
            "pair costs nothing in D3",
            if_not=f"{_MANY}; {_AS_D1}",
        ),
        judge(
            "These slower pairs keep within the permissible range",
            kept == int(slower.sum()) > 0,
            f"{kept} of the {int(slower.sum())} slower pairs",
            if_not="D3 counts by how much delays are exceeded, not by how many pairs: a small "
            "excess of many pairs here is cheaper than a large one of few elsewhere",
        ),
    ]
