"""LO: every client at a random server of its region."""

from __future__ import annotations

import numpy as np

from nearcast.domain.plan import Model
from nearcast.domain.scenario import IndexArray, Scenario
from nearcast.planning.methods.region_count import assign_in_regions
from nearcast.planning.regions import Regions
from nearcast.planning.request import Decision, PlanRequest

__all__ = ["RandomInRegion"]


class RandomInRegion:
    """Location conscious assignment (LO, 2020): RELOC without relations and cooperation."""

    name = "region"
    models = frozenset(Model)

    def plan(self, scenario: Scenario, request: PlanRequest) -> Decision:
        """Return homes drawn uniformly from the servers of each client's region."""
        draw = np.random.default_rng(request.seed).random(len(scenario.clients))

        def assign(regions: Regions) -> IndexArray:
            begin = regions.start[regions.client_region]
            size = regions.start[regions.client_region + 1] - begin
            return regions.servers[begin + (draw * size).astype(np.int64)]

        homes, search = assign_in_regions(scenario, request, assign)
        return Decision(homes=homes, search=search)
