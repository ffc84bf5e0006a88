"""The numba kernels of RELOC and OTOS: homes one by one, with each server's use kept up to date."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["TOGETHER", "Load", "assign_by_client", "assign_by_topic", "assign_whole_topics"]

Array = npt.NDArray[Any]

TOGETHER = 2
"""Of `Cooperation`: compiled code knows no enumerations."""
_FULL = 1.0 + 1e-9
"""Use of a server above which its local share is less than 1, rounding errors aside."""


class Load(NamedTuple):
    """The members and what they use of each server; changed by the kernels."""

    topic: Array
    """Topic [member row]."""
    client: Array
    publishes: Array
    row_load: Array
    """What a member adds to the second use of its home [member row]: compute, or clients."""
    spool: Array
    topic_start: Array
    client_start: Array
    client_row: Array
    """Member rows by client, in ascending order for each."""
    used: Array
    """Storage used, and compute or clients [2, server]."""
    limit: Array
    """What of these a server has [2, server]."""
    usage: Array
    """Larger of the two shares [server]."""
    slot_start: Array
    """Where the slots of each topic start: one for each server, or fewer (a short list)."""
    slot_server: Array
    """Servers with publishers of the topic; not filled in where every server has a slot."""
    slot_count: Array
    """How many publishers of the topic are at home there."""
    slots: Array
    """Length of the short list [topic]."""


@njit(cache=True)
def _least_used(usage: Array, servers: Array) -> int:
    """Return the least used of some servers, the first of equals.

    This is line 38 and also line 23: if any server has theta = 1, the least used one has.
    """
    best = 0
    for i in range(1, len(servers)):
        if usage[servers[i]] < usage[servers[best]]:
            best = i
    return int(servers[best])


@njit(cache=True)
def _count_publisher(load: Load, topic: int, server: int, change: int) -> None:
    """Add a publisher of a topic to a server (or take it away), and the spool with the first."""
    begin = load.slot_start[topic]
    listed = load.slot_start[topic + 1] - begin < len(load.usage)
    end = begin + load.slots[topic]
    at = begin if listed else begin + server
    while listed and at < end and load.slot_server[at] != server:
        at += 1
    if listed and at == end:
        load.slot_server[at] = server
        load.slot_count[at] = 0
        load.slots[topic] += 1
    if load.slot_count[at] == 0:
        load.used[0, server] += load.spool[topic]
    load.slot_count[at] += change
    if load.slot_count[at] == 0:
        load.used[0, server] -= load.spool[topic]
        if listed:
            load.slots[topic] -= 1
            end = begin + load.slots[topic]
            load.slot_server[at] = load.slot_server[end]
            load.slot_count[at] = load.slot_count[end]


@njit(cache=True)
def _put(load: Load, row: int, server: int, change: int) -> None:
    """Add a member to a server (change 1) or take it away (change -1)."""
    load.used[1, server] += change * load.row_load[row]
    if load.publishes[row]:
        _count_publisher(load, load.topic[row], server, change)
    usage = 0.0
    for kind in range(2):
        if load.limit[kind, server] > 0:
            usage = max(usage, load.used[kind, server] / load.limit[kind, server])
        else:
            usage = np.inf
    load.usage[server] = usage


@njit(cache=True)
def _move(load: Load, client: int, last_row: int, old: int, new: int) -> None:
    """Move a client with its memberships up to a row: COOPERATION, lines 1-14.

    Deviation: when the new server is the old one nothing happens; the printed lines would
    remove the client from it.
    """
    if old == new:
        return
    for at in range(load.client_start[client], load.client_start[client + 1]):
        row = load.client_row[at]
        if row > last_row:
            break
        _put(load, row, old, -1)
        _put(load, row, new, 1)


@njit(cache=True)
def _follow(load: Load, last_row: int, old: int, new: int, homes: Array) -> None:
    """Move the publishers of a row's topic that came before it from one server to another."""
    if old == new:
        return
    for row in range(load.topic_start[load.topic[last_row]], last_row):
        client = load.client[row]
        if load.publishes[row] and homes[client] == old:
            _move(load, client, last_row, old, new)
            homes[client] = new


