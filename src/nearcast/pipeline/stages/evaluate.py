"""Stage 6, Evaluate: what a plan is worth, topic by topic, server by server, pair by pair.

The tables are in `evaluate_tables`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcast.delay.connections import ConnectionsCost
from nearcast.delay.delay_histogram import (
    RELATIVE_PRECISION,
    DelayHistogram,
    percentile_ms,
    topic_pair_limit,
)
from nearcast.delay.pair_parts import pair_parts, pairs_by_topic, receivers_of
from nearcast.delay.ratio import RatioCost
from nearcast.delay.slots import sum_by
from nearcast.delay.topic_delays import TopicDelays, topic_delays
from nearcast.delay.totals import add_totals
from nearcast.domain.plan import Model, Objective, Plan
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.evaluate_tables import (
    histogram_table,
    percentile_table,
    server_table,
    topic_table,
)
from nearcast.pipeline.stages.shared_scenario import share_scenario
from nearcast.pipeline.stages.topic_blocks import SharedPlan, cut_topics, plan_arrays
from nearcast.planning.assessment import (
    Assessment,
    PlanTotals,
    assess_totals,
    home_totals,
    placement_totals,
    publisher_draws,
)

if TYPE_CHECKING:
    from nearcast.pipeline.workspace import Workspace

__all__ = ["MOST_PAIRS", "SHARES", "Evaluation", "evaluate_plan"]

SHARES = (0.5, 0.9, 0.95, 0.99, 1.0)
MOST_PAIRS = 1_000_000_000
"""Pairs to look at for the percentiles; beyond it those of the largest topics are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What a plan is worth, and how its delays spread."""

    assessment: Assessment
    """The same as in memory."""
    pairs: int
    """Publisher/subscriber pairs, all of which count in the means."""
    percentiles_ms: dict[float, float]
    """Delay that a share of the pairs, weighed as the model's mean does, does not exceed."""
    topics: TopicDelays


def evaluate_plan(
    workspace: Workspace,
    scenario: Scenario,
    plan: Plan,
    model: Model,
    objective: Objective,
    record: StageRecord,
    *,
    most_pairs: int = MOST_PAIRS,
    seed: int = 0,
) -> Evaluation:
    """Return the value of any plan and write its tables.

    Two passes over blocks of topics: the first adds up what every server holds and what the
    model's means are made of; the second, which knows the servers' shares, finds the delays.

    Parameters
    ----------
    most_pairs : how many pairs to look at for the percentiles and the largest delays; means
        are always exact.
    seed : draws the pairs of topics that have too many.
    """
    spark, topics = workspace.spark, len(scenario.topics)
    pairs = pairs_by_topic(scenario)
    limit = topic_pair_limit(pairs, most_pairs)
    cuts = cut_topics(spark, scenario.members.topic_start(topics), np.minimum(pairs, limit))
    extra = plan_arrays(plan)
    if model is Model.CONNECTIONS:
        extra["draws"] = publisher_draws(scenario)
    with share_scenario(spark, scenario) as shared, share_arrays(spark, extra) as arrays:
        blocks = SharedPlan(shared, arrays, cuts)

        def totals_of(number: int) -> tuple[PlanTotals, FloatArray]:
            block = blocks.block(number)
            part, members = block.part.scenario, block.part.scenario.members
            delivers = receivers_of(members) > 0
            if model is Model.PLACEMENT:
                totals: PlanTotals = placement_totals(part, block.plan)
                at = block.plan.publish[delivers]
            else:
                draws = blocks.column_block("draws", number)
                totals = home_totals(part, block.plan.homes, model, draws)
                at = block.plan.homes[members.client[delivers]]
            return totals, sum_by(at, np.ones(len(at)), len(part.servers))

        summed = collect_blocks(spark, len(cuts) - 1, totals_of)
        totals = add_totals(part for part, _ in summed)
        heard = add_totals(part for _, part in summed)
        assessment = assess_totals(scenario, plan.homes, totals, objective)
        cost = assessment.detail
        known = cost if isinstance(cost, RatioCost | ConnectionsCost) else None

        def delays_of(number: int) -> tuple[TopicDelays, _Histogram]:
            block = blocks.block(number)
            part = block.part.scenario
            parts = pair_parts(part, block.plan, known)
            seeds = block.part.topics.astype(np.int64) + (seed << 32)
            histogram = DelayHistogram.of(part, model, parts, limit, seeds)
            return topic_delays(part, model, parts), _Histogram.packed(histogram)

        found = collect_blocks(spark, len(cuts) - 1, delays_of)
    delays = _joined([topic for topic, _ in found])
    histogram = _Histogram.united([one for _, one in found])
    percentiles = _percentiles(histogram)
    tables = {
        "topic_delays": topic_table(scenario, delays, histogram.largest_ms),
        "server_use": server_table(scenario, assessment, heard),
        "delay_percentiles": percentile_table(percentiles),
        "delay_histogram": histogram_table(histogram.bins, histogram.weight),
    }
    for name, table in tables.items():
        record.tables[name] = workspace.save_rows(name, table)
    record.rows_in, record.rows_out = len(scenario.members), sum(record.tables.values())
    record.notes |= {
        "cost": assessment.cost,
        "pairs": int(pairs.sum()),
        "percentile_precision": RELATIVE_PRECISION,
    }
    if (drawn := int(np.sum(pairs > limit))) > 0:
        record.notes["topics_with_drawn_pairs"] = drawn
        record.notes["pairs_looked_at"] = int(histogram.looked_at.sum())
    return Evaluation(assessment, int(pairs.sum()), percentiles, delays)


@dataclass(frozen=True, slots=True, eq=False)
class _Histogram:
    """A delay histogram without its empty bins."""

    bins: OffsetArray
    weight: FloatArray
    largest_ms: FloatArray
    looked_at: OffsetArray

    @classmethod
    def packed(cls, histogram: DelayHistogram) -> _Histogram:
        bins = np.flatnonzero(histogram.weight)
        return cls(bins, histogram.weight[bins], histogram.largest_ms, histogram.looked_at)

    @classmethod
    def united(cls, parts: list[_Histogram]) -> _Histogram:
        bins, place = np.unique(np.concatenate([part.bins for part in parts]), return_inverse=True)
        weight = sum_by(place, np.concatenate([part.weight for part in parts]), len(bins))
        largest = np.concatenate([part.largest_ms for part in parts])
        return cls(bins, weight, largest, np.concatenate([part.looked_at for part in parts]))


def _joined(parts: list[TopicDelays]) -> TopicDelays:
    columns = TopicDelays.__slots__
    return TopicDelays(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in columns)
    )


def _percentiles(histogram: _Histogram) -> dict[float, float]:
    """Return the delays of `SHARES`; those of a scenario without pairs are NaN."""
    place = percentile_ms(histogram.weight, np.array(SHARES), histogram.bins)
    largest = float(histogram.largest_ms.max(initial=0.0))
    values = {share: float(value) for share, value in zip(SHARES, place, strict=True)}
    if len(histogram.bins):
        # The largest is known exactly, and no percentile is above it.
        values = {share: min(value, largest) for share, value in values.items()} | {1.0: largest}
    return values
