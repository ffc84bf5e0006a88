"""The delay of a pair as parts of its two members: the one form that all three models share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.connections import ConnectionsCost
from nearcast.delay.network import network_of
from nearcast.delay.ratio import RatioCost
from nearcast.delay.slots import sum_by
from nearcast.domain.plan import Model, Plan
from nearcast.domain.scenario import FloatArray, IndexArray, Members, OffsetArray, Scenario

__all__ = ["PairParts", "delivery_share", "pair_parts", "pairs_by_topic", "receivers_of"]


@dataclass(frozen=True, slots=True, eq=False)
class PairParts:
    """What the rows of a publisher and a subscriber add to the delay of the pair.

    It is, in ms::

        send_leg + send_more + receive_leg + receive_more
        + between_share * between[source, target]
    """

    send_leg_ms: FloatArray
    """The publisher's leg [member row]; of no meaning where it does not publish."""
    send_more_ms: FloatArray
    """What its server, the processor or the cloud adds [member row]."""
    between_share: FloatArray
    """Part of the way between the servers that counts [member row]."""
    source: IndexArray
    """Server that the publisher sends to [member row]."""
    receive_leg_ms: FloatArray
    receive_more_ms: FloatArray
    target: IndexArray
    """Home of the subscriber [member row]."""
    between_ms: FloatArray
    """Delay [from, to] between servers."""

    def delays_ms(self, publisher_row: OffsetArray, subscriber_row: OffsetArray) -> FloatArray:
        """Return the delay of each pair."""
        source, target = self.source[publisher_row], self.target[subscriber_row]
        return (
            (self.send_leg_ms + self.send_more_ms)[publisher_row]
            + self.between_share[publisher_row] * self.between_ms[source, target]
            + (self.receive_leg_ms + self.receive_more_ms)[subscriber_row]
        )


def pair_parts(
    scenario: Scenario, plan: Plan, cost: RatioCost | ConnectionsCost | None
) -> PairParts:
    """Return the parts of every member row of a scenario, or of a part of one.

    Ratio (2021, eq. 6): the mean over local and delegated processing. Connections (2020,
    eq. 5): the costs of both clients. Placement (2022, eq. 11).

    Parameters
    ----------
    cost : the plan's value in the whole scenario, where what a server holds decides the delays;
        None: the placement model.
    """
    network, members = network_of(scenario), scenario.members
    home = plan.homes[members.client]
    nothing = np.zeros(len(members))
    source, send_more, share, receive_more = home, nothing, nothing, nothing
    if isinstance(cost, RatioCost):
        share = cost.local_share[home]
        send_more = 2 * network.cloud_ms * (1 - share)
    elif isinstance(cost, ConnectionsCost):
        send_more = receive_more = cost.server_ms[home]
    else:
        source = np.maximum(plan.publish, 0)
        on_edge, servers = plan.brokers.on_edge, len(scenario.servers)
        broker = plan.brokers.topic[on_edge].astype(np.int64) * servers
        broker += plan.brokers.server[on_edge]
        local = np.isin(members.topic.astype(np.int64) * servers + source, broker)
        share = local.astype(np.float64)
        send_more = scenario.topics.process_ms[members.topic] + 2 * network.cloud_ms * ~local
    receive_leg = network.legs_ms(members.client, home)
    return PairParts(
        send_leg_ms=receive_leg if source is home else network.legs_ms(members.client, source),
        send_more_ms=send_more,
        between_share=share,
        source=source,
        receive_leg_ms=receive_leg,
        receive_more_ms=receive_more,
        target=home,
        between_ms=network.server_server_ms,
    )


def receivers_of(members: Members) -> OffsetArray:
    """Return how many others subscribe to the topic of each publisher's row; 0 for the others.

    All rows of their topics must be there.
    """
    if not len(members):
        return np.zeros(0, dtype=np.int64)
    topic = members.topic - members.topic[0]
    subscribers = sum_by(topic, members.subscribes, int(topic[-1]) + 1)
    others = subscribers[topic].astype(np.int64) - members.subscribes
    return np.where(members.publishes, others, 0)


def pairs_by_topic(scenario: Scenario) -> OffsetArray:
    """Return how many pairs of a publisher and another subscriber each topic has [topic]."""
    pairs = np.zeros(len(scenario.topics), dtype=np.int64)
    for rows in scenario.members.pieces():
        members = scenario.members.rows(rows)
        first, last = int(members.topic[0]), int(members.topic[-1])
        found = sum_by(members.topic - first, receivers_of(members), last - first + 1)
        pairs[first : last + 1] = found.astype(np.int64)
    return pairs


def delivery_share(scenario: Scenario, model: Model, receivers: OffsetArray) -> FloatArray:
    """Return what each row's delivery weighs in the model's mean, relative to the others.

    Ratio: every delivery the same; connections: every topic; placement: every pair.
    """
    delivers = receivers > 0
    if model is Model.PLACEMENT:
        return receivers.astype(np.float64)
    if model is Model.RATIO:
        return delivers.astype(np.float64)
    topic = scenario.members.topic
    publishers = sum_by(topic, delivers, len(scenario.topics))
    return np.where(delivers, 1.0 / np.maximum(publishers, 1.0)[topic], 0.0)
