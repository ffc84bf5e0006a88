"""What the published planners share: a scenario as kernel arrays, and RELOC with its switches."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.plan import Model
from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray, Scenario
from nearcast.planning.methods.nearest import nearest_homes
from nearcast.planning.regions import Regions
from nearcast.planning.relations import Relations

if TYPE_CHECKING:
    from nearcast.planning.methods.assignment_kernels import Load

__all__ = ["Cooperation", "assign_members", "assign_reloc", "assign_topics", "settle_the_rest"]

_SLOTS_PER_MEMBER = 8
"""Room for counts that a member may cost, so that a large topic has one for each server."""


class Cooperation(IntEnum):
    """What leaves a server that a publisher of a topic has exhausted, in RELOC's last step."""

    NONE = 0
    """Nobody: RELO."""
    ALONE = 1
    """This publisher, with all its topics: the lines of Algorithm 1."""
    TOGETHER = 2
    """All publishers of the topic that are at home there: the prose of 2021 (Sec. 6)."""


def assign_reloc(
    scenario: Scenario,
    model: Model,
    regions: Regions,
    relations: Relations,
    *,
    cooperate: Cooperation,
) -> IndexArray:
    """Return homes by RELOC: Algorithm 1 of 2020 for `connections`, of 2021 otherwise.

    Without cooperation it is RELO: line 7 (2020) or lines 35-42 (2021) are left out.
    """
    homes = assign_members(scenario, model, regions, relations, cooperate=cooperate)
    return settle_the_rest(scenario, homes)


def assign_members(
    scenario: Scenario,
    model: Model,
    regions: Regions,
    relations: Relations,
    *,
    cooperate: Cooperation,
) -> IndexArray:
    """Return homes by RELOC for all clients that are in a topic, -1 for the others.

    A client only ever goes to a server of its own region, so regions can be assigned one by
    one: the homes are the same.
    """
    from nearcast.planning.methods import assignment_kernels as kernels

    homes = np.full(len(scenario.clients), -1, dtype=np.int32)
    by_client = model is Model.CONNECTIONS
    assign = kernels.assign_by_client if by_client else kernels.assign_by_topic
    assign(
        _load(scenario, model),
        relations.start,
        relations.others,
        regions.server_region,
        regions.client_region,
        regions.start,
        regions.servers,
        int(cooperate),
        homes,
    )
    return homes


def assign_topics(scenario: Scenario, model: Model, *, near_centre: bool) -> IndexArray:
    """Return homes by OTOS: a topic's members on one server, by use or nearest to their centre."""
    from nearcast.planning.methods import assignment_kernels as kernels

    homes = np.full(len(scenario.clients), -1, dtype=np.int32)
    measured = scenario.client_server_ms
    kernels.assign_whole_topics(
        _load(scenario, model),
        near_centre,
        np.column_stack([scenario.clients.x_km, scenario.clients.y_km]),
        np.column_stack([scenario.servers.x_km, scenario.servers.y_km]),
        np.empty((0, 0)) if measured is None else np.ascontiguousarray(measured),
        homes,
    )
    return settle_the_rest(scenario, homes)


def settle_the_rest(scenario: Scenario, homes: IndexArray) -> IndexArray:
    """Return the homes with clients that belong to no topic (-1) sent to their nearest server."""
    idle = np.flatnonzero(homes < 0)
    if len(idle):
        homes[idle] = nearest_homes(scenario)[idle]
    return homes


def _load(scenario: Scenario, model: Model) -> Load:
    """Return the kernels' arrays with nobody at home anywhere yet."""
    from nearcast.planning.methods.assignment_kernels import Load

    members, servers = scenario.members, scenario.servers
    topics, rows = len(scenario.topics), len(scenario.members)
    client_start, client_row = members.rows_by_client(len(scenario.clients))
    second, row_load = servers.compute, _compute_load(scenario)
    if model is Model.CONNECTIONS:
        second = servers.client_limit
        # A client counts once, with the first of its memberships; they move together.
        row_load = np.zeros(rows)
        row_load[client_row[client_start[:-1][np.diff(client_start) > 0]]] = 1.0
    limit = np.stack([servers.storage, second]).astype(np.float64)
    topic_start = members.topic_start(topics)
    slot_start = _slot_start(np.diff(topic_start), len(servers))
    return Load(
        topic=members.topic,
        client=members.client,
        publishes=members.publishes,
        row_load=row_load,
        spool=scenario.topics.spool,
        topic_start=topic_start,
        client_start=client_start,
        client_row=client_row,
        used=np.zeros_like(limit),
        limit=limit,
        # A server without any storage or compute is full from the start.
        usage=np.where((limit > 0).all(axis=0), 0.0, np.inf),
        slot_start=slot_start,
        slot_server=np.empty(slot_start[-1], dtype=np.int32),
        slot_count=np.zeros(slot_start[-1], dtype=np.int32),
        slots=np.zeros(topics, dtype=np.int32),
    )


def _slot_start(topic_size: OffsetArray, server_count: int) -> OffsetArray:
    """Return where each topic's slots start: as many as members, or one for each server.

    Short lists are searched one by one, so only topics with few members have them.
    """
    every = topic_size * _SLOTS_PER_MEMBER >= server_count
    length = np.where(every, server_count, topic_size)
    return np.concatenate([[0], np.cumsum(length)]).astype(np.int64)


def _compute_load(scenario: Scenario) -> FloatArray:
    """Return what each member adds to v_l, eq. (1) of 2021: a publisher the topic's spool."""
    members = scenario.members
    return np.where(members.publishes, scenario.topics.spool[members.topic], 0.0)
