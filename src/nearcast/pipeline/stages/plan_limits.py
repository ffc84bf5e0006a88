"""The limits of a scenario on executors: publishers cut into blocks of about as many pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.delay.limits import LimitEffort, LimitTotals, limit_effort, limit_totals, limits_from
from nearcast.delay.pair_parts import pairs_by_topic, receivers_of
from nearcast.delay.totals import add_totals
from nearcast.domain.part import take_part
from nearcast.domain.plan import Model
from nearcast.domain.scenario import OffsetArray, Scenario
from nearcast.pipeline.blocks import block_count
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.shared_scenario import SharedScenario
from nearcast.planning.assessment import limits_of, most_limit_pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["find_limits"]

_PAIRS_OF_A_TASK = 2_000_000
"""Fewer are not worth one."""


def find_limits(
    spark: SparkSession,
    shared: SharedScenario,
    scenario: Scenario,
    model: Model,
    limit_s: float | None,
    record: StageRecord,
) -> dict[str, float | None]:
    """Return what `limits_of` does, within about `limit_s` seconds of all cores."""
    if model is Model.CONNECTIONS:
        return limits_of(scenario, model)
    cores = spark.sparkContext.defaultParallelism
    effort = limit_effort(scenario, most_limit_pairs(limit_s, cores))
    if effort.topics_by_legs:
        record.notes["limits"] = (
            f"{effort.topics_by_legs:,} topics of more than {effort.pairs_per_topic:,} pairs "
            "count with the legs to the nearest servers only; no speed limit"
        )
    cuts = _cut_rows(spark, scenario, effort)

    def totals_of(block: int) -> LimitTotals:
        whole = shared.load()
        begin, end = int(cuts[block]), int(cuts[block + 1])
        topic = whole.members.topic
        first = int(np.searchsorted(topic, topic[begin]))
        last = int(np.searchsorted(topic, topic[end - 1], side="right"))
        part = take_part(whole, np.arange(first, last)).scenario
        return limit_totals(part, effort, slice(begin - first, end - first))

    blocks = len(cuts) - 1
    none = LimitTotals(0.0, 0.0, 0.0)
    totals = add_totals([none, *(collect_blocks(spark, blocks, totals_of) if blocks else [])])
    limits = limits_from(scenario, effort, totals)
    return {"speed_ms": limits.speed_ms, "one_server_ms": limits.one_server_ms}


def _cut_rows(spark: SparkSession, scenario: Scenario, effort: LimitEffort) -> OffsetArray:
    """Return where blocks of member rows start, the end included."""
    members, pairs = scenario.members, pairs_by_topic(scenario)
    total = len(members) + int(pairs[pairs <= effort.pairs_per_topic].sum())
    count = block_count(spark, total, _PAIRS_OF_A_TASK)
    goals, done = np.arange(1, count) * (total / count), 0
    cuts = [np.array([0, len(members)])]
    for rows in members.pieces():
        piece = members.rows(rows)
        counts = pairs[piece.topic] <= effort.pairs_per_topic
        upto = np.cumsum(np.where(counts, receivers_of(piece), 0) + 1) + done
        here = goals[(goals > done) & (goals <= upto[-1])]
        cuts.append(rows.start + np.searchsorted(upto, here) + 1)
        done = int(upto[-1])
    return np.unique(np.concatenate(cuts)).astype(np.int64)
