"""OTOS: one topic, one server, the least used."""

from __future__ import annotations

from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.planning.methods.assignment import assign_topics
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["Otos"]


class Otos:
    """One-topic-one-server assignment (OTOS, 2021), blind to places.

    Deviation: the paper does not say how a topic's server is chosen; here it is the least used
    one. Clients of several topics are re-homed and cooperate as in RELOC.
    """

    name = "otos"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return one server for all members of a topic, topic after topic."""
        return Decision(homes=assign_topics(scenario, request.model, near_centre=False))
