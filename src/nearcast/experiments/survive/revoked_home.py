"""A home whose key was stolen and revoked: it goes on as before, and says nothing to its clients."""

from __future__ import annotations

from msgspec.structs import replace

from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import Connected

__all__ = ["RevokedHome"]

_HEARS_WITHIN_S = 200.0
"""Three questions to other servers, and a little more."""


class RevokedHome:
    """A car at e1, of which all others know that it was revoked; e2 and e3 are honest."""

    def __init__(self, seed: int) -> None:
        site = self.site = SimulatedSite(seed)
        for name in ("e1", "e2", "e3"):
            site.add_server(name)
        self.car: SimulatedClient = site.add_client("car", "e1")
        self._order = ClientOrder("car", "e1")
        site.obey(Orders(1, 1, "", site.server_orders(), (), (self._order,)))
        site.connect([self.car])
        site.run(20.0)

    def mislead(self) -> None:
        """Have e1 name other ways into the site that lead nowhere, by true credentials."""
        lies = tuple(
            replace(one, host=one.host if one.server == "e1" else "nowhere")
            for one in self.site.server_orders()
        )
        self.site.servers["e1"].obey(Orders(2, 1, "", lies, (), (self._order,)))

    def revoke(self) -> None:
        """Have all servers but e1 know that it was revoked; e1 has no link to them any more."""
        site = self.site
        revoked = site.authority.revoked_servers("e1")
        orders = Orders(2, 1, "", site.server_orders(), (), (self._order,), **revoked)
        for name in ("e2", "e3"):
            site.servers[name].obey(orders)
            site.network.cuts.add(frozenset(("e1", name)))

    def violations(self) -> list[str]:
        """Mislead, revoke, and return what is wrong some minutes later."""
        site, car = self.site, self.car
        self.mislead()
        site.run(1.0)
        self.revoke()
        site.run(_HEARS_WITHIN_S)
        found = []
        if not car.session.is_connected or car.session.home.address[0] not in ("e2", "e3"):
            found.append(f"the client of a revoked home is at {car.session.home.address}")
        left_at = site.now
        site.run(_HEARS_WITHIN_S)
        if any(
            isinstance(event, Connected) and event.home.address[0] == "e1"
            for at, event in car.events
            if at > left_at
        ):
            found.append("the client went back to a revoked home")
        car.publish("t", b"after")
        site.run(10.0)
        if car.session.unacknowledged:
            found.append("the client of a revoked home is not served elsewhere")
        return found
