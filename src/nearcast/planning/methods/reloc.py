"""RELOC: locality, relations and cooperation (seed papers of 2020 and 2021)."""

from __future__ import annotations

from typing import Protocol

from nearcast.domain.plan import Model
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.errors import PlanningError
from nearcast.planning.methods.assignment import Cooperation, assign_reloc
from nearcast.planning.methods.region_count import assign_in_regions
from nearcast.planning.regions import Regions, divide_into_regions
from nearcast.planning.relations import Relations, no_relations, relate_clients
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["Assign", "Reloc", "RelocTogether", "plan_by_relations", "reloc_steps"]


class Assign(Protocol):
    """Carries RELOC out; `assign_reloc` in this process."""

    def __call__(
        self,
        scenario: Scenario,
        model: Model,
        regions: Regions,
        relations: Relations,
        *,
        cooperate: Cooperation,
    ) -> IndexArray:
        """Return a home for every client."""
        ...


class Reloc:
    """RElation and LOcality conscious Cooperative client assignment."""

    name = "reloc"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return homes by Algorithm 1 of 2020 (connections) or of 2021 (ratio, placement)."""
        return plan_by_relations(scenario, request, cooperate=Cooperation.ALONE)


class RelocTogether:
    """RELOC whose cooperation moves all publishers of a topic together, as the prose of 2021 has it."""

    name = "reloc-together"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return homes by the other reading of cooperation; 2020 (connections) has only one."""
        return plan_by_relations(scenario, request, cooperate=Cooperation.TOGETHER)


def plan_by_relations(
    scenario: Scenario,
    request: PlanRequest,
    *,
    cooperate: Cooperation,
    relations: Relations | None = None,
    regions: Regions | None = None,
    assign: Assign = assign_reloc,
) -> Decision:
    """Return homes by RELOC, with or without its last step.

    Parameters
    ----------
    relations, regions : known ones; None: found here.
    assign : who carries the assignment out.
    """
    if relations is None:
        relations = relate_clients(scenario, request.related_clients, request.relation_kind)
    homes, search = assign_in_regions(
        scenario,
        request,
        lambda chosen: assign(scenario, request.model, chosen, relations, cooperate=cooperate),
        regions,
    )
    search |= {
        "relations": relations.kind.value,
        "related_pairs": len(relations.others),
        "partners_per_topic": relations.partners_per_topic,
    }
    return Decision(homes=homes, search=search)


def reloc_steps(
    scenario: Scenario, request: PlanRequest, cooperate: Cooperation = Cooperation.ALONE
) -> dict[str, IndexArray]:
    """Return the homes after each step of RELOC 2021, as figure 10 shows them.

    ``locality``: the least used server of the client's region (lines 17, 23 and 32-34);
    ``relation``: also lines 24-31; ``cooperation``: also lines 35-42, the whole algorithm.
    """
    if request.regions is None:
        raise PlanningError("the steps of RELOC need a number of regions; set regions")
    regions = divide_into_regions(scenario, request.regions, request.seed)
    nobody = no_relations(len(scenario.clients))
    related = relate_clients(scenario, request.related_clients, request.relation_kind)
    steps = {
        "locality": (nobody, Cooperation.NONE),
        "relation": (related, Cooperation.NONE),
        "cooperation": (related, cooperate),
    }
    return {
        name: assign_reloc(scenario, Model.RATIO, regions, relations, cooperate=step)
        for name, (relations, step) in steps.items()
    }
