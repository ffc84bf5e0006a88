"""What a manager keeps in memory; every change gives a new state with a new revision.

A change is made durable before the manager acts on it: see `runtime.manager_store`. Clients are not
here: a `ClientDirectory` is asked about them, so that a million take no room.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nearcast.flow.flow import Flow
from nearcast.flow.flow_orders import FlowOrder
from nearcast.server.orders_from_plan import DELEGATED, PlannedTopic, SitePlan
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import ClientOrder, CoverageOrder, Orders, ServerOrder, TopicOrder
from nearcast.trust.revocations import Revocation, RevocationList, revoke

__all__ = [
    "ClientDirectory",
    "ManagerState",
    "PlanVersion",
    "SiteServer",
    "SiteTopic",
    "coverage_order",
    "make_orders",
    "next_topics",
    "with_cloud",
    "with_flow",
    "with_plan",
    "with_processors",
    "with_revocations",
    "with_site",
    "without_flow",
]


_NONE_REVOKED = RevocationList()


@dataclass(frozen=True, slots=True)
class SiteServer:
    """A server with its place and its limits; the cloud server has neither."""

    order: ServerOrder
    place_km: tuple[float, float] | None = None
    storage: float = math.inf
    compute: float = math.inf
    client_limit: float = math.inf


@dataclass(frozen=True, slots=True)
class SiteTopic:
    """A topic as the plan in force has it, and since when."""

    planned: PlannedTopic
    version: int
    """The plan in which its brokers or the targets of its streams last changed."""
    moved_from: tuple[str, ...] = ()
    """Brokers of all plans before that which are none now."""


@dataclass(frozen=True, slots=True)
class PlanVersion:
    """A plan that is or was in force."""

    version: int
    adopted_at: float
    model: str | None
    method: str | None
    cost: float | None
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManagerState:
    """A site: its servers, the topics of the plan in force, and what was revoked."""

    revision: int
    servers: Mapping[str, SiteServer]
    versions: tuple[PlanVersion, ...]
    """The last one is in force."""
    topics: tuple[SiteTopic, ...]
    processors: tuple[ProcessorRule, ...] = ()
    """What brokers do with messages, by topic."""
    revocations: RevocationList = _NONE_REVOKED
    flows: tuple[FlowOrder, ...] = ()
    """Those that run."""


class ClientDirectory(Protocol):
    """The clients of the plan in force, and those that are enrolled besides.

    `DELEGATED` stands for the cloud server in what it says.
    """

    def clients_of(self, server: str) -> Iterable[ClientOrder]:
        """Return the clients whose home a server is, and those that publish there."""
        ...

    def topics_of(self, server: str) -> Collection[str]:
        """Return the topics that planned clients with this home take part in."""
        ...

    def left(self, server: str) -> Mapping[str, str]:
        """Return the homes of clients that left a server in the last plan."""
        ...

    def find(self, client: str) -> ClientOrder | None:
        """Return what is known about a client."""
        ...

    def counts(self) -> tuple[int, int]:
        """Return how many clients are planned, and how many have a credential."""
        ...


def next_topics(
    known: Mapping[str, SiteTopic], planned: Iterable[PlannedTopic], version: int
) -> list[SiteTopic]:
    """Return topics as another plan has them, with what is to be remembered of those before."""
    return [_next_topic(known.get(one.topic), one, version) for one in planned]


def with_plan(
    state: ManagerState | None,
    servers: Mapping[str, SiteServer],
    topics: tuple[SiteTopic, ...],
    version: PlanVersion,
) -> ManagerState:
    """Return the state with another plan, of which these are the next topics."""
    if state is None:
        return ManagerState(1, servers, (version,), topics)
    return replace(
        state,
        revision=state.revision + 1,
        servers=servers,
        versions=(*state.versions, version),
        topics=topics,
    )


def with_site(
    state: ManagerState | None,
    servers: Mapping[str, SiteServer],
    plan: SitePlan,
    version: PlanVersion,
) -> ManagerState:
    """Return the state with another plan, for the same servers or others."""
    known = {one.planned.topic: one for one in state.topics} if state else {}
    topics = next_topics(known, plan.topics, version.version)
    return with_plan(state, servers, tuple(topics), version)


def with_processors(state: ManagerState, rules: Iterable[ProcessorRule]) -> ManagerState:
    """Return the state with other processors; a topic whose rule changes keeps its spool."""
    return replace(state, revision=state.revision + 1, processors=tuple(rules))


def with_flow(state: ManagerState, flow: Flow, begins_at: Mapping[str, str]) -> ManagerState:
    """Return the state with one more flow; one that runs under the same name begins anew."""
    revision = state.revision + 1
    others = (one for one in state.flows if one.flow.name != flow.name)
    order = FlowOrder(flow, revision, dict(begins_at))
    return replace(state, revision=revision, flows=(*others, order))


def without_flow(state: ManagerState, name: str) -> ManagerState:
    """Return the state without a flow."""
    others = tuple(one for one in state.flows if one.flow.name != name)
    return replace(state, revision=state.revision + 1, flows=others)


def with_revocations(
    state: ManagerState, entries: Iterable[Revocation], now_s: float, above: int = 0
) -> ManagerState:
    """Return the state with more revocations; the same when they say nothing new.

    Parameters
    ----------
    above
        A version that servers have already: the new one is higher.
    """
    known = {(one.kind, one.name): one.least_serial for one in state.revocations.entries}
    new = [
        one
        for one in entries
        if one.least_serial > known.get((one.kind, one.name), 0) and one.until_s > now_s
    ]
    if not new and state.revocations.version >= above:
        return state
    before = RevocationList(max(state.revocations.version, above), 0, state.revocations.entries)
    revocations = revoke(before, new, int(now_s))
    return replace(state, revision=state.revision + 1, revocations=revocations)


def make_orders(
    state: ManagerState,
    clients: ClientDirectory,
    server: str,
    cloud: str,
    now_s: float,
    revocations: bytes = b"",
    revoked_servers: tuple[bytes, ...] = (),
    areas: Mapping[str, str] | None = None,
) -> Orders:
    """Return what one server is to be told.

    Of the topics those that it manages or managed, and those that clients with their home there
    take part in; any other one is new to it, as one that no plan knows. With `areas` clients have
    their home where they are.
    """
    concerned = clients.topics_of(server)
    own = DELEGATED if server == cloud else server
    return Orders(
        revision=state.revision,
        plan_version=state.versions[-1].version,
        cloud=cloud,
        servers=tuple(one.order for one in state.servers.values()),
        topics=tuple(
            _topic_order(one, cloud)
            for one in state.topics
            if one.planned.topic in concerned or own in one.planned.brokers or own in one.moved_from
        ),
        clients=tuple(with_cloud(one, cloud) for one in clients.clients_of(server)),
        processors=state.processors,
        server=server,
        moved=dict(clients.left(server)),
        issued_s=int(now_s),
        revocations=revocations,
        revoked_servers=revoked_servers,
        flows=state.flows,
        coverage=None if areas is None else coverage_order(state.servers, areas),
    )


def coverage_order(servers: Mapping[str, SiteServer], areas: Mapping[str, str]) -> CoverageOrder:
    """Return what edge servers cover: what is nearest to them, or areas of their own."""
    places = {name: one.place_km for name, one in servers.items() if one.place_km is not None}
    return CoverageOrder(places, dict(areas))


def with_cloud(order: ClientOrder, cloud: str) -> ClientOrder:
    """Return an order of a directory with the name of the cloud server."""
    publish = {topic: server or cloud for topic, server in order.publish.items()}
    return ClientOrder(order.client, order.home, publish)


def _next_topic(before: SiteTopic | None, planned: PlannedTopic, version: int) -> SiteTopic:
    if before is None:
        return SiteTopic(planned, version)
    was = before.planned
    if (was.brokers, was.streams) == (planned.brokers, planned.streams):
        return replace(before, planned=planned)
    # earlier ones too: streams that have been quiet since may still be there
    past = dict.fromkeys((*was.brokers, *before.moved_from))
    gone = tuple(one for one in past if one not in planned.brokers)
    return SiteTopic(planned, version, gone)


def _topic_order(topic: SiteTopic, cloud: str) -> TopicOrder:
    planned = topic.planned
    return TopicOrder(
        topic=planned.topic,
        spool=planned.spool,
        brokers=tuple(one or cloud for one in planned.brokers),
        version=topic.version,
        moved_from=tuple(one or cloud for one in topic.moved_from),
    )
