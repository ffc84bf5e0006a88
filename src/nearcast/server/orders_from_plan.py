"""From a scenario and its plan to names: indices become ids, brokers' rows become topics.

The manager's store keeps a `SitePlan`, which needs no scenario; orders are made from it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nearcast.domain.plan import Plan
from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError, ScenarioError
from nearcast.server.site_orders import ServerOrder

__all__ = [
    "DELEGATED",
    "PlannedClient",
    "PlannedTopic",
    "SitePlan",
    "check_servers",
    "name_plan",
    "names_of",
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
    streams: str = ""
    """A digest of who processes which stream: another one, and the assignment has changed."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """All brokers, `DELEGATED` for the cloud server."""
        return (*self.edge_brokers, *([DELEGATED] if self.delegates else []))


@dataclass(frozen=True, slots=True)
class PlannedClient:
    """What a plan says about a client of the scenario, enrolled or not."""

    client: str
    home: str
    publish: Mapping[str, str]
    """The server that processes, by topic; `DELEGATED`: the cloud."""
    topics: tuple[str, ...] = ()
    """All that it takes part in."""


@dataclass(frozen=True, slots=True)
class SitePlan:
    """A plan by names."""

    topics: tuple[PlannedTopic, ...]
    clients: Collection[PlannedClient]
    """Those of a scenario are made as they are read: a million need no room."""


def names_of(ids: pa.Array, what: str) -> list[str]:
    """Return ids as text.

    Raises
    ------
    ScenarioError
        When two ids are the same text, as 1 and "1" are.
    """
    names = [str(value) for value in ids.to_pylist()]
    if len(set(names)) < len(names):
        name = max(Counter(names).items(), key=itemgetter(1))[0]
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
    targets = _targets(scenario, plan, len(servers))
    planned = _planned_topics(scenario, plan, topics, servers)
    digests = _digests(scenario, targets, clients, servers)
    return SitePlan(
        topics=tuple(
            PlannedTopic(*one, streams=digest) for one, digest in zip(planned, digests, strict=True)
        ),
        clients=_PlannedClients(scenario, plan, targets, clients, servers, topics),
    )


_CLOUD = -1
_NOT_PUBLISHED = -2


def _targets(scenario: Scenario, plan: Plan, servers: int) -> NDArray[np.int32]:
    """Return the server that processes each member's messages, by row of the members' table.

    A share is a chance in the model; here whole streams go, as evenly as can be.
    """
    share = _shares(plan)
    targets = np.full(len(scenario.members), _NOT_PUBLISHED, dtype=np.int32)
    owed = [0.0] * servers
    rows = np.flatnonzero(plan.publish >= 0)
    at = zip(
        rows.tolist(),
        scenario.members.topic[rows].tolist(),
        plan.publish[rows].tolist(),
        strict=True,
    )
    for row, topic, server in at:
        owed[server] += 1 - share.get((topic, server), 1.0)
        is_delegated = owed[server] >= 0.5
        owed[server] -= is_delegated
        targets[row] = _CLOUD if is_delegated else server
    return targets


def _shares(plan: Plan) -> dict[tuple[int, int], float]:
    """Return which part of a topic's messages a server keeps, by topic and server."""
    share: dict[tuple[int, int], float] = {}
    rows = plan.brokers
    for topic, server, on_edge, part in zip(
        rows.topic.tolist(),
        rows.server.tolist(),
        rows.on_edge.tolist(),
        rows.share.tolist(),
        strict=True,
    ):
        if on_edge:
            share[topic, server] = part
        else:
            share.setdefault((topic, server), 0.0)
    return share


def _digests(
    scenario: Scenario, targets: NDArray[np.int32], clients: list[str], servers: list[str]
) -> Iterator[str]:
    names = [*servers, DELEGATED]
    members = scenario.members
    for rows in _slices(members.topic, len(scenario.topics)):
        digest = hashlib.blake2b(digest_size=12)
        for client, target in zip(
            members.client[rows].tolist(), targets[rows].tolist(), strict=True
        ):
            if target != _NOT_PUBLISHED:
                digest.update(f"{clients[client]}\n{names[target]}\n".encode())
        yield digest.hexdigest()


def _slices(sorted_numbers: NDArray[np.int32], count: int) -> Iterator[slice]:
    """Return where each number stands in a sorted array."""
    ends = np.searchsorted(sorted_numbers, np.arange(count), side="right").tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        yield slice(begin, end)


class _PlannedClients(Collection[PlannedClient]):
    """The clients of a scenario as its plan has them, made one by one."""

    def __init__(
        self,
        scenario: Scenario,
        plan: Plan,
        targets: NDArray[np.int32],
        clients: list[str],
        servers: list[str],
        topics: list[str],
    ) -> None:
        self._clients, self._topics = clients, topics
        self._homes, self._targets = plan.homes, targets
        self._names = [*servers, DELEGATED]  # the last one has the index -1 as well
        self._members = scenario.members
        self._order = np.argsort(scenario.members.client, kind="stable")

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, item: object) -> bool:
        return any(one == item for one in self)

    def __iter__(self) -> Iterator[PlannedClient]:
        members, names, topics = self._members, self._names, self._topics
        by_client = _slices(members.client[self._order], len(self._clients))
        homes = self._homes.tolist()
        for client, home, part in zip(self._clients, homes, by_client, strict=True):
            rows = self._order[part]
            of_client = [topics[topic] for topic in members.topic[rows].tolist()]
            pairs = zip(of_client, self._targets[rows].tolist(), strict=True)
            publish = {topic: names[at] for topic, at in pairs if at != _NOT_PUBLISHED}
            yield PlannedClient(client, names[home], publish, tuple(of_client))


def _planned_topics(
    scenario: Scenario, plan: Plan, topics: list[str], servers: list[str]
) -> list[tuple[str, int, tuple[str, ...], bool]]:
    """Return name, spool, edge brokers and whether the cloud server is one too, by topic."""
    kept: list[list[str]] = [[] for _ in topics]
    rows = plan.brokers
    delegates = np.zeros(len(topics), dtype=np.bool_)
    np.logical_or.at(delegates, rows.topic, ~rows.on_edge | (rows.share < 1))
    for topic, server in zip(
        rows.topic[rows.on_edge].tolist(), rows.server[rows.on_edge].tolist(), strict=True
    ):
        kept[topic].append(servers[server])
    return [
        (
            name,
            max(1, round(float(scenario.topics.spool[index]))),
            tuple(kept[index]),
            bool(delegates[index]),
        )
        for index, name in enumerate(topics)
    ]
