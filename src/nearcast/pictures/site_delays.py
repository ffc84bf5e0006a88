"""What a running site's clients measured, and what the model had predicted, in the same units.

Every publisher of a topic weighs the same, and every subscriber of a publisher, as in the means
of the ratio model: else large topics would count more in what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.delay.pair_parts import delivery_share, pair_parts, receivers_of
from nearcast.delay.placement import PlacementCost
from nearcast.delay.topic_delays import topic_delays
from nearcast.domain.plan import Model, Plan
from nearcast.domain.scenario import FloatArray, Scenario
from nearcast.errors import ScenarioError
from nearcast.pictures.server_load import PlanCost

__all__ = ["STAGES", "SiteDelays", "measure_site", "predict_site", "ratio_of"]

STAGES = {
    "publish leg": "publish_leg_ms",
    "notify leg": "notify_leg_ms",
    "between servers": "between_ms",
    "processing": "processing_ms",
}
"""Column of the measurements by stage; together they are the whole way."""

_TOTAL = "total_ms"


@dataclass(frozen=True, slots=True, eq=False)
class SiteDelays:
    """Mean delays under the plan of one method."""

    stage_ms: Mapping[str, float]
    topic_ms: Mapping[str, float]
    """Mean of a whole delivery, by the id of the topic."""
    each_ms: FloatArray
    """Of every notification, sorted; empty of a prediction."""

    @property
    def total_ms(self) -> float:
        """Mean of a whole delivery: Y of the papers."""
        return sum(self.stage_ms.values())

    @property
    def legs_ms(self) -> float:
        """Mean of the two ways between clients and servers: Y1."""
        return self.stage_ms["publish leg"] + self.stage_ms["notify leg"]


def predict_site(
    scenario: Scenario, plan: Plan, model: Model, cost: PlanCost, factor: float = 1.0
) -> SiteDelays:
    """Return what the model says of a plan whose delays are emulated `factor` times as long.

    The cloud's delay is part of the way between servers; the model has no time for processing.
    """
    known = None if isinstance(cost, PlacementCost) else cost
    parts = pair_parts(scenario, plan, known)
    delays = topic_delays(scenario, model, parts)
    share = delivery_share(scenario, model, receivers_of(scenario.members))
    all_shares = max(float(share.sum()), np.finfo(np.float64).tiny)

    def mean(of_topics: FloatArray) -> float:
        return float(of_topics @ delays.weight) / all_shares

    publish_ms = float(parts.send_leg_ms @ share) / all_shares
    stages = {
        "publish leg": publish_ms,
        "notify leg": mean(delays.legs_ms) - publish_ms,
        "between servers": mean(delays.more_ms + delays.between_ms),
        "processing": 0.0,
    }
    names = map(str, scenario.topics.ids.to_pylist())
    return SiteDelays(
        {stage: factor * value for stage, value in stages.items()},
        {
            name: factor * float(value)
            for name, value, pairs in zip(names, delays.mean_ms, delays.pairs, strict=True)
            if pairs
        },
        np.empty(0),
    )


def measure_site(notifications: pa.Table) -> dict[str, SiteDelays]:
    """Return the mean delays by method, in the order in which the methods come.

    Parameters
    ----------
    notifications
        A row each, with method, topic, publisher, client, the columns of `STAGES` and total_ms;
        a row without all of its times does not count.

    Raises
    ------
    ScenarioError
        When a column is missing.
    """
    times = [*STAGES.values(), _TOTAL]
    for name in ("method", "topic", "publisher", "client", *times):
        if name not in notifications.column_names:
            raise ScenarioError("the measured notifications have no such column", column=name)
    whole = notifications.drop_null()
    found: dict[str, SiteDelays] = {}
    for method in whole["method"].unique().to_pylist():
        own = whole.filter(pc.equal(whole["method"], method))
        pairs = _means(own, ["topic", "publisher", "client"], times)
        publishers = _means(pairs, ["topic", "publisher"], times)
        topics = _means(publishers, ["topic"], times)
        found[str(method)] = SiteDelays(
            {stage: pc.mean(publishers[column]).as_py() for stage, column in STAGES.items()},
            dict(
                zip(map(str, topics["topic"].to_pylist()), topics[_TOTAL].to_pylist(), strict=True)
            ),
            np.sort(own[_TOTAL].to_numpy()),
        )
    return found


def ratio_of(measured_ms: float, predicted_ms: float) -> float | None:
    """Return measured / predicted, or None where nothing is predicted."""
    return measured_ms / predicted_ms if predicted_ms > 0 else None


def _means(table: pa.Table, keys: list[str], columns: list[str]) -> pa.Table:
    means = table.group_by(keys).aggregate([(column, "mean") for column in columns])
    return means.select(keys + [f"{column}_mean" for column in columns]).rename_columns(
        keys + columns
    )
