"""OTOS with an eye for places: one topic, one server near its members."""

from __future__ import annotations

from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.planning.methods.assignment import assign_topics
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["OtosCentre"]


class OtosCentre:
    """One-topic-one-server assignment to the server nearest to the members' centre.

    Deviation: the paper does not say how a topic's server is chosen; here it is the nearest one
    with room for the whole topic, or the least used if there is none. Where delays are
    measured, the nearest is the one with the smallest sum of its members' delays.
    """

    name = "otos-centre"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return one server for all members of a topic, topic after topic."""
        return Decision(homes=assign_topics(scenario, request.model, near_centre=True))
