"""What a site's log tells of a short while: where clients were and what they did, by names.

The pipeline learns it from the log; a re-planner brings a scenario up to date with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from nearcast.domain.scenario import BoolArray, IndexArray, Members, Scenario

__all__ = ["PresentScenario", "Traffic", "bring_up_to_date"]

Member = tuple[str, str]
"""Topic and client."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A window of a site's log, by names."""

    since_s: float
    until_s: float
    """The window, in Unix time."""
    places_km: Mapping[str, tuple[float, float]]
    """By client: the place that it told last in the window."""
    published: Mapping[Member, int]
    """How many messages each publisher sent to each topic in the window."""
    subscriptions: Mapping[Member, bool]
    """The last word of clients on topics, also before the window: who listens says so once."""
    notified: Collection[Member]
    """Who was notified in the window, by whatever pattern."""
    delay_ms: float | None = None
    """Mean time from publishing to the home's notification; None: nobody was notified."""
    deliveries: int = 0
    """Notifications that it is the mean of."""
    bad_rows: int = 0
    """Rows and files that could not be used."""


@dataclass(frozen=True, slots=True, eq=False)
class PresentScenario:
    """A scenario as the log of now has it."""

    planned: Scenario
    """Who was silent publishes nothing: what plans are judged by."""
    known: Scenario
    """Who was silent may publish again: what a plan has to serve. Same clients and topics."""
    moved_clients: int
    """How many are elsewhere than before."""
    changed_members: int
    """Memberships that are new, or ended."""
    unknown_clients: int
    unknown_topics: int
    """Of the log, that the scenario does not have: these stay where they are."""


def bring_up_to_date(scenario: Scenario, traffic: Traffic) -> PresentScenario:
    """Return a scenario with the places, members and rates of a window of the log.

    Nobody is lost: a client that was silent keeps its place and its topics, and no topic ends.
    Who publishes or listens to a topic anew is a member; a subscription ends by an unsubscribe.
    """
    clients = _index(scenario.clients.ids)
    topics = _index(scenario.topics.ids)
    x_km, y_km = scenario.clients.x_km.copy(), scenario.clients.y_km.copy()
    for name, place in traffic.places_km.items():
        if name in clients:
            x_km[clients[name]], y_km[clients[name]] = place
    is_moved = (x_km != scenario.clients.x_km) | (y_km != scenario.clients.y_km)
    before = _roles(scenario)
    now = dict(before)
    span_s = max(traffic.until_s - traffic.since_s, 1.0)
    rates: dict[tuple[int, int], float] = {}
    seen_clients: set[str] = set(traffic.places_km)
    seen_topics: set[str] = set()

    def key_of(member: Member) -> tuple[int, int] | None:
        topic, client = member
        seen_clients.add(client)
        seen_topics.add(topic)
        if topic in topics and client in clients:
            return topics[topic], clients[client]
        return None

    for member in traffic.notified:
        if (key := key_of(member)) is not None:
            now[key] = now.get(key, (False, False))[0], True
    for member, subscribes in traffic.subscriptions.items():
        if (key := key_of(member)) is not None:
            now[key] = now.get(key, (False, False))[0], subscribes
    for member, messages in traffic.published.items():
        if (key := key_of(member)) is not None:
            now[key] = True, now.get(key, (False, False))[1]
            rates[key] = messages / span_s
    present = replace(scenario, clients=replace(scenario.clients, x_km=x_km, y_km=y_km))
    known = _members(now, rates)
    is_active: BoolArray = known.publishes & (known.rate_hz > 0)
    counts = is_active | known.subscribes
    planned = Members(
        known.topic[counts],
        known.client[counts],
        is_active[counts],
        known.subscribes[counts],
        known.rate_hz[counts],
    )
    return PresentScenario(
        planned=replace(present, members=planned),
        known=replace(present, members=known),
        moved_clients=int(np.count_nonzero(is_moved)),
        changed_members=sum(
            before.get(key) != now.get(key, (False, False)) for key in before.keys() | now.keys()
        ),
        unknown_clients=len(seen_clients - clients.keys()),
        unknown_topics=len(seen_topics - topics.keys()),
    )


def _index(ids: pa.Array) -> dict[str, int]:
    return {str(name): index for index, name in enumerate(ids.to_pylist())}


def _roles(scenario: Scenario) -> dict[tuple[int, int], tuple[bool, bool]]:
    members = scenario.members
    keys = zip(members.topic.tolist(), members.client.tolist(), strict=True)
    roles = zip(members.publishes.tolist(), members.subscribes.tolist(), strict=True)
    return dict(zip(keys, roles, strict=True))


def _members(
    roles: Mapping[tuple[int, int], tuple[bool, bool]], rates: Mapping[tuple[int, int], float]
) -> Members:
    """Return those that publish or subscribe, sorted."""
    keys = sorted(key for key, role in roles.items() if any(role))
    topic, client = (np.array([key[part] for key in keys], dtype=np.int32) for part in (0, 1))
    publishes, subscribes = (
        np.array([roles[key][part] for key in keys], dtype=np.bool_) for part in (0, 1)
    )
    rate_hz = np.array([rates.get(key, 0.0) for key in keys], dtype=np.float64)
    indices: tuple[IndexArray, IndexArray] = topic, client
    return Members(*indices, publishes, subscribes, rate_hz)
