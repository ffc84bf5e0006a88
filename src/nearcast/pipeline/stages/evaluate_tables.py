"""The tables of stage 6.

========================  ==========================================================
table                     columns
========================  ==========================================================
topic_delays              topic_index, topic_id, members, deliveries, pairs, mean_ms
                          = legs_ms (both clients) + more_ms (overload, processing,
                          cloud) + between_ms (server to server), max_ms; means as the
                          model weighs deliveries; 0 where nobody hears anybody
server_use                server_index, server_id, storage_used, compute_used,
                          local_share (0..1), deliveries (publishers that somebody
                          hears, by the server they send to), clients
delay_percentiles         share (0..1), delay_ms; share 1 is the largest delay
delay_histogram           low_ms, high_ms, share of all pairs as the model weighs them
========================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast.delay.delay_histogram import bin_edges_ms
from nearcast.delay.topic_delays import TopicDelays
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario
from nearcast.planning.assessment import Assessment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "SCHEMAS",
    "frames_of",
    "histogram_table",
    "percentile_table",
    "server_table",
    "topic_table",
]

SCHEMAS = {
    "topic_delays": "topic_index int, topic_id {topic_id}, members bigint, deliveries bigint, "
    "pairs bigint, mean_ms double, legs_ms double, more_ms double, between_ms double, "
    "max_ms double",
    "server_use": "server_index int, server_id {server_id}, storage_used double, "
    "compute_used double, local_share double, deliveries bigint, clients bigint",
    "delay_percentiles": "share double, delay_ms double",
    "delay_histogram": "low_ms double, high_ms double, share double",
}
"""Columns and types; ids have the type that the scenario's have."""


def frames_of(
    spark: SparkSession, tables: Mapping[str, pa.Table], scenario: Scenario
) -> dict[str, DataFrame]:
    """Return tables as Spark has them."""
    ids = {
        f"{kind}_id": "bigint" if pa.types.is_integer(array.type) else "string"
        for kind, array in (("topic", scenario.topics.ids), ("server", scenario.servers.ids))
    }
    return {
        name: spark.createDataFrame(table, SCHEMAS[name].format(**ids))
        for name, table in tables.items()
    }


def topic_table(scenario: Scenario, delays: TopicDelays, largest_ms: FloatArray) -> pa.Table:
    """Return the delays by topic."""
    topics = len(scenario.topics)
    return pa.table(
        {
            "topic_index": np.arange(topics, dtype=np.int32),
            "topic_id": scenario.topics.ids,
            "members": np.diff(scenario.members.topic_start(topics)),
            "deliveries": delays.deliveries,
            "pairs": delays.pairs,
            "mean_ms": delays.mean_ms,
            "legs_ms": delays.legs_ms,
            "more_ms": delays.more_ms,
            "between_ms": delays.between_ms,
            "max_ms": largest_ms,
        }
    )


def server_table(scenario: Scenario, value: Assessment, deliveries: FloatArray) -> pa.Table:
    """Return the use of each server."""
    return pa.table(
        {
            "server_index": np.arange(len(scenario.servers), dtype=np.int32),
            "server_id": scenario.servers.ids,
            "storage_used": value.storage_used,
            "compute_used": value.compute_used,
            "local_share": value.local_share,
            "deliveries": deliveries.astype(np.int64),
            "clients": value.clients.astype(np.int64),
        }
    )


def percentile_table(percentiles: Mapping[float, float]) -> pa.Table:
    """Return delays by share."""
    return pa.table({"share": list(percentiles), "delay_ms": list(percentiles.values())})


def histogram_table(bins: OffsetArray, weight: FloatArray) -> pa.Table:
    """Return the distribution of delays; bins without weight are left out."""
    low, high = bin_edges_ms(bins)
    share = weight / max(weight.sum(), np.finfo(np.float64).tiny)
    return pa.table({"low_ms": low, "high_ms": high, "share": share})
