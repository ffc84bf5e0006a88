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

import numpy as np
import pyarrow as pa

from nearcast.delay.delay_histogram import bin_edges_ms
from nearcast.delay.topic_delays import TopicDelays
from nearcast.domain.scenario import FloatArray, OffsetArray, Scenario
from nearcast.planning.assessment import Assessment

__all__ = [
    "histogram_table",
    "percentile_table",
    "server_table",
    "topic_table",
]


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def _id_type(ids: pa.Array) -> pa.DataType:
    """Return how a table keeps the scenario's ids."""
    return pa.int64() if pa.types.is_integer(ids.type) else ids.type


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
        },
        _schema(
            topic_index=pa.int32(),
            topic_id=_id_type(scenario.topics.ids),
            members=pa.int64(),
            deliveries=pa.int64(),
            pairs=pa.int64(),
            mean_ms=pa.float64(),
            legs_ms=pa.float64(),
            more_ms=pa.float64(),
            between_ms=pa.float64(),
            max_ms=pa.float64(),
        ),
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
        },
        _schema(
            server_index=pa.int32(),
            server_id=_id_type(scenario.servers.ids),
            storage_used=pa.float64(),
            compute_used=pa.float64(),
            local_share=pa.float64(),
            deliveries=pa.int64(),
            clients=pa.int64(),
        ),
    )


def percentile_table(percentiles: Mapping[float, float]) -> pa.Table:
    """Return delays by share."""
    return pa.table(
        {"share": list(percentiles), "delay_ms": list(percentiles.values())},
        _schema(share=pa.float64(), delay_ms=pa.float64()),
    )


def histogram_table(bins: OffsetArray, weight: FloatArray) -> pa.Table:
    """Return the distribution of delays; bins without weight are left out."""
    low, high = bin_edges_ms(bins)
    share = weight / max(weight.sum(), np.finfo(np.float64).tiny)
    return pa.table(
        {"low_ms": low, "high_ms": high, "share": share},
        _schema(low_ms=pa.float64(), high_ms=pa.float64(), share=pa.float64()),
    )
