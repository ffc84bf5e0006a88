"""The distribution of delays over all pairs: a fine weighted histogram that adds up by blocks.

Bins are as wide as the upper bits of a delay tell: a bin's edges differ by less than 1 part in
16,384, so a percentile is right to 0.003 % (0.3 microseconds of 10 ms), whatever the delays are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.delay.pair_parts import PairParts, delivery_share, receivers_of
from nearcast.domain.plan import Model
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario

__all__ = [
    "RELATIVE_PRECISION",
    "DelayHistogram",
    "bin_edges_ms",
    "percentile_ms",
    "topic_pair_limit",
]

_BITS = 14
_SHIFT = 52 - _BITS
_LEAST_MS, _MOST_MS = 2.0**-20, 2.0**24
"""A nanosecond and five hours: what is beyond counts in the first or the last bin."""
RELATIVE_PRECISION = 2.0 ** -(_BITS + 1)
"""How far the middle of a bin can be from a delay in it, relative to the delay."""


def _bin_of(delay_ms: float) -> int:
    return int(np.array([delay_ms]).view(np.int64)[0]) >> _SHIFT


_FIRST_BIN = _bin_of(_LEAST_MS)
_BIN_COUNT = _bin_of(_MOST_MS) - _FIRST_BIN


@dataclass(frozen=True, slots=True, eq=False)
class DelayHistogram:
    """What the pairs of some topics weigh, by delay."""

    weight: FloatArray
    """[bin]; those of two blocks of topics add up."""
    largest_ms: FloatArray
    """Largest delay met [topic]."""
    looked_at: OffsetArray
    """Pairs looked at [topic]; fewer than there are where they were drawn."""

    @classmethod
    def of(
        cls, scenario: Scenario, model: Model, parts: PairParts, most_pairs: int, seeds: OffsetArray
    ) -> DelayHistogram:
        """Return the histogram of a scenario, or of a part of one.

        Parameters
        ----------
        most_pairs : a topic with more pairs has so many drawn, by its seed.
        seeds : a number for each topic.
        """
        from nearcast.delay.histogram_kernels import add_pairs

        members, topics = scenario.members, len(scenario.topics)
        receivers = receivers_of(scenario.members)
        sends, hears = np.flatnonzero(receivers), np.flatnonzero(members.subscribes)
        place = np.full(len(members), -1, dtype=np.int64)
        place[hears] = np.arange(len(hears))
        share = delivery_share(scenario, model, receivers)[sends]
        found = cls(np.zeros(_BIN_COUNT), np.zeros(topics), np.zeros(topics, dtype=np.int64))
        every = np.arange(topics + 1)
        add_pairs(
            np.searchsorted(members.topic[sends], every),
            place[sends],
            (parts.send_leg_ms + parts.send_more_ms)[sends],
            parts.between_share[sends],
            parts.source[sends],
            share / receivers[sends],
            receivers[sends],
            np.searchsorted(members.topic[hears], every),
            (parts.receive_leg_ms + parts.receive_more_ms)[hears],
            parts.target[hears],
            parts.between_ms,
            most_pairs,
            seeds.astype(np.uint64),
            _SHIFT,
            _FIRST_BIN,
            found.weight,
            found.largest_ms,
            found.looked_at,
        )
        return found


def topic_pair_limit(pairs: OffsetArray, most_in_all: int) -> int:
    """Return how many pairs of a topic to look at so that there are not too many in all."""
    low, high = 1, max(int(pairs.max(initial=1)), 1)
    while low < high:
        middle = (low + high + 1) // 2
        fits = int(np.minimum(pairs, middle).sum()) <= most_in_all
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def bin_edges_ms(bins: OffsetArray) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper edges of bins; the first begins at 0."""
    lower = ((bins + _FIRST_BIN) << _SHIFT).view(np.float64)
    upper = ((bins + _FIRST_BIN + 1) << _SHIFT).view(np.float64)
    return np.where(bins == 0, 0.0, lower), upper


def percentile_ms(weight: FloatArray, shares: FloatArray, bins: OffsetArray) -> FloatArray:
    """Return the delays that these shares of the weight do not exceed; NaN without any pair.

    Parameters
    ----------
    weight : of the bins that have any.
    shares : from 0 to 1.
    bins : the numbers of these bins, ascending.
    """
    if not len(bins):
        return np.full(len(shares), np.nan)
    upto = np.cumsum(weight)
    # Summing leaves rounding errors: a share that ends with a bin must not begin the next.
    place = np.searchsorted(upto, shares * upto[-1] * (1 - 1e-9))
    lower, upper = bin_edges_ms(bins[np.minimum(place, len(bins) - 1)])
    return (lower + upper) / 2
