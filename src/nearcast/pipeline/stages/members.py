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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from nearcast.domain.imports.positions import Plane, check_reach, read_degrees, read_km
from nearcast.domain.imports.publications import PublicationsParams
from nearcast.domain.imports.sources import SourceTable, read_source
from nearcast.domain.json_files import write_json
from nearcast.domain.scenario import FloatArray, OffsetArray
from nearcast.errors import ConfigError, ScenarioError
from nearcast.geo.projection import LocalProjection
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.pipeline.stages.coded_rows import client_places, code_rows, count_members
from nearcast.pipeline.stages.ingest import REPEAT
from nearcast.pipeline.stages.members_table import MEMBERS_TABLE, count_parts, save_members
from nearcast.pipeline.stages.names import number_names
from nearcast.pipeline.stages.plane import (
    find_projection,
    find_projection_of_few,
    split_by_reach,
)
from nearcast.pipeline.stages.plausible import (
    StrayLimits,
    moment_s,
    range_columns,
    stray_reason,
    strays_of,
)
from nearcast.pipeline.stages.quarantine import put_aside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.workspace import Workspace

__all__ = ["PLANE_FILE", "ROWS_OF_ONE_TASK", "MembersSettings", "find_members"]

PLANE_FILE = "plane.json"
_CODED, _CLIENT_NAMES, _TOPIC_NAMES = "coded", "client_names", "topic_names"
_CLIENTS_SCHEMA = pa.schema(
    [
        ("client_index", pa.int32()),
        ("client_id", pa.string()),
        ("x_km", pa.float64()),
        ("y_km", pa.float64()),
        ("reports", pa.int64()),
    ]
)
_TOPICS_SCHEMA = pa.schema(
    [
        ("topic_index", pa.int32()),
        ("topic_id", pa.string()),
        ("publishers", pa.int64()),
        ("subscribers", pa.int64()),
        ("messages", pa.int64()),
        ("mean_size", pa.float64()),
    ]
)
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
    strays: StrayLimits = field(default_factory=StrayLimits)
    """When a row that counts is put aside after all."""
    parameters: PublicationsParams = field(default_factory=PublicationsParams)

    def __post_init__(self) -> None:
        since, until = self.window_s
        if since is not None and until is not None and since > until:
            raise ConfigError(f"since {self.since} is after until {self.until}")

    @property
    def window_s(self) -> tuple[float | None, float | None]:
        """First and last moment in seconds."""
        return moment_s(self.since), moment_s(self.until)


def find_members(workspace: Workspace, settings: MembersSettings, record: StageRecord) -> None:
    """Read `publications` and write the tables above.

    A client's position is the median of what it sent, per axis; a member's rate its messages
    over the time span of all rows that count, 1 s at least. Where the log tells who subscribed,
    the last word of a client on a topic holds; else publishers subscribe, if the settings say
    so. Rows far from all others, or too far for a plane, are added to the quarantine. A topic without a publisher, and who neither publishes nor subscribes, is left out.

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
        rows, strays, span_s, has_subscriptions = _in_window(rows, settings, record)
        rows, too_far, projection, site_places = _on_a_plane(rows, sites, record)
        record.quarantined = put_aside(workspace, [*strays, *too_far], "members")
        record.tables["quarantine"] = workspace.count("quarantine")
        clients = _keep(workspace, _CLIENT_NAMES, _clients(rows), is_small)
        topics = _keep(workspace, _TOPIC_NAMES, _topics(rows), is_small)
        published = _check_published(workspace, record)
        coded = code_rows(
            rows,
            topics.where("messages > 0").select("topic", "topic_index"),
            clients.select("client", "client_index"),
            projection,
            has_subscriptions,
        )
        coded = _keep(workspace, _CODED, coded, is_small)
        members = count_members(coded, span_s, has_subscriptions, settings.parameters.subscribe)
        record.rows_out = record.tables[MEMBERS_TABLE] = save_members(workspace, members)
        reports = _numbers(workspace, _CLIENT_NAMES, "reports")
        places = client_places(workspace.spark, coded, reports)
        plane = Plane(projection, [places, *site_places]).with_corner_at_zero()
        _save_clients(workspace, plane.places_km[0], record)
        _save_topics(workspace, published, record)
        for table in (_CODED, _CLIENT_NAMES, _TOPIC_NAMES):
            shutil.rmtree(workspace.path(table), ignore_errors=True)
    record.notes["span_s"] = span_s
    _write_plane(workspace.folder / PLANE_FILE, plane, int(reports.sum()))


def _in_window(
    rows: DataFrame, settings: MembersSettings, record: StageRecord
) -> tuple[DataFrame, list[DataFrame], float, bool]:
    """Return the rows that count, strays, the time span, and whether the log tells who subscribed."""
    since, until = settings.window_s
    inside = rows
    if since is not None:
        inside = inside.where(sf.col("time_s") >= since)
    if until is not None:
        inside = inside.where(sf.col("time_s") <= until)
    facts = _facts(inside)
    if not facts.rows:
        first, last = rows.agg(sf.min("time_s"), sf.max("time_s")).first()  # type: ignore[misc]
        raise ScenarioError(f"no row of the log is in the window; it goes from {first} to {last} s")
    record.notes["rows_outside_window"] = record.rows_in - facts.rows
    if facts.repeats:
        record.notes["repeated_publications"] = facts.repeats
    strays: list[DataFrame] = []
    for column, is_far in strays_of(inside, facts, settings.strays).items():
        strays.append(inside.where(is_far).withColumn("reason", sf.lit(stray_reason(column))))
        inside = inside.where(~is_far)
    if strays:
        facts = _facts(inside)
    span_s = max(facts.time_s.largest - facts.time_s.smallest, 1.0)
    return inside, strays, span_s, facts.subscriptions > 0


def _facts(rows: DataFrame) -> Row:
    is_subscription = sf.col("action").isin("subscribe", "unsubscribe")
    found = rows.agg(
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(is_subscription).alias("subscriptions"),
        sf.count_if(sf.col("action") == REPEAT).alias("repeats"),
        *range_columns(rows.columns),
    ).first()
    assert found is not None  # an aggregate without groups has one row
    return found


def _on_a_plane(
    rows: DataFrame, sites: SourceTable | None, record: StageRecord
) -> tuple[DataFrame, list[DataFrame], LocalProjection | None, list[FloatArray]]:
    """Return the rows that a plane holds, the others, its projection, and the sites' places on it."""
    if "x_km" in rows.columns:
        return rows, [], None, [] if sites is None else [read_km(sites)]
    degrees = None if sites is None else read_degrees(sites)
    find = find_projection_of_few if record.rows_in <= ROWS_OF_ONE_TASK else find_projection
    found = find(rows, degrees)
    projection = found.projection
    too_far: list[DataFrame] = []
    if sites is not None and degrees is not None:
        check_reach(sites, degrees, projection)
    if not found.holds_all:
        rows, far = split_by_reach(rows, projection)
        too_far.append(far.withColumn("reason", sf.lit("position is too far from the others")))
    places = [] if degrees is None else [np.column_stack(projection.to_plane(*degrees.T))]
    return rows, too_far, projection, places


