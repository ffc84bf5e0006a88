"""The mean delay of each topic under a plan, in parts; grows with members, not with pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.pair_parts import PairParts, delivery_share, receivers_of
from nearcast.delay.pairs import pair_blocks
from nearcast.delay.slots import count_by_slot, sum_by
from nearcast.domain.plan import Model
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario

__all__ = ["TopicDelays", "topic_delays"]

_SLOT_PAIRS_PER_BLOCK = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class TopicDelays:
    """Means over a topic's deliveries as the model weighs them [topic]; 0 where there are none."""

    deliveries: OffsetArray
    """Publishers that somebody else hears."""
    pairs: OffsetArray
    weight: FloatArray
    """What the topic weighs in the model's mean over all topics, relative to the others."""
    legs_ms: FloatArray
    """The two client legs."""
    more_ms: FloatArray
    """What overload, processing and the cloud add."""
    between_ms: FloatArray
    """The way between the servers."""

    @property
    def mean_ms(self) -> FloatArray:
        """Mean delay of a delivery."""
        return self.legs_ms + self.more_ms + self.between_ms


def topic_delays(scenario: Scenario, model: Model, parts: PairParts) -> TopicDelays:
    """Return the delays of each topic of a scenario, or of a part of one."""
    members, topics = scenario.members, len(scenario.topics)
    receivers = receivers_of(scenario.members)
    share = delivery_share(scenario, model, receivers)
    by_pair = share / np.maximum(receivers, 1)
    # What a subscriber hears: the weights of all pairs that end at it.
    heard = sum_by(members.topic, by_pair, topics)[members.topic] - by_pair
    heard[~members.subscribes] = 0.0

    def of_topics(sent: FloatArray, received: FloatArray) -> FloatArray:
        return sum_by(members.topic, share * sent + heard * received, topics)

    weight = sum_by(members.topic, share, topics)
    each = np.maximum(weight, np.finfo(np.float64).tiny)
    return TopicDelays(
        deliveries=sum_by(members.topic, receivers > 0, topics).astype(np.int64),
        pairs=sum_by(members.topic, receivers, topics).astype(np.int64),
        weight=weight,
        legs_ms=of_topics(parts.send_leg_ms, parts.receive_leg_ms) / each,
        more_ms=of_topics(parts.send_more_ms, parts.receive_more_ms) / each,
        between_ms=_between(scenario, parts, by_pair) / each,
    )


def _between(scenario: Scenario, parts: PairParts, by_pair: FloatArray) -> FloatArray:
    """Return the weighted sum of the ways between servers of each topic, over pairs of slots."""
    members, topics, servers = scenario.members, len(scenario.topics), len(scenario.servers)
    amount = by_pair * parts.between_share
    sends, hears = np.flatnonzero(amount), np.flatnonzero(members.subscribes)
    sources = count_by_slot(
        members.topic[sends], parts.source[sends], servers, amount=amount[sends]
    )
    targets = count_by_slot(
        members.topic[hears], parts.target[hears], servers, subscribers=np.ones(len(hears))
    )
    first = np.searchsorted(targets.topic, sources.topic, side="left")
    size = np.searchsorted(targets.topic, sources.topic, side="right") - first
    total = np.zeros(topics)
    for left, right in pair_blocks(first, size, _SLOT_PAIRS_PER_BLOCK):
        way = parts.between_ms[sources.server[left], targets.server[right]]
        way *= sources.values["amount"][left] * targets.values["subscribers"][right]
        total += sum_by(sources.topic[left], way, topics)
    # The slots also pair a member with itself: it does not hear its own messages.
    own = sends[members.subscribes[sends]]
    way = amount[own] * parts.between_ms[parts.source[own], parts.target[own]]
    return total - sum_by(members.topic[own], way, topics)
