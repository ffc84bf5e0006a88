"""Stage 5, Plan: the home of each client, and the plan that follows from it.

RELOC goes region by region and the ratio model's `optimised` part by part on the executors; every
other method, and the searches of the other two models, whose moves reach over the whole field, run
as one task.

========================  ==========================================================
output                    content
========================  ==========================================================
table homes               client_index, server_index
folder plan/              the plan as ``nearcast plan`` writes it, for any reader
========================  ==========================================================
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast.domain.part import take_part
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import write_plan
from nearcast.domain.scenario import Scenario
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages.block_results import collect_blocks
from nearcast.pipeline.stages.plan_limits import find_limits
from nearcast.pipeline.stages.plan_optimised import search_in_parts
from nearcast.pipeline.stages.plan_reloc import distributed_assign
from nearcast.pipeline.stages.shared_scenario import SharedScenario, share_scenario
from nearcast.planning.methods.assignment import Cooperation
from nearcast.planning.methods.reloc import plan_by_relations
from nearcast.planning.optimised import prove, search_plan
from nearcast.planning.regions import Regions
from nearcast.planning.registry import find_method
from nearcast.planning.relations import Relations
from nearcast.planning.request import Decision, PlanRequest
from nearcast.planning.solve import PlanOutcome, report_plan
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from nearcast.pipeline.workspace import Workspace

__all__ = ["HOMES_SCHEMA", "PLAN_FOLDER", "RELATING_METHODS", "plan_by_regions", "plan_scenario"]

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
    outcome = report_plan(scenario, request, decision, seconds, known_limits=limits)
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
                assign=distributed_assign(spark, shared),
            )
        if request.method != "optimised":
            return _plan_as_one_task(workspace, shared, request)
        decision = None
        if request.model is Model.RATIO and request.start is None:
            decision = search_in_parts(spark, shared, scenario, request)
        if decision is None:
            record.notes["searched"] = "as a whole"
            decision = _plan_as_one_task(workspace, shared, request)
    return prove(scenario, request, decision)


def _plan_as_one_task(
    workspace: Workspace, shared: SharedScenario, request: PlanRequest
) -> Decision:
    """Return what a method, or the search of `optimised`, decides for the whole scenario."""
    asked = replace(request, on_progress=None)

    def decide(_: int) -> Decision:
        mapped = shared.load()
        everything = {
            "clients": np.arange(len(mapped.clients), dtype=np.int32),
            "topics": np.arange(len(mapped.topics), dtype=np.int32),
        }
        # Compiled kernels are kept for arrays that can be written to.
        scenario = take_part(mapped, np.arange(len(mapped.members)), **everything).scenario
        if asked.method == "optimised":
            return search_plan(scenario, asked)
        return find_method(asked.method, asked.model).plan(scenario, asked)

    return collect_blocks(workspace.spark, 1, decide)[0]
