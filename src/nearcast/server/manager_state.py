"""What a manager knows and must not forget; every change gives a new state with a new revision.

A change is made durable before the manager acts on it: see `runtime.manager_store`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nearcast.errors import ConfigError
from nearcast.server.client_checks import check_client
from nearcast.server.orders_from_plan import SitePlan, client_order, topic_orders
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import Orders, ServerOrder

__all__ = [
    "EnrolledClient",
    "Enrolment",
    "ManagerState",
    "PlanVersion",
    "SiteServer",
    "enrol",
    "make_orders",
    "with_processors",
    "with_site",
]


@dataclass(frozen=True, slots=True)
class SiteServer:
    """A server with its place and its limits; the cloud server has neither."""

    order: ServerOrder
    place_km: tuple[float, float] | None = None
    storage: float = math.inf
    compute: float = math.inf
    client_limit: float = math.inf


@dataclass(frozen=True, slots=True)
class PlanVersion:
    """A plan that is or was in force; `ManagerState` has the decision of the last one."""

    version: int
    adopted_at: float
    model: str | None
    method: str | None
    cost: float | None
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A client that asks to be let in."""

    client: str
    public_key: bytes
    place_km: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class EnrolledClient:
    """A client that may connect, and where."""

    client: str
    public_key: bytes
    home: str
    place_km: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ManagerState:
    """A site: its servers, the plan in force and the clients that may connect."""

    revision: int
    servers: Mapping[str, SiteServer]
    versions: tuple[PlanVersion, ...]
    """The last one is in force."""
    plan: SitePlan
    clients: Mapping[str, EnrolledClient]
    processors: tuple[ProcessorRule, ...] = ()
    """What brokers do with messages, by topic."""


def enrol(
    state: ManagerState, enrolments: Iterable[Enrolment]
) -> tuple[ManagerState, list[EnrolledClient]]:
    """Let clients in, or give those that are in another key or place.

    A client of the plan gets the home that the plan says; any other one the nearest server that
    has room for another client, the nearest of all where none has.

    Raises
    ------
    ConfigError
        Naming the first client that cannot be let in; then nothing changed.
    """
    clients, homes = dict(state.clients), _HomeChoice(state)
    owners = {one.public_key: one.client for one in clients.values()}
    records = []
    for asked in enrolments:
        check_client(asked.client, asked.public_key, asked.place_km)
        # a server knows a client by its key
        if owners.setdefault(asked.public_key, asked.client) != asked.client:
            raise ConfigError(f"the public key of client {asked.client!r} is another client's")
        before = clients.get(asked.client)
        if asked.client in state.plan.homes:
            home = state.plan.homes[asked.client]
        elif asked.place_km is not None:
            home = homes.move(before.home if before else None, asked.place_km)
        else:
            raise ConfigError(
                f"client {asked.client!r} is not in the scenario: its place is needed (x_km, y_km)"
            )
        record = EnrolledClient(asked.client, asked.public_key, home, asked.place_km)
        clients[asked.client] = record
        records.append(record)
    return replace(state, revision=state.revision + 1, clients=clients), records


def with_site(
    state: ManagerState | None,
    servers: Mapping[str, SiteServer],
    plan: SitePlan,
    version: PlanVersion,
) -> ManagerState:
    """Return the state with another plan, for the same servers or others.

    Enrolled clients go where the plan says; others stay, or move when their home is gone.
    """
    if state is None:
        return ManagerState(1, servers, (version,), plan, {})
    wanted = [
        replace(one, home=plan.homes.get(name, one.home)) for name, one in state.clients.items()
    ]
    after = ManagerState(
        revision=state.revision + 1,
        servers=servers,
        versions=(*state.versions, version),
        plan=plan,
        clients={one.client: one for one in wanted if one.home in servers},
        processors=state.processors,
    )
    homes = _HomeChoice(after)
    # one whose place was known from an earlier scenario only has to be somewhere
    moved = {
        one.client: replace(one, home=homes.move(None, one.place_km or (0.0, 0.0)))
        for one in wanted
        if one.home not in servers
    }
    return replace(after, clients={**after.clients, **moved})


def with_processors(state: ManagerState, rules: Iterable[ProcessorRule]) -> ManagerState:
    """Return the state with other processors; a topic whose rule changes keeps its spool."""
    return replace(state, revision=state.revision + 1, processors=tuple(rules))


def make_orders(state: ManagerState, cloud: str) -> Orders:
    """Return what every server is to be told."""
    return Orders(
        revision=state.revision,
        plan_version=state.versions[-1].version,
        cloud=cloud,
        servers=tuple(server.order for server in state.servers.values()),
        topics=topic_orders(state.plan, cloud),
        clients=tuple(
            client_order(one.client, one.public_key, one.home, state.plan, cloud)
            for one in state.clients.values()
        ),
        processors=state.processors,
    )


class _HomeChoice:
    """How many clients each server has, whether of the plan or enrolled besides."""

    def __init__(self, state: ManagerState) -> None:
        self._servers = {
            name: server for name, server in state.servers.items() if server.place_km is not None
        }
        self._taken = Counter(state.plan.homes.values())
        self._taken.update(
            one.home for one in state.clients.values() if one.client not in state.plan.homes
        )

    def move(self, old_home: str | None, place_km: tuple[float, float]) -> str:
        """Give up a home and return the new one; the first of equally near ones by name."""
        if old_home is not None:
            self._taken[old_home] -= 1
        full_first = [
            (self._taken[name] >= one.client_limit, math.dist(place_km, one.place_km), name)
            for name, one in self._servers.items()
            if one.place_km is not None
        ]
        home = min(full_first)[2]
        self._taken[home] += 1
        return home
