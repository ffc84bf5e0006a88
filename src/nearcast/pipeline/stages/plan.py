"""Stage 5, Plan: the home of each client, and the plan that follows from it.

RELOC goes region by region and the ratio model's `optimised` part by part on the executors; every
other method, and the searches of the other two models, whose moves reach over the whole field, run
as one task, and so does every bound.

========================  ==========================================================
output                    content
========================  ==========================================================
table homes               client_index, server_index
folder plan/              the plan as ``nearcast plan`` writes it, for any reader
========================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from nearcast.domain.plan import Model
from nearcast.domain.plan_files import write_plan
from nearcast.domain.scenario import Scenario
from nearcast.pipeline.driver_objects import note_object
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.plan_limits import find_limits
from nearcast.pipeline.stages.plan_optimised import search_in_parts
from nearcast.pipeline.stages.plan_reloc import distributed_assign
from nearcast.pipeline.stages.plan_totals import complete_on_executors
from nearcast.pipeline.stages.shared_scenario import SharedScenario, share_scenario
from nearcast.planning.bounds import quick_bound
from nearcast.planning.methods.assignment import Cooperation
from nearcast.planning.methods.reloc import plan_by_relations
from nearcast.planning.optimised import find_bound, proved, search_plan
from nearcast.planning.regions import Regions
from nearcast.planning.registry import find_method
from nearcast.planning.relations import Relations
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.solve import PlanOutcome, report_plan
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from nearcast.pipeline.workspace import Workspace

__all__ = ["HOMES_SCHEMA", "PLAN_FOLDER", "RELATING_METHODS", "plan_by_regions", "plan_scenario"]

T = TypeVar("T")

HOMES_SCHEMA = pa.schema([("client_index", pa.int32()), ("server_index", pa.int32())])
PLAN_FOLDER = "plan"
RELATING_METHODS = {
    "reloc": Cooperation.ALONE,
    "reloc-together": Cooperation.TOGETHER,
    "relation": Cooperation.NONE,
}
"""Methods that read relations, and whether they cooperate."""


def plan_scenario(
    workspace: Workspace,
    scenario: Scenario,
    request: PlanRequest,
    record: StageRecord,
    relations: Relations | None = None,
    regions: Regions | None = None,
) -> PlanOutcome:
    """Plan a scenario, write the homes and the plan, and say how good it is.

    Parameters
    ----------
    relations, regions : what earlier stages found; None: found here where the method needs
        them, and with `request.regions` None, the number of regions chosen as in memory.

    Raises
    ------
    PlanningError
        When the method does not exist, does not fit the model, or finds no plan.
    """
    watch = Stopwatch()
    decision = plan_by_regions(workspace, scenario, request, relations, regions, record)
    seconds = watch.seconds()
    with share_scenario(workspace.spark, scenario) as shared:
        limits = find_limits(
            workspace.spark, shared, scenario, request.model, request.bound_limit_s, record
        )
        bound = decision.bound
        if bound is None:
            bound = _quick_bound(workspace, shared, request)
        completed = complete_on_executors(workspace.spark, shared, scenario, request, decision)
    note_object("where each publisher publishes", completed[0].publish.nbytes)
    outcome = report_plan(
        scenario,
        request,
        decision,
        seconds,
        known_bound=bound,
        known_limits=limits,
        completed=completed,
    )
    homes = outcome.plan.homes
    table = pa.table([np.arange(len(homes), dtype=np.int32), homes], schema=HOMES_SCHEMA)
    record.tables["homes"] = workspace.save_rows("homes", table)
    write_plan(
        outcome.plan, outcome.report, scenario, workspace.folder / PLAN_FOLDER, overwrite=True
    )
    record.rows_in, record.rows_out = len(scenario.members), len(homes)
    record.notes |= {"method": request.method, "cost": outcome.report.cost, **decision.search}
    return outcome


def plan_by_regions(
    workspace: Workspace,
    scenario: Scenario,
    request: PlanRequest,
    relations: Relations | None,
    regions: Regions | None,
    record: StageRecord,
) -> Decision:
    """Return the decision of the requested method, made on the executors; see `plan_scenario`."""
    spark = workspace.spark
    find_method(request.method, request.model)
    with share_scenario(spark, scenario) as shared:
        if request.method in RELATING_METHODS:
            return plan_by_relations(
                scenario,
                request,
                cooperate=RELATING_METHODS[request.method],
                relations=relations,
                regions=regions,
                assign=distributed_assign(spark, shared, workspace.mapped),
            )
        if request.method != "optimised":
            return _plan_as_one_task(workspace, shared, request)
        decision = None
        if request.model is Model.RATIO and request.start is None:
            decision = search_in_parts(spark, shared, scenario, request)
        if decision is None:
            record.notes["searched"] = "as a whole"
            decision = _plan_as_one_task(workspace, shared, request)
        return _prove_as_one_task(workspace, shared, request, decision)


def _plan_as_one_task(
    workspace: Workspace, shared: SharedScenario, request: PlanRequest
) -> Decision:
    """Return what a method, or the search of `optimised`, decides for the whole scenario."""
    asked = replace(request, on_progress=None)

    def decide(scenario: Scenario) -> Decision:
        if asked.method == "optimised":
            return search_plan(scenario, asked)
        return find_method(asked.method, asked.model).plan(scenario, asked)

    return _as_one_task(workspace, shared, decide)


def _prove_as_one_task(
    workspace: Workspace, shared: SharedScenario, request: PlanRequest, decision: Decision
) -> Decision:
    """Return the decision of a search with a proven bound."""
    asked, cost = replace(request, on_progress=None), float(decision.search["cost"])
    try:
        bound = _as_one_task(workspace, shared, lambda scenario: find_bound(scenario, asked, cost))
    except KeyboardInterrupt:
        # Ctrl-C gives the bound up, not the plan.
        return decision
    return proved(decision, bound)


def _quick_bound(workspace: Workspace, shared: SharedScenario, request: PlanRequest) -> float:
    """Return a bound for methods that prove none."""
    model, objective, limit_s = request.model, request.objective, request.bound_limit_s
    return _as_one_task(
        workspace, shared, lambda scenario: quick_bound(scenario, model, objective, limit_s=limit_s)
    )


def _as_one_task(
    workspace: Workspace, shared: SharedScenario, compute: Callable[[Scenario], T]
) -> T:
    """Return what `compute` makes of the whole scenario in a worker."""
    return collect_blocks(workspace.spark, 1, lambda _: compute(shared.copy()))[0]
