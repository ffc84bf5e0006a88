"""Limits that no plan can beat, whatever the servers hold.

Both are means over deliveries of the mean over a delivery's subscribers, as Y is. Through the
cloud a pair costs its two legs and 2 d^C whatever the distance between the servers, so each
limit takes, per pair, the smaller of the direct way and nearest leg + 2 d^C + nearest leg.

A topic of n members has n^2 pairs. Where the largest topics have too many, the one-server limit
takes for their pairs the two nearest legs, which factorise: lower, but still a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.network import network_of
from nearcast.delay.pair_parts import pairs_by_topic
from nearcast.delay.ratio import delivery_weights
from nearcast.delay.slots import sum_by
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario

__all__ = [
    "MOST_PAIRS",
    "PAIRS_PER_S",
    "LimitEffort",
    "LimitTotals",
    "Limits",
    "delay_limits",
    "limit_effort",
    "limit_totals",
    "limits_from",
    "nearest_leg_limit_ms",
]

MOST_PAIRS = 1_000_000_000
"""Pairs to look at where nobody says otherwise: half a minute of one core."""
PAIRS_PER_S = 30_000_000
"""By one core, about; tells how many pairs a time limit allows."""
_CANDIDATE_SERVERS, _FEW_CANDIDATES = 24, 6
_MANY_MEMBERS = 3_000_000
"""From here on fewer candidates have to do: the limit gets a little lower, and much sooner."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What no plan can beat, in ms; None where a limit does not hold or is not known."""

    speed_ms: float | None
    """Signals at the speed of the network, straight from publisher to subscriber."""
    one_server_ms: float | None
    """Straight through the best one server."""


@dataclass(frozen=True, slots=True)
class LimitEffort:
    """How much work to put into the limits of a scenario."""

    candidates: int
    """Nearest servers of a publisher to try."""
    pairs_per_topic: int
    """A topic with more pairs than this counts with its nearest legs only."""
    topics_by_legs: int
    """How many topics have more."""


@dataclass(frozen=True, slots=True)
class LimitTotals:
    """Sums over deliveries; those of two parts of the member rows add up."""

    speed_ms: float
    route_ms: float
    deliveries: float


def delay_limits(scenario: Scenario, most_pairs: int = MOST_PAIRS) -> Limits:
    """Return both limits of the models with a server-to-server delay (M2, M3).

    With measured delays the straight line says nothing: there is no speed limit then, and the
    one-server limit becomes the best route through any two servers.
    """
    effort = limit_effort(scenario, most_pairs)
    return limits_from(scenario, effort, limit_totals(scenario, effort))


def limit_effort(scenario: Scenario, most_pairs: int) -> LimitEffort:
    """Return what can be done with so many pairs: small topics come first."""
    pairs, members = pairs_by_topic(scenario), len(scenario.members)
    ordered = np.sort(pairs)
    fitting = int(np.searchsorted(np.cumsum(ordered), most_pairs, side="right"))
    most = int(ordered[fitting]) - 1 if fitting < len(ordered) else int(pairs.max(initial=0))
    candidates = _CANDIDATE_SERVERS if members <= _MANY_MEMBERS else _FEW_CANDIDATES
    return LimitEffort(candidates, most, int(np.count_nonzero(pairs > most)))


def limits_from(scenario: Scenario, effort: LimitEffort, totals: LimitTotals) -> Limits:
    """Return the limits that the sums over all member rows make."""
    is_straight = scenario.client_server_ms is None and scenario.server_server_ms is None
    count = max(totals.deliveries, 1.0)
    knows_speed = is_straight and not effort.topics_by_legs
    return Limits(totals.speed_ms / count if knows_speed else None, totals.route_ms / count)


def limit_totals(scenario: Scenario, effort: LimitEffort, rows: slice = slice(None)) -> LimitTotals:
    """Return the sums over the publishers among some member rows of whole topics."""
    from nearcast.delay.limit_kernels import add_direct_limits, add_measured_limits

    members, topics, network = scenario.members, len(scenario.topics), network_of(scenario)
    roles = members.topic, members.publishes, members.subscribes
    weight = delivery_weights(*roles, topics)[0]
    chosen = np.arange(len(members))[rows]
    chosen = chosen[weight[chosen] > 0]
    pairs = pairs_by_topic(scenario)
    by_legs = pairs[members.topic[chosen]] > effort.pairs_per_topic
    nearest_ms, nearest_server = network.nearest_servers(effort.candidates + 1)
    route_by_legs = _route_by_legs(scenario, weight, nearest_ms[:, 0], chosen[by_legs])
    hears = np.flatnonzero(members.subscribes)
    start = np.searchsorted(members.topic[hears], np.arange(topics + 1))
    sends = chosen[~by_legs]
    topic, place = members.topic[sends], np.searchsorted(hears, sends)
    senders = (
        members.client[sends],
        start[topic],
        start[topic + 1],
        np.where(members.subscribes[sends], place, -1),
        weight[sends],
        members.client[hears],
    )
    if network.has_geometry:
        speed, route = add_direct_limits(
            *senders,
            network.client_x_km,
            network.client_y_km,
            network.server_x_km,
            network.server_y_km,
            network.ms_per_km,
            network.cloud_ms,
            nearest_ms,
            nearest_server,
            nearest_ms.shape[1] == network.server_count,
        )
    else:
        legs_ms = np.ascontiguousarray(network.leg_matrix_ms())
        onward_ms = np.column_stack(
            [np.min(between + legs_ms, axis=1) for between in network.server_server_ms]
        )
        speed, nearest = 0.0, np.ascontiguousarray(nearest_ms[:, 0])
        route = add_measured_limits(*senders, legs_ms, onward_ms, nearest, network.cloud_ms)
    return LimitTotals(speed, route + route_by_legs, float(len(chosen)))


def _route_by_legs(
    scenario: Scenario, weight: FloatArray, nearest_ms: FloatArray, sends: OffsetArray
) -> float:
    """Return the weighted sum of both nearest legs over the pairs of some publishers."""
    members = scenario.members
    leg_ms = nearest_ms[members.client]
    heard_ms = sum_by(members.topic, np.where(members.subscribes, leg_ms, 0), len(scenario.topics))
    others_ms = heard_ms[members.topic[sends]] - np.where(members.subscribes, leg_ms, 0)[sends]
    return float(np.sum(leg_ms[sends] + weight[sends] * others_ms))


def nearest_leg_limit_ms(scenario: Scenario) -> float:
    """Return M1's limit: every client at its nearest server (servers are 0 ms apart there)."""
    members, topics = scenario.members, len(scenario.topics)
    weight, leg = delivery_weights(members.topic, members.publishes, members.subscribes, topics)
    publishers = sum_by(members.topic, weight > 0, topics)
    share = leg / np.maximum(publishers, 1)[members.topic]
    nearest_ms = network_of(scenario).nearest_servers(1)[0][:, 0]
    return float(share @ nearest_ms[members.client]) / max(int(np.count_nonzero(publishers)), 1)
