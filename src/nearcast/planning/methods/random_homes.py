"""RA: every client at a random server."""

from __future__ import annotations

import numpy as np

from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["RandomHomes"]


class RandomHomes:
    """Random assignment (RA in both RELOC papers)."""

    name = "random"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return homes drawn uniformly from all servers."""
        rng = np.random.default_rng(request.seed)
        servers, clients = len(scenario.servers), len(scenario.clients)
        return Decision(homes=rng.integers(servers, size=clients, dtype=np.int32))
