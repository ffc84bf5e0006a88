"""Stage 2, Members: who takes part in which topic, how often, and where everyone is.

=========  ==========================================================================
table      columns
=========  ==========================================================================
clients    client_index, client_id, x_km, y_km, reports (rows with a position)
topics     topic_index, topic_id, publishers, subscribers, messages, mean_size
members    topic_index, client_index, publishes, subscribes, messages, rate_hz
=========  ==========================================================================

Indices count from 0 in the order in which the log names clients and topics. `plane.json`
says how the plane of x_km and y_km lies.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from nearcast.domain.imports.positions import Plane, check_reach, read_degrees, read_km
from nearcast.domain.imports.publications import PublicationsParams
from nearcast.domain.imports.sources import SourceTable, read_source
from nearcast.domain.json_files import write_json
from nearcast.domain.scenario import FloatArray, OffsetArray
from nearcast.errors import ConfigError, ScenarioError
from nearcast.geo.projection import LocalProjection
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stages.coded_rows import client_places, code_rows, count_members
from nearcast.pipeline.stages.names import name_arrays
from nearcast.pipeline.stages.plane import (
    find_projection,
    find_projection_of_few,
    without_far_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["PLANE_FILE", "ROWS_OF_ONE_TASK", "MembersSettings", "find_members"]

PLANE_FILE = "plane.json"
_CODED = "coded"
ROWS_OF_ONE_TASK = 50_000
"""Up to so many rows, a task of its own for each step is quicker than several and a shuffle."""


@dataclass(frozen=True, slots=True)
class MembersSettings:
    """Which part of the log counts, and what it does not say."""

    since: float | str | None = None
    """First moment that counts, in seconds or as an ISO date; None: from the start."""
    until: float | str | None = None
    """Last moment that counts."""
    sites: Path | None = None
    """File of server sites; None: servers on a grid over the clients."""
    parameters: PublicationsParams = field(default_factory=PublicationsParams)

    def __post_init__(self) -> None:
        since, until = self.window_s
        if since is not None and until is not None and since > until:
            raise ConfigError(f"since {self.since} is after until {self.until}")

    @property
    def window_s(self) -> tuple[float | None, float | None]:
        """First and last moment in seconds."""
        return _seconds(self.since), _seconds(self.until)


def find_members(workspace: Workspace, settings: MembersSettings, record: StageRecord) -> None:
    """Read `publications` and write the tables above.

    A client's position is the median of what it sent, per axis; a member's rate its messages
    over the time span of all rows that count, 1 s at least. Where the log tells who subscribed,
    the last word of a client on a topic holds; else publishers subscribe, if the settings say
    so. A topic without a publisher, and who neither publishes nor subscribes, is left out.

    Raises
    ------
    ScenarioError
        When no row is in the window, nobody publishes, or the file of sites cannot be used.
    PipelineError
        When Spark fails.
    """
    sites = None if settings.sites is None else read_source(settings.sites)
    with clear_errors("finding members"):
        record.rows_in = workspace.count("publications")
        is_small = record.rows_in <= ROWS_OF_ONE_TASK
        if is_small:
            rows = workspace.hand_over(workspace.read("publications"))
        else:
            rows = workspace.load("publications")
        rows, span_s, has_subscriptions = _in_window(rows, settings, record)
        rows, projection, site_places = _on_a_plane(rows, sites, record)
        clients = _clients(rows)
        topics = _topics(rows, record)
        names = {
            **name_arrays("client", clients.column("client").chunk(0)),
            **name_arrays("topic", topics.column("topic").chunk(0)),
        }
        with share_arrays(workspace.spark, names) as shared:
            coded = code_rows(rows, shared, projection, has_subscriptions)
            if is_small:
                coded = workspace.hand_over(coded.toArrow())
            else:
                workspace.save(_CODED, coded)
                coded = workspace.load(_CODED)
        members = count_members(coded, span_s, has_subscriptions, settings.parameters.subscribe)
        record.rows_out = record.tables["members"] = workspace.save("members", members)
        client_km = client_places(workspace, coded, record.rows_in, len(clients))
        plane = Plane(projection, [client_km, *site_places]).with_corner_at_zero()
        _save_clients(workspace, clients, plane.places_km[0], record)
        _save_topics(workspace, topics, record)
        shutil.rmtree(workspace.path(_CODED), ignore_errors=True)
    record.notes["span_s"] = span_s
    _write_plane(
        workspace.folder / PLANE_FILE, plane, int(clients.column("reports").to_numpy().sum())
    )


def _in_window(
    rows: DataFrame, settings: MembersSettings, record: StageRecord
) -> tuple[DataFrame, float, bool]:
    """Return the rows that count, their time span, and whether they tell who subscribed."""
    since, until = settings.window_s
    inside = rows
    if since is not None:
        inside = inside.where(sf.col("time_s") >= since)
    if until is not None:
        inside = inside.where(sf.col("time_s") <= until)
    first, last, count, subscriptions = inside.agg(  # type: ignore[misc]
        sf.min("time_s"),
        sf.max("time_s"),
        sf.count(sf.lit(1)),
        sf.count_if(sf.col("action").isin("subscribe", "unsubscribe")),
    ).first()
    if not count:
        first, last = rows.agg(sf.min("time_s"), sf.max("time_s")).first()  # type: ignore[misc]
        raise ScenarioError(f"no row of the log is in the window; it goes from {first} to {last} s")
    record.notes["rows_outside_window"] = record.rows_in - count
    return inside, max(last - first, 1.0), subscriptions > 0


def _on_a_plane(
    rows: DataFrame, sites: SourceTable | None, record: StageRecord
) -> tuple[DataFrame, LocalProjection | None, list[FloatArray]]:
    """Return the rows that a plane holds, its projection, and the places of the sites on it."""
    if "x_km" in rows.columns:
        return rows, None, [] if sites is None else [read_km(sites)]
    degrees = None if sites is None else read_degrees(sites)
    find = find_projection_of_few if record.rows_in <= ROWS_OF_ONE_TASK else find_projection
    found = find(rows, degrees)
    projection = found.projection
    record.notes["rows_too_far"] = 0
    if sites is not None and degrees is not None:
        check_reach(sites, degrees, projection)
    if not found.holds_all:
        near = without_far_rows(rows, projection)
        record.notes["rows_too_far"] = rows.count() - near.count()
        rows = near
    places = [] if degrees is None else [np.column_stack(projection.to_plane(*degrees.T))]
    return rows, projection, places


def _clients(rows: DataFrame) -> pa.Table:
    """Return the clients in the order of the log."""
    found = rows.groupBy("client").agg(
        sf.min("row").alias("row"), sf.count(sf.lit(1)).alias("reports")
    )
    return found.toArrow().sort_by("row").combine_chunks()


def _topics(rows: DataFrame, record: StageRecord) -> pa.Table:
    """Return the topics that somebody publishes to in the order of the log."""
    is_message = sf.col("action") == "publish"
    found = (
        rows.where("topic is not null")
        .groupBy("topic")
        .agg(
            sf.min("row").alias("row"),
            sf.count_if(is_message).alias("messages"),
            sf.coalesce(sf.avg(sf.when(is_message, sf.col("size"))), sf.lit(1.0)).alias(
                "mean_size"
            ),
        )
    )
    named = found.toArrow()
    topics = (
        named.filter(pa.compute.greater(named.column("messages"), 0))
        .sort_by("row")
        .combine_chunks()
    )
    record.notes["topics_without_publisher"] = len(named) - len(topics)
    if not len(topics):
        raise ScenarioError("nobody publishes in the log; a topic needs a publisher")
    return topics


def _save_clients(
    workspace: Workspace, clients: pa.Table, place_km: FloatArray, record: StageRecord
) -> None:
    table = pa.table(
        {
            "client_index": pa.array(np.arange(len(clients), dtype=np.int32)),
            "client_id": clients.column("client"),
            "x_km": place_km[:, 0],
            "y_km": place_km[:, 1],
            "reports": clients.column("reports"),
        }
    )
    record.tables["clients"] = workspace.save_rows("clients", table)


def _save_topics(workspace: Workspace, topics: pa.Table, record: StageRecord) -> None:
    members = workspace.read("members", ["topic_index", "publishes", "subscribes"])
    topic = members.column("topic_index").to_numpy()

    def count(part: str) -> OffsetArray:
        return np.bincount(topic[members.column(part).to_numpy()], minlength=len(topics))

    table = pa.table(
        {
            "topic_index": np.arange(len(topics), dtype=np.int32),
            "topic_id": topics.column("topic"),
            "publishers": count("publishes"),
            "subscribers": count("subscribes"),
            "messages": topics.column("messages"),
            "mean_size": topics.column("mean_size"),
        }
    )
    record.tables["topics"] = workspace.save_rows("topics", table)


def _write_plane(path: Path, plane: Plane, rows: int) -> None:
    sites_km = plane.places_km[1].tolist() if len(plane.places_km) > 1 else None
    write_json(path, {"rows": rows, "projection": plane.projection, "sites_km": sites_km})


def _seconds(moment: float | str | None) -> float | None:
    """Return a moment in seconds; a date without a zone is in UTC."""
    if moment is None:
        return None
    try:
        return float(moment)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(str(moment))
    except ValueError:
        raise ConfigError(f"{moment!r} is neither seconds nor an ISO date") from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
