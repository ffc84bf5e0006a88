"""From a scenario and its plan to orders: indices become names, brokers' rows become topics.

The manager keeps a `SitePlan`, which needs no scenario, and makes orders from it whenever a
client is enrolled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa

from nearcast.domain.plan import Plan
from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError, ScenarioError
from nearcast.server.site_orders import ClientOrder, ServerOrder, TopicOrder

__all__ = [
    "DELEGATED",
    "PlannedTopic",
    "SitePlan",
    "check_servers",
    "client_order",
    "name_plan",
    "names_of",
    "topic_orders",
]


DELEGATED = ""
"""Stands for the cloud server, whose name a plan does not know."""


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """Where a topic is managed; see `TopicOrder`."""

    topic: str
    spool: int
    edge_brokers: tuple[str, ...]
    delegates: bool
    """Whether the cloud server is a broker too."""
    share: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SitePlan:
    """A plan by names."""

    topics: tuple[PlannedTopic, ...]
    homes: Mapping[str, str]
    """Home by client: every client of the scenario, enrolled or not."""
    publish: Mapping[str, Mapping[str, str]]
    """The server that processes, by client and topic of all that publish; `DELEGATED`: the cloud."""


def client_order(
    client: str, public_key: bytes, home: str, plan: SitePlan, cloud: str
) -> ClientOrder:
    """Return the order about an enrolled client."""
    publish = {
        topic: cloud if server == DELEGATED else server
        for topic, server in plan.publish.get(client, {}).items()
    }
    return ClientOrder(client, public_key, home, publish)


def names_of(ids: pa.Array, what: str) -> list[str]:
    """Return ids as text.

    Raises
    ------
    ScenarioError
        When two ids are the same text, as 1 and "1" are.
    """
    names = [str(value) for value in ids.to_pylist()]
    name, count = max(Counter(names).items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise ScenarioError(f"two {what}s are called {name!r} when their ids are read as text")
    return names


def check_servers(names: Iterable[str], servers: Iterable[ServerOrder], cloud: str) -> None:
    """Check that the servers with an address are those of the scenario and the cloud server.

    Raises
    ------
    ConfigError
        Naming the first server that is missing, there twice, or unknown.
    """
    planned = set(names)
    if cloud in planned:
        raise ConfigError(
            f"the cloud server is called {cloud!r}, and so is an edge server of the scenario"
        )
    addressed: set[str] = set()
    for server in servers:
        if server.server in addressed:
            raise ConfigError(f"server {server.server!r} is there twice in [[servers]]")
        if server.server not in planned and server.server != cloud:
            raise ConfigError(f"server {server.server!r} of [[servers]] is not in the scenario")
        addressed.add(server.server)
    missing = sorted((planned | {cloud}) - addressed)
    if missing:
        raise ConfigError(f"server {missing[0]!r} has no entry in [[servers]]")


def name_plan(scenario: Scenario, plan: Plan) -> SitePlan:
    """Return a plan by names."""
    servers = names_of(scenario.servers.ids, "server")
    topics = names_of(scenario.topics.ids, "topic")
    clients = names_of(scenario.clients.ids, "client")
    members = scenario.members
    planned = _planned_topics(scenario, plan, topics, servers)
    publish: dict[str, dict[str, str]] = {}
    owed = dict.fromkeys(servers, 0.0)
    for row in np.flatnonzero(plan.publish >= 0).tolist():
        client, topic = clients[members.client[row]], topics[members.topic[row]]
        server = servers[plan.publish[row]]
        # A share is a chance in the model; here whole streams go, as evenly as can be.
        owed[server] += 1 - planned[members.topic[row]].share.get(server, 1.0)
        is_delegated = owed[server] >= 0.5
        owed[server] -= is_delegated
        publish.setdefault(client, {})[topic] = DELEGATED if is_delegated else server
    return SitePlan(
        topics=planned,
        homes=dict(zip(clients, (servers[home] for home in plan.homes.tolist()), strict=True)),
        publish=publish,
    )


def topic_orders(plan: SitePlan, cloud: str) -> tuple[TopicOrder, ...]:
    """Return the orders about the topics of a plan."""
    return tuple(
        TopicOrder(
            topic=planned.topic,
            spool=planned.spool,
            brokers=(*planned.edge_brokers, *([cloud] if planned.delegates else [])),
        )
        for planned in plan.topics
    )


def _planned_topics(
    scenario: Scenario, plan: Plan, topics: list[str], servers: list[str]
) -> tuple[PlannedTopic, ...]:
    kept: list[list[str]] = [[] for _ in topics]
    share: list[dict[str, float]] = [{} for _ in topics]
    delegates = np.zeros(len(topics), dtype=np.bool_)
    rows = plan.brokers
    for topic, server, on_edge, part in zip(
        rows.topic.tolist(),
        rows.server.tolist(),
        rows.on_edge.tolist(),
        rows.share.tolist(),
        strict=True,
    ):
        if on_edge:
            kept[topic].append(servers[server])
            share[topic][servers[server]] = part
        else:
            share[topic].setdefault(servers[server], 0.0)
        delegates[topic] |= not on_edge or part < 1
    return tuple(
        PlannedTopic(
            topic=name,
            spool=max(1, round(float(scenario.topics.spool[index]))),
            edge_brokers=tuple(kept[index]),
            delegates=bool(delegates[index]),
            share=share[index],
        )
        for index, name in enumerate(topics)
    )
