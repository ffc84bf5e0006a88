"""What homes are worth, added up by blocks of topics on the executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.delay.totals import add_totals
from nearcast.domain.plan import Model, Plan
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.cpu_time import CpuTime
from nearcast.pipeline.stages.shared_scenario import SharedScenario
from nearcast.pipeline.stages.topic_blocks import topics_of
from nearcast.planning.assessment import (
    Assessment,
    PlanTotals,
    assess_homes,
    assess_totals,
    home_totals,
    publisher_draws,
)
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.solve import complete, plan_of_homes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["assess_on_executors", "complete_on_executors"]

_ROWS_OF_A_BLOCK = 250_000
"""Up to so many members a task costs more than it brings. The blocks depend on nothing else: sums
are the same on every machine."""


def complete_on_executors(
    spark: SparkSession,
    shared: SharedScenario,
    scenario: Scenario,
    request: PlanRequest,
    decision: Decision,
) -> tuple[Plan, Assessment]:
    """Return what `complete` does; for M3, whose scenarios are small, in this process."""
    if request.model is Model.PLACEMENT:
        return complete(scenario, request, decision)
    value, _ = assess_on_executors(spark, shared, scenario, decision.homes, request.model)
    return plan_of_homes(scenario, decision.homes, value.local_share), value


def assess_on_executors(
    spark: SparkSession,
    shared: SharedScenario,
    scenario: Scenario,
    homes: IndexArray,
    model: Model,
) -> tuple[Assessment, float]:
    """Return what `assess_homes` does, and the CPU seconds of tasks."""
    rows = len(scenario.members)
    if rows <= _ROWS_OF_A_BLOCK:
        return assess_homes(scenario, homes, model), 0.0
    ends = scenario.members.topic[np.arange(_ROWS_OF_A_BLOCK, rows, _ROWS_OF_A_BLOCK)]
    cuts = np.unique([0, *ends.tolist(), len(scenario.topics)]).tolist()
    arrays = {"homes": homes}
    draws = publisher_draws(scenario) if model is Model.CONNECTIONS else None
    with share_arrays(spark, arrays if draws is None else {**arrays, "draws": draws}) as files:

        def totals_of(number: int) -> tuple[PlanTotals, float]:
            with CpuTime() as cpu:
                begin, end = cuts[number], cuts[number + 1]
                known, part = files.load(), topics_of(shared.load(), begin, end)
                mine = np.array(known["draws"][:, begin:end]) if "draws" in known else None
                at = np.array(known["homes"][part.clients])
                totals = home_totals(part.scenario, at, model, mine)
            return totals, cpu.seconds

        found = collect_blocks(spark, len(cuts) - 1, totals_of)
    totals = add_totals(totals for totals, _ in found)
    return assess_totals(scenario, homes, totals), sum(cpu_s for _, cpu_s in found)
