"""A log of publications as a scenario: who published to what, how often and from where.

This is the version for logs that fit in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.domain.generators.server_sites import grid_places_km
from nearcast.domain.imports.positions import Plane, place_on_plane, read_ids
from nearcast.domain.imports.sites import SITE_IDS, site_servers
from nearcast.domain.imports.sources import SourceTable, codes_of, plain_ids, read_source
from nearcast.domain.scenario import (
    Clients,
    FloatArray,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.errors import ConfigError

__all__ = [
    "CLIENT",
    "SIZE",
    "TIME",
    "TOPIC",
    "LogMembers",
    "PublicationsParams",
    "import_publications",
    "log_scenario",
    "medians",
]

TOPIC = ("topic", "topic_id")
CLIENT = ("client", "client_id")
TIME = ("time", "timestamp")
SIZE = ("size",)


@dataclass(frozen=True, slots=True)
class PublicationsParams:
    """What the log does not say."""

    subscribe: bool = True
    """Who publishes to a topic also subscribes to it; false: nobody subscribes yet."""
    spool_per_publisher: float = 2.0
    """Messages of each publisher that a spool holds; counted in sizes where the log has them."""
    servers_per_side: int = 4
    """Servers on a grid over the positions, where there is no file of sites."""
    storage: float | None = None
    """Per server; None: two copies of every spool fill 70 % of all storage, or less."""
    compute: float | None = None
    """Per server; None: the load fills 55 % of all compute."""
    site_id: str | None = None
    """Column of the sites' ids; None: SITE_ID, server_id or id, or the row number."""

    def __post_init__(self) -> None:
        if self.servers_per_side < 1:
            raise ConfigError(f"servers per side must be 1 or more, not {self.servers_per_side}")
        limits = [limit for limit in (self.storage, self.compute) if limit is not None]
        if not all(amount > 0 for amount in (self.spool_per_publisher, *limits)):
            raise ConfigError("spool per publisher, storage and compute must be positive")


def import_publications(
    path: Path, sites_path: Path | None, parameters: PublicationsParams, seed: int
) -> Scenario:
    """Return the scenario of a log in CSV, JSON lines or Parquet.

    Columns: topic, client, time (seconds, or date and time of ISO 8601), x_km and y_km or
    latitude and longitude, and optionally size. A client's position is the median of its
    rows, a member's rate its count over the time span of the whole log (1 s at least).
    Nothing is drawn; `seed` is only noted.

    Raises
    ------
    ScenarioError
        When a file cannot be used; it names file, row and column.
    """
    log = read_source(path)
    sites = None if sites_path is None else read_source(sites_path)
    topic_code, topic_names = codes_of(log.texts(log.need(TOPIC)))
    client_code, client_names = codes_of(log.texts(log.need(CLIENT)))
    span_s = max(float(np.ptp(_seconds(log, log.need(TIME)))), 1.0)
    size_column = log.find(SIZE)
    size = np.ones(len(log)) if size_column is None else log.numbers(size_column, 0.0, 1e300)
    plane = place_on_plane([log] if sites is None else [log, sites])
    client_km = np.column_stack([medians(client_code, axis) for axis in plane.places_km[0].T])
    plane = Plane(plane.projection, [client_km, *plane.places_km[1:]]).with_corner_at_zero()
    client_km = plane.places_km[0]
    pair, count = np.unique(topic_code * len(client_names) + client_code, return_counts=True)
    found = LogMembers(
        client_names,
        topic_names,
        mean_size=np.bincount(topic_code, size) / np.bincount(topic_code),
        members=Members(
            topic=(pair // len(client_names)).astype(np.int32),
            client=(pair % len(client_names)).astype(np.int32),
            publishes=np.ones(len(pair), dtype=np.bool_),
            subscribes=np.full(len(pair), parameters.subscribe),
            rate_hz=count / span_s,
        ),
    )
    settings = plane.settings(path.name.split(".")[0], seed, "publications", {"rows": len(log)})
    return log_scenario(settings, plane, found, sites, parameters)


@dataclass(frozen=True, slots=True, eq=False)
class LogMembers:
    """Who takes part in what, as a log says; every topic has a publisher."""

    client_names: pa.Array
    topic_names: pa.Array
    mean_size: FloatArray
    """Of the messages of each topic."""
    members: Members


def log_scenario(
    settings: ScenarioSettings,
    plane: Plane,
    found: LogMembers,
    sites: SourceTable | None,
    parameters: PublicationsParams,
) -> Scenario:
    """Return the scenario of a log's members.

    The plane has the places of the clients and, where there is a file of sites, of those.
    """
    topics, members, client_km = len(found.topic_names), found.members, plane.places_km[0]
    publishers = np.bincount(members.topic[members.publishes], minlength=topics).astype(np.float64)
    spool = parameters.spool_per_publisher * publishers * found.mean_size
    return Scenario(
        settings=settings,
        servers=_servers(sites, plane, spool, publishers, parameters),
        clients=Clients(
            ids=plain_ids(found.client_names),
            x_km=client_km[:, 0].copy(),
            y_km=client_km[:, 1].copy(),
        ),
        topics=Topics(
            ids=plain_ids(found.topic_names),
            spool=spool,
            permissible_ms=np.full(topics, np.inf),
            process_ms=np.zeros(topics),
        ),
        members=members,
    )


def _servers(
    sites: SourceTable | None,
    plane: Plane,
    spool: FloatArray,
    publishers: FloatArray,
    parameters: PublicationsParams,
) -> Servers:
    if sites is not None:
        ids, place_km = read_ids(sites, SITE_IDS, parameters.site_id), plane.places_km[1]
    else:
        width_km, height_km = plane.places_km[0].max(axis=0).tolist()
        place_km = grid_places_km(parameters.servers_per_side, width_km, height_km)
        ids = pa.array(np.arange(len(place_km)))
    return site_servers(ids, place_km, spool, publishers, parameters.storage, parameters.compute)


def _seconds(log: SourceTable, column: str) -> FloatArray:
    """Return times in seconds; an origin does not matter, only the span is used."""
    cells = log.table.column(column).combine_chunks()
    if pa.types.is_timestamp(cells.type):
        if cells.null_count:
            log.fail("is empty", pc.index(cells.is_null(), True).as_py(), column)
        return _of_timestamps(cells)
    if pa.types.is_binary(cells.type) or pa.types.is_string(cells.type):
        texts = log.texts(column)
        for zone in (None, "UTC"):
            try:
                return _of_timestamps(texts.cast(pa.timestamp("us", tz=zone)))
            except pa.ArrowInvalid:
                continue
    return log.numbers(column)


def _of_timestamps(stamps: pa.Array) -> FloatArray:
    micros = stamps.cast(pa.timestamp("us", tz=stamps.type.tz), safe=False).cast(pa.int64())
    return np.asarray(micros.to_numpy() / 1e6)


def medians(group: npt.NDArray[np.int64], values: FloatArray) -> FloatArray:
    """Return the median of each group; groups are numbered from 0 and none is empty."""
    ordered = values[np.lexsort([values, group])]
    sizes = np.bincount(group)
    start = np.cumsum(sizes) - sizes
    return np.asarray((ordered[start + (sizes - 1) // 2] + ordered[start + sizes // 2]) / 2)
