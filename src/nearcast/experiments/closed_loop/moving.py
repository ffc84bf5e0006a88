"""Clients that go somewhere else: whole communities, so that other edge servers have their traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearcast.domain.scenario import Scenario
from nearcast.site.live_site import LiveSite
from nearcast.site.swarm import Swarm

__all__ = ["mirrored", "move_clients"]


def mirrored(scenario: Scenario, share: float, rng: np.random.Generator) -> Scenario:
    """Return the scenario with members of some topics across the centre of the field.

    Topics are taken in random order until so large a share of the clients has moved: who talks to
    each other stays together, far from the servers that the old plan gave them.
    """
    clients, members = scenario.clients, scenario.members
    moves = np.zeros(len(clients), dtype=np.bool_)
    for topic in rng.permutation(len(scenario.topics)):
        if np.count_nonzero(moves) >= share * len(clients):
            break
        moves[members.client[members.topic == topic]] = True
    x_km = np.where(moves, scenario.settings.width_km - clients.x_km, clients.x_km)
    y_km = np.where(moves, scenario.settings.height_km - clients.y_km, clients.y_km)
    return replace(scenario, clients=replace(clients, x_km=x_km, y_km=y_km))


def move_clients(live: LiveSite, swarm: Swarm, after: Scenario) -> int:
    """Have the clients of a running site be where a scenario has them; return how many moved.

    Each says so at once, and its emulated delays to all servers are those of its new place.
    """
    before = live.scenario.clients
    names = [str(one) for one in after.clients.ids.to_pylist()]
    x_km, y_km = after.clients.x_km, after.clients.y_km
    moved = 0
    for row, (name, delays_ms) in enumerate(zip(names, live.delays_ms(after), strict=True)):
        if (x_km[row], y_km[row]) == (before.x_km[row], before.y_km[row]):
            continue
        client = swarm.client(name)
        client.emulate_delays(delays_ms)
        client.report(float(x_km[row]), float(y_km[row]), at_once=True)
        moved += 1
    return moved
