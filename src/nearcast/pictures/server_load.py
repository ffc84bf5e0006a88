"""What servers carry against what they can: the numbers behind the map and the bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearcast.delay.connections import ConnectionsCost
from nearcast.delay.placement import PlacementCost
from nearcast.delay.ratio import RatioCost
from nearcast.domain.scenario import BoolArray, FloatArray, Scenario

__all__ = ["PlanCost", "ServerResource", "cost_text", "overloaded_servers", "server_resources"]

PlanCost = RatioCost | ConnectionsCost | PlacementCost


@dataclass(frozen=True, slots=True, eq=False)
class ServerResource:
    """One limited thing of all servers."""

    name: str
    unit: str
    used: FloatArray
    limit: FloatArray
    """Infinite where there is no limit."""

    @property
    def share(self) -> FloatArray:
        """Use / limit [server]; infinite when something is used of a limit of 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.used > 0, self.used / self.limit, 0.0)


def server_resources(scenario: Scenario, cost: PlanCost) -> tuple[ServerResource, ...]:
    """Return the resources that the cost's model limits."""
    servers = scenario.servers
    storage = ServerResource("storage", "spool units", cost.storage_used, servers.storage)
    if isinstance(cost, RatioCost):
        compute = ServerResource(
            "compute",
            "spool units \N{MULTIPLICATION SIGN} publishers",
            cost.compute_used,
            servers.compute,
        )
        return storage, compute
    if isinstance(cost, ConnectionsCost):
        return storage, ServerResource("clients", "clients", cost.clients, servers.client_limit)
    return (storage,)


def overloaded_servers(resources: Sequence[ServerResource]) -> BoolArray:
    """Return which servers carry more than a limit; equal within rounding is not more."""
    largest = np.max([resource.share for resource in resources], axis=0)
    over: BoolArray = largest > 1 + 1e-9
    return over


def cost_text(cost: PlanCost) -> str:
    """Return the value of a plan in a few words."""
    if isinstance(cost, PlacementCost):
        return f"D1 = {cost.d1_ms:,.1f} ms, mean {cost.d1_ms / max(cost.pairs, 1):.3f} ms a pair"
    return f"Y = {cost.y_ms:.3f} ms a delivery"
