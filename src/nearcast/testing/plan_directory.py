"""The clients of a plan in memory, for a manager without a store."""

from __future__ import annotations

from collections.abc import Iterator

from nearcast.server.orders_from_plan import PlannedClient, SitePlan
from nearcast.server.site_orders import ClientOrder

__all__ = ["PlanDirectory"]


class PlanDirectory:
    """Answers as `runtime.stored_clients.StoredClients` does."""

    def __init__(self, plan: SitePlan) -> None:
        self._clients: dict[str, PlannedClient] = {}
        self._before: dict[str, str] = {}
        """Homes by the plan before."""
        self.replace(plan)

    def replace(self, plan: SitePlan) -> None:
        """Go by another plan."""
        self._before = {name: one.home for name, one in self._clients.items()}
        self._clients = {one.client: one for one in plan.clients}

    def clients_of(self, server: str) -> Iterator[ClientOrder]:
        """Return the clients whose home a server is, and those that publish there."""
        for one in self._clients.values():
            if server in (one.home, *one.publish.values()):
                yield _order(one)

    def topics_of(self, server: str) -> set[str]:
        """Return the topics that planned clients with this home take part in."""
        of_home = [one for one in self._clients.values() if one.home == server]
        return {topic for one in of_home for topic in (*one.topics, *one.publish)}

    def left(self, server: str) -> dict[str, str]:
        """Return the homes of clients that left a server in the last plan."""
        return {
            name: one.home
            for name, one in self._clients.items()
            if self._before.get(name) == server != one.home
        }

    def find(self, client: str) -> ClientOrder | None:
        """Return what is known about a client."""
        found = self._clients.get(client)
        return _order(found) if found is not None else None

    def counts(self) -> tuple[int, int]:
        """Return how many clients are planned, and that none has a credential from here."""
        return len(self._clients), 0


def _order(one: PlannedClient) -> ClientOrder:
    return ClientOrder(one.client, one.home, dict(one.publish))
