"""NS: every client at its nearest server."""

from __future__ import annotations

import numpy as np

from nearcast.delay.network import network_of
from nearcast.domain.plan import Model
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["Nearest", "nearest_homes"]

_TIED = 4
"""Servers looked at for ties: a client between four corners of a grid has this many."""


class Nearest:
    """Nearest server assignment (NS in both RELOC papers)."""

    name = "nearest"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return each client's nearest server."""
        return Decision(homes=nearest_homes(scenario))


def nearest_homes(scenario: Scenario) -> IndexArray:
    """Return the server with the smallest delay to each client, of equals the first."""
    delay_ms, server = network_of(scenario).nearest_servers(_TIED)
    tied = np.where(delay_ms == delay_ms[:, :1], server, len(scenario.servers))
    homes: IndexArray = tied.min(axis=1).astype(np.int32)
    return homes
