"""Topics cut into blocks of about equal work, and a plan's part of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nearcast.domain.part import ScenarioPart, take_part
from nearcast.domain.plan import Brokers, Plan
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario
from nearcast.pipeline.blocks import BLOCKS_PER_CORE
from nearcast.pipeline.shared_arrays import SharedArrays
from nearcast.pipeline.stages.shared_scenario import SharedScenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SharedPlan", "TopicBlock", "cut_topics", "plan_arrays", "topics_of"]

_MOST_ROWS = 400_000
"""Member rows of a block, so that it needs some 200 MB; one topic may be larger."""
_FEWEST_ROWS = 2_000
_PAIRS_PER_ROW = 50
"""Pairs that take as long as a member row."""


def cut_topics(
    spark: SparkSession, topic_start: OffsetArray, topic_pairs: OffsetArray
) -> OffsetArray:
    """Return where blocks of topics start, the end included."""
    work = np.concatenate([[0], np.cumsum(np.diff(topic_start) + topic_pairs // _PAIRS_PER_ROW)])
    rows = int(topic_start[-1])
    wanted = min(BLOCKS_PER_CORE * spark.sparkContext.defaultParallelism, rows // _FEWEST_ROWS)
    count = max(wanted, -(-rows // _MOST_ROWS), 1)
    goals = np.arange(1, count) * (work[-1] / count)
    cuts = np.searchsorted(work, goals)
    return np.unique(np.concatenate([[0], cuts, [len(topic_start) - 1]])).astype(np.int64)


def plan_arrays(plan: Plan) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a plan that decide delays, brokers sorted by topic."""
    edge = np.flatnonzero(plan.brokers.on_edge)
    edge = edge[np.argsort(plan.brokers.topic[edge], kind="stable")]
    return {
        "homes": plan.homes,
        "publish": plan.publish,
        "broker_topic": plan.brokers.topic[edge],
        "broker_server": plan.brokers.server[edge],
    }


@dataclass(frozen=True, slots=True, eq=False)
class TopicBlock:
    """Some topics as a scenario of their own, with the plan for them."""

    part: ScenarioPart
    plan: Plan


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """What a task needs to find its block of topics."""

    scenario: SharedScenario
    plan: SharedArrays
    cuts: OffsetArray

    def block(self, number: int) -> TopicBlock:
        """Return a block; it holds copies of its rows only."""
        whole = self.scenario.load()
        begin, end = int(self.cuts[number]), int(self.cuts[number + 1])
        part = topics_of(whole, begin, end)
        arrays = {name: np.asarray(array) for name, array in self.plan.load().items()}
        first, last = np.searchsorted(arrays["broker_topic"], [begin, end])
        topic = arrays["broker_topic"][first:last] - np.int32(begin)
        brokers = Brokers(
            topic=topic,
            server=arrays["broker_server"][first:last],
            on_edge=np.ones(len(topic), dtype=np.bool_),
            share=np.ones(len(topic)),
        )
        homes, publish = arrays["homes"][part.clients], arrays["publish"][part.rows]
        return TopicBlock(part, Plan(homes, publish, brokers))

    def column_block(self, name: str, number: int) -> FloatArray | None:
        """Return the columns of a block's topics of an array [.., topic], if it is there."""
        array = self.plan.load().get(name)
        return (
            None if array is None else np.array(array[:, self.cuts[number] : self.cuts[number + 1]])
        )


def topics_of(whole: Scenario, begin: int, end: int) -> ScenarioPart:
    """Return the part of a scenario with some of its topics."""
    first, last = np.searchsorted(whole.members.topic, [begin, end])
    topics = np.arange(begin, end, dtype=np.int32)
    return take_part(whole, np.arange(first, last), topics=topics)
