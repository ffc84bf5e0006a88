"""RELO: RELOC without cooperation."""

from __future__ import annotations

from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.planning.methods.assignment import Cooperation
from nearcast.planning.methods.reloc import plan_by_relations
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["RelationOnly"]


class RelationOnly:
    """Relation and location conscious assignment (RELO, 2020)."""

    name = "relation"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return homes by RELOC without line 7 (connections) or lines 35-42 (other models)."""
        return plan_by_relations(scenario, request, cooperate=Cooperation.NONE)
