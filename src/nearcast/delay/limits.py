"""Limits that no plan can beat, whatever the servers hold.

Both are means over deliveries of the mean over a delivery's subscribers, as Y is. Through the
cloud a pair costs its two legs and 2 d^C whatever the distance between the servers, so each
limit takes, per pair, the smaller of the direct way and nearest leg + 2 d^C + nearest leg.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.network import Network, network_of
from nearcast.delay.pairs import member_pairs
from nearcast.delay.ratio import delivery_weights
from nearcast.delay.slots import sum_by
from nearcast.domain.scenario import FloatArray, IndexArray, Scenario
from nearcast.geo.distance import distance_km

__all__ = ["Limits", "delay_limits", "nearest_leg_limit_ms", "route_limit_ms", "speed_limit_ms"]

_CANDIDATE_SERVERS, _FEW_CANDIDATES = 24, 6
_MANY_MEMBERS = 200_000
"""From here on fewer candidates have to do: the limit gets a little lower, and much sooner."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What no plan can beat, in ms; None where a limit does not hold for the scenario."""

    speed_ms: float | None
    """Signals at the speed of the network, straight from publisher to subscriber."""
    one_server_ms: float | None
    """Straight through the best one server."""


def delay_limits(scenario: Scenario) -> Limits:
    """Return both limits of the models with a server-to-server delay (M2, M3).

    With measured delays the straight line says nothing: there is no speed limit then, and the
    one-server limit becomes the best route through any two servers.
    """
    network, members = network_of(scenario), scenario.members
    weight, _ = delivery_weights(
        members.topic, members.publishes, members.subscribes, len(scenario.topics)
    )
    tried = _CANDIDATE_SERVERS if len(members) <= _MANY_MEMBERS else _FEW_CANDIDATES
    nearest_ms, nearest_server = network.nearest_servers(tried + 1)
    speed = route = 0.0
    pairs = member_pairs(members.topic, weight > 0, members.subscribes, len(scenario.topics))
    for left, right in pairs:
        publisher, subscriber = members.client[left], members.client[right]
        cloud = nearest_ms[publisher, 0] + 2 * network.cloud_ms + nearest_ms[subscriber, 0]
        straight = speed_limit_ms(network, publisher, subscriber)
        speed += float(weight[left] @ np.minimum(straight, cloud))
        way = route_limit_ms(network, nearest_ms, nearest_server, publisher, subscriber)
        route += float(weight[left] @ np.minimum(way, cloud))
    count = max(int(np.count_nonzero(weight)), 1)
    return Limits(speed / count if network.has_geometry else None, route / count)


def nearest_leg_limit_ms(scenario: Scenario) -> float:
    """Return M1's limit: every client at its nearest server (servers are 0 ms apart there)."""
    members, topics = scenario.members, len(scenario.topics)
    weight, leg = delivery_weights(members.topic, members.publishes, members.subscribes, topics)
    publishers = sum_by(members.topic, weight > 0, topics)
    share = leg / np.maximum(publishers, 1)[members.topic]
    nearest_ms = network_of(scenario).nearest_servers(1)[0][:, 0]
    return float(share @ nearest_ms[members.client]) / max(int(np.count_nonzero(publishers)), 1)


def speed_limit_ms(network: Network, publisher: IndexArray, subscriber: IndexArray) -> FloatArray:
    """Return the delay of the straight line between the clients of each pair."""
    return network.ms_per_km * distance_km(
        network.client_x_km[publisher],
        network.client_y_km[publisher],
        network.client_x_km[subscriber],
        network.client_y_km[subscriber],
    )


def route_limit_ms(
    network: Network,
    nearest_ms: FloatArray,
    nearest_server: IndexArray,
    publisher: IndexArray,
    subscriber: IndexArray,
) -> FloatArray:
    """Return a lower limit of leg + server-to-server + leg for each pair, exact when few servers.

    With geometry one server is enough (triangle inequality). Only the publisher's nearest
    servers but the last are tried; every other one costs at least the leg to that last one.
    """
    if not network.has_geometry:
        return _measured_route_ms(network, publisher, subscriber)
    is_complete = nearest_ms.shape[1] == network.server_count
    tried = nearest_ms.shape[1] if is_complete else nearest_ms.shape[1] - 1
    best: FloatArray = np.full(len(publisher), np.inf)
    for rank in range(tried):
        server = nearest_server[publisher, rank]
        np.minimum(
            best, nearest_ms[publisher, rank] + network.legs_ms(subscriber, server), out=best
        )
    if is_complete:
        return best
    straight = speed_limit_ms(network, publisher, subscriber)
    beyond: FloatArray = np.maximum(nearest_ms[publisher, tried], straight)
    np.minimum(best, beyond, out=best)
    return best


def _measured_route_ms(
    network: Network, publisher: IndexArray, subscriber: IndexArray
) -> FloatArray:
    best: FloatArray = np.full(len(publisher), np.inf)
    legs = network.leg_matrix_ms()
    for server in range(network.server_count):
        onward = np.min(network.server_server_ms[server] + legs, axis=1)
        np.minimum(best, legs[publisher, server] + onward[subscriber], out=best)
    return best