@njit(cache=True)
def assign_by_topic(
    load: Load,
    related_start: Array,
    related: Array,
    server_region: Array,
    client_region: Array,
    region_start: Array,
    region_servers: Array,
    cooperate: int,
    homes: Array,
) -> None:
    """Fill `homes` by lines 20-45 of Algorithm 1 (2021); `cooperate` is a `Cooperation`.

    Deviation: T' of line 40 is the set of topics seen so far; later ones join when their turn
    comes. A client met again takes the topics it already publishes to along (line 32).
    A server without any storage or compute counts as full even while nobody uses it.
    """
    for row in range(len(load.client)):
        client = load.client[row]
        region = client_region[client]
        servers = region_servers[region_start[region] : region_start[region + 1]]
        server = spare = -1
        for at in range(related_start[client], related_start[client + 1]):
            home = homes[related[at]]
            if home < 0 or server_region[home] != region:
                continue
            if load.usage[home] <= _FULL:
                server = home
                break
            if spare < 0:
                spare = _least_used(load.usage, servers)
            if load.usage[spare] > _FULL:  # The whole region is full: no need to look on.
                break
        if server < 0:
            server = spare if spare >= 0 else _least_used(load.usage, servers)
        if homes[client] >= 0:
            _move(load, client, row - 1, homes[client], server)
        _put(load, row, server, 1)
        if cooperate and load.publishes[row] and load.usage[server] > _FULL:
            other = _least_used(load.usage, servers)
            _move(load, client, row, server, other)
            if cooperate == TOGETHER:
                _follow(load, row, server, other, homes)
            server = other
        homes[client] = server


@njit(cache=True)
def assign_by_client(
    load: Load,
    related_start: Array,
    related: Array,
    server_region: Array,
    client_region: Array,
    region_start: Array,
    region_servers: Array,
    test_resources: int,
    homes: Array,
) -> None:
    """Fill `homes` by Algorithm 1 (2020), client after client; row_load must count clients.

    Deviation: line 7 as printed tests the server l chosen in line 4; the text, followed here,
    tests the home of the related client. Servers with equal r_l (line 4) go by their use.
    """
    for client in range(len(homes)):
        if load.client_start[client] == load.client_start[client + 1]:
            continue
        region = client_region[client]
        server = -1
        for at in range(related_start[client], related_start[client + 1]):
            home = homes[related[at]]
            if home < 0 or server_region[home] != region:
                continue
            if not test_resources or load.usage[home] <= _FULL:
                server = home
                break
        if server < 0:
            servers = region_servers[region_start[region] : region_start[region + 1]]
            server = _least_delegating(load, servers)
        homes[client] = server
        for at in range(load.client_start[client], load.client_start[client + 1]):
            _put(load, load.client_row[at], server, 1)


@njit(cache=True)
def _least_delegating(load: Load, servers: Array) -> int:
    """Return the server with the smallest r_l, of equals the least used, of equals the first."""
    best, best_share = -1, np.inf
    for server in servers:
        share = 0.0
        if load.used[0, server] > load.limit[0, server]:
            share = 1.0 - load.limit[0, server] / load.used[0, server]
        equal = share == best_share and load.usage[server] < load.usage[best]
        if share < best_share or equal:
            best, best_share = server, share
    return best


@njit(cache=True)
def _nearest_with_room(load: Load, topic: int, distance: Array) -> int:
    """Return the nearest server that can take a whole topic; -1 if there is none."""
    need = 0.0
    for row in range(load.topic_start[topic], load.topic_start[topic + 1]):
        need += load.row_load[row]
    best = -1
    for server in range(len(distance)):
        stored = load.used[0, server] + load.spool[topic] <= load.limit[0, server] * _FULL
        loaded = load.used[1, server] + need <= load.limit[1, server] * _FULL
        if stored and loaded and (best < 0 or distance[server] < distance[best]):
            best = server
    return best


@njit(cache=True)
def _topic_distance(
    load: Load, topic: int, place: Array, server_place: Array, measured_ms: Array, out: Array
) -> None:
    """Fill the distance of a topic's members to each server: of their centre, or measured."""
    begin, end = load.topic_start[topic], load.topic_start[topic + 1]
    out[:] = 0.0
    if measured_ms.size:
        for row in range(begin, end):
            out += measured_ms[load.client[row]]
        return
    x = y = 0.0
    for row in range(begin, end):
        x += place[load.client[row], 0] / (end - begin)
        y += place[load.client[row], 1] / (end - begin)
    for server in range(len(out)):
        out[server] = np.hypot(server_place[server, 0] - x, server_place[server, 1] - y)


@njit(cache=True)
def assign_whole_topics(
    load: Load,
    near_centre: bool,
    client_place: Array,
    server_place: Array,
    measured_ms: Array,
    homes: Array,
) -> None:
    """Fill `homes` by OTOS: one server a topic, with cooperation for clients in several topics."""
    every = np.arange(len(load.usage))
    distance = np.empty(len(load.usage))
    for topic in range(len(load.spool)):
        chosen = -1
        if near_centre:
            _topic_distance(load, topic, client_place, server_place, measured_ms, distance)
            chosen = _nearest_with_room(load, topic, distance)
        if chosen < 0:
            chosen = _least_used(load.usage, every)
        for row in range(load.topic_start[topic], load.topic_start[topic + 1]):
            client, server = load.client[row], chosen
            met_before = homes[client] >= 0
            if met_before:
                _move(load, client, row - 1, homes[client], server)
            _put(load, row, server, 1)
            if met_before and load.publishes[row] and load.usage[server] > _FULL:
                server = _least_used(load.usage, every)
                _move(load, client, row, chosen, server)
            homes[client] = server
