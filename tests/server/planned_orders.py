"""Orders of a site whose clients are all in its scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nearcast.domain.plan import Plan
from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError
from nearcast.server.orders_from_plan import (
    check_servers,
    client_order,
    name_plan,
    names_of,
    topic_orders,
)
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import Orders, ServerOrder


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
    unknown = sorted(set(client_keys) - set(named.homes))
    if unknown:
        raise ConfigError(f"client {unknown[0]!r} is not in the scenario")
    clients = tuple(
        client_order(client, key, named.homes[client], named, cloud)
        for client, key in client_keys.items()
    )
    topics = topic_orders(named, cloud)
    return Orders(revision, plan_version, cloud, servers, topics, clients, tuple(processors))
