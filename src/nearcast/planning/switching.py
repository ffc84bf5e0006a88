"""Whether a plan near the one in force is worth the switch, under the traffic of now."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.domain.plan import Plan, PlanReport
from nearcast.domain.plan_in_force import PlanInForce
from nearcast.domain.traffic import PresentScenario
from nearcast.errors import PlanningError
from nearcast.planning.replanning import keep, migrated_spools, serve_all, summed_ms
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import complete, make_plan

__all__ = ["WeighedPlan", "weigh_new_plan"]


@dataclass(frozen=True, slots=True, eq=False)
class WeighedPlan:
    """A new plan beside the one in force; costs are in ms as the model counts."""

    plan: Plan
    """For all who may publish, also those who are silent now."""
    report: PlanReport
    cost_before: float
    """Of the plan in force, under the traffic of now."""
    cost_after: float
    bound: float | None
    """No plan costs less."""
    migrations: int
    """Spools that the new plan has and the one in force has not."""
    reason: str
    """Why the switch does not pay; empty when it does."""

    @property
    def pays(self) -> bool:
        """Whether the switch saves more than it costs."""
        return not self.reason


def weigh_new_plan(
    present: PresentScenario, request: PlanRequest, force: PlanInForce, least_saving: float
) -> WeighedPlan:
    """Plan anew from the plan in force and say whether that pays.

    Parameters
    ----------
    request
        With the plan in force as its start, and a price for each migrated spool.
    least_saving
        Part of the cost that must be saved.

    Raises
    ------
    PlanningError
        When nobody publishes now, or no plan is found.
    """
    planned = present.planned
    if not planned.members.publishes.any():
        raise PlanningError("nobody published to a topic of the plan in the window")
    outcome = make_plan(planned, request)
    _, kept = complete(planned, request, keep(planned, request, force))
    plan, _ = complete(present.known, request, serve_all(present.known, request, outcome.plan))
    edge = plan.brokers.on_edge
    migrations = migrated_spools(
        plan.brokers.topic[edge], plan.brokers.server[edge], force, len(planned.servers)
    )
    cost = outcome.assessment.cost
    saved = kept.cost - cost
    reason = ""
    if saved <= least_saving * kept.cost:
        share = 0.0 if kept.cost <= 0 else saved / kept.cost
        reason = f"another plan saves {share:.1%} only"
    elif summed_ms(planned, request.model, saved) <= migrations * request.migration_price_ms:
        reason = f"{migrations} migrations cost more than they save"
    return WeighedPlan(
        plan, outcome.report, kept.cost, cost, outcome.report.bound, migrations, reason
    )
