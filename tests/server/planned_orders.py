"""Orders of a site whose clients are all in its scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from nearcast.domain.plan import Plan
from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError
from nearcast.server.manager_state import PlanVersion, SiteServer, make_orders, with_site
from nearcast.server.orders_from_plan import check_servers, name_plan, names_of
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import ClientOrder, Orders, ServerOrder
from nearcast.testing.plan_directory import PlanDirectory


def orders_from_plan(
    scenario: Scenario,
    plan: Plan,
    servers: Iterable[ServerOrder],
    client_keys: Mapping[str, bytes],
    *,
    cloud: str = "cloud",
    processors: Iterable[ProcessorRule] = (),
    revision: int = 1,
    plan_version: int = 1,
) -> Orders:
    """Return the orders of a site whose clients are all in its scenario.

    Parameters
    ----------
    scenario, plan
        Who is there, and what was decided about them.
    servers
        Addresses and keys of all servers, the cloud server among them.
    client_keys
        Public keys of the enrolled clients; nobody else may connect.
    cloud
        The id of the cloud server.
    processors
        What brokers do with messages; they forward those of topics that no rule matches.
    revision, plan_version
        See `Orders`.

    Raises
    ------
    ConfigError
        When the servers are not those of the scenario, or a client is unknown to it.
    """
    servers = tuple(servers)
    named = name_plan(scenario, plan)
    check_servers(names_of(scenario.servers.ids, "server"), servers, cloud)
    known = {one.client for one in named.clients}
    unknown = sorted(set(client_keys) - known)
    if unknown:
        raise ConfigError(f"client {unknown[0]!r} is not in the scenario")
    state = with_site(
        None,
        {one.server: SiteServer(one) for one in servers},
        named,
        PlanVersion(plan_version, 0.0, None, None, None),
    )
    directory = _WithKeys(named)
    directory.keys = client_keys
    orders = make_orders(state, directory, servers[0].server, cloud, 0.0)
    return msgspec.structs.replace(
        orders, revision=revision, processors=tuple(processors), server=""
    )


class _WithKeys(PlanDirectory):
    """Tells of all clients with a key, and of all topics: orders that fit each server."""

    keys: Mapping[str, bytes]

    def clients_of(self, _server: str) -> Iterator[ClientOrder]:
        for client in self.keys:
            one = self._clients[client]
            yield ClientOrder(client, one.home, dict(one.publish))

    def topics_of(self, _server: str) -> set[str]:
        return {topic for one in self._clients.values() for topic in one.topics}
