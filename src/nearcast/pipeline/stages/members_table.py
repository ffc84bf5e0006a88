"""The table members: written in order by Spark, read piece by piece, mapped for planning.

Neither the driver nor a worker has all of it in its own memory: the arrays of planning are
mapped from files, whose pages are the system's to keep or to drop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.domain.scenario import Members, OffsetArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nearcast.pipeline.workspace import Workspace

__all__ = ["MEMBERS_TABLE", "count_parts", "map_members", "save_members"]

MEMBERS_TABLE = "members"
_TYPES: dict[str, tuple[str, Any]] = {
    "topic": ("topic_index", np.int32),
    "client": ("client_index", np.int32),
    "publishes": ("publishes", np.bool_),
    "subscribes": ("subscribes", np.bool_),
    "rate_hz": ("rate_hz", np.float64),
}


def save_members(workspace: Workspace, members: DataFrame) -> int:
    """Write members by topic and client and return how many there are."""
    return workspace.save(MEMBERS_TABLE, members.orderBy("topic_index", "client_index"))


def count_parts(workspace: Workspace, topics: int) -> tuple[OffsetArray, OffsetArray]:
    """Return how many publish and how many subscribe to each topic."""
    parts = ("publishes", "subscribes")
    counts = {part: np.zeros(topics, dtype=np.int64) for part in parts}
    for batch in workspace.batches(MEMBERS_TABLE, ["topic_index", *parts]):
        topic = batch.column("topic_index").to_numpy()
        for part, count in counts.items():
            takes_part = batch.column(part).to_numpy(zero_copy_only=False)
            # Rows are in order, so a batch has the topics of a short range.
            first = int(topic[0])
            found = np.bincount(topic[takes_part] - first)
            count[first : first + len(found)] += found
    return counts["publishes"], counts["subscribes"]


def map_members(workspace: Workspace) -> Members:
    """Return the members in arrays that are mapped, and can be written to as kernels want it."""
    rows = workspace.count(MEMBERS_TABLE)
    arrays = {name: workspace.mapped(rows, kind) for name, (_, kind) in _TYPES.items()}
    end = 0
    for batch in workspace.batches(MEMBERS_TABLE, [column for column, _ in _TYPES.values()]):
        begin, end = end, end + len(batch)
        for name, (column, _) in _TYPES.items():
            arrays[name][begin:end] = batch.column(column).to_numpy(zero_copy_only=False)
    return Members(**arrays)