def _keep(workspace: Workspace, table: str, frame: DataFrame, is_small: bool) -> DataFrame:
    """Compute a frame once for all that read it; few rows without a task to read them again."""
    if is_small:
        rows = frame.toArrow()
        workspace.save_rows(table, rows)
        return workspace.hand_over(rows)
    workspace.save(table, frame)
    return workspace.load(table)


def _clients(rows: DataFrame) -> DataFrame:
    """Return the clients, numbered in the order of the log."""
    found = rows.groupBy("client").agg(
        sf.min("row").alias("row"), sf.count(sf.lit(1)).alias("reports")
    )
    return number_names(found, "client_index", "row")


def _topics(rows: DataFrame) -> DataFrame:
    """Return the topics in the order of the log, those that nobody publishes to at the end."""
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
    return number_names(found, "topic_index", sf.col("messages") == 0, "row")


def _numbers(workspace: Workspace, table: str, column: str) -> OffsetArray:
    """Return a column of names' counts, in their order."""
    batches = workspace.batches(table, [column])
    return np.concatenate(
        [np.empty(0, np.int64), *(batch.column(0).to_numpy() for batch in batches)]
    )


def _check_published(workspace: Workspace, record: StageRecord) -> int:
    """Return how many topics somebody publishes to."""
    messages = _numbers(workspace, _TOPIC_NAMES, "messages")
    published = int(np.count_nonzero(messages))
    record.notes["topics_without_publisher"] = len(messages) - published
    if not published:
        raise ScenarioError("nobody publishes in the log; a topic needs a publisher")
    return published


def _save_clients(workspace: Workspace, place_km: FloatArray, record: StageRecord) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for batch in workspace.batches(_CLIENT_NAMES, ["client_index", "client", "reports"]):
            index, name, reports = batch.columns
            x_km, y_km = map(pa.array, place_km[index.to_numpy()].T)
            columns = [index, name, x_km, y_km, reports]
            yield pa.RecordBatch.from_arrays(columns, schema=_CLIENTS_SCHEMA)

    record.tables["clients"] = workspace.save_batches("clients", _CLIENTS_SCHEMA, batches())


def _save_topics(workspace: Workspace, published: int, record: StageRecord) -> None:
    counts = count_parts(workspace, published)

    def batches() -> Iterator[pa.RecordBatch]:
        columns = ["topic_index", "topic", "messages", "mean_size"]
        for batch in workspace.batches(_TOPIC_NAMES, columns):
            index, name, *numbers = batch.filter(pc.greater(batch.column("messages"), 0)).columns
            parts = [pa.array(count[index.to_numpy()]) for count in counts]
            yield pa.RecordBatch.from_arrays([index, name, *parts, *numbers], schema=_TOPICS_SCHEMA)

    record.tables["topics"] = workspace.save_batches("topics", _TOPICS_SCHEMA, batches())


def _write_plane(path: Path, plane: Plane, rows: int) -> None:
    sites_km = plane.places_km[1].tolist() if len(plane.places_km) > 1 else None
    write_json(path, {"rows": rows, "projection": plane.projection, "sites_km": sites_km})
