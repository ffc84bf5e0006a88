"""Where the plane of a log in degrees touches the earth, found without collecting the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf

from nearcast.domain.scenario import FloatArray
from nearcast.geo.projection import (
    LARGEST_REACH_KM,
    LocalProjection,
    around_direction,
    mean_direction,
    projection_around,
    projection_at,
)
from nearcast.pipeline.stages.medians import exact_medians

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Degrees", "find_projection", "find_projection_of_few", "split_by_reach"]

_AXES = ("latitude", "around")


@dataclass(frozen=True, slots=True)
class Degrees:
    """The projection of a log, and whether all its positions are near enough for it."""

    projection: LocalProjection
    holds_all: bool


def find_projection(rows: DataFrame, site_degrees: FloatArray | None) -> Degrees:
    """Return what `projection_around` gives for the positions of all rows and sites."""
    places = rows.select("latitude", "longitude")
    if site_degrees is not None:
        sites = places.sparkSession.createDataFrame(site_degrees.tolist(), places.schema)
        places = places.union(sites)
    angle = sf.radians("longitude")
    sine, cosine = places.agg(sf.avg(sf.sin(angle)), sf.avg(sf.cos(angle))).first()  # type: ignore[misc]
    middle = mean_direction(sine, cosine)

    def turn(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            around = around_direction(batch.column(1).to_numpy(), middle)
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(around)], list(_AXES))

    turned = places.mapInArrow(turn, "latitude double, around double")
    latitude, around = exact_medians(turned, _AXES)
    projection = projection_at(latitude, middle, around)
    south, north, west, east = turned.agg(  # type: ignore[misc]
        *(pick(axis) for axis in _AXES for pick in (sf.min, sf.max))
    ).first()
    corners = np.array([(a, middle + b) for a in (south, north) for b in (west, east)])
    return Degrees(projection, bool(projection.reach_km(*corners.T).max() <= LARGEST_REACH_KM))


def find_projection_of_few(rows: DataFrame, site_degrees: FloatArray | None) -> Degrees:
    """Return the same as `find_projection`, for rows that fit in memory."""
    found = rows.select("latitude", "longitude").toArrow()
    places = np.column_stack([column.to_numpy() for column in found.columns])
    if site_degrees is not None:
        places = np.vstack([places, site_degrees])
    projection = projection_around(*places.T)
    return Degrees(projection, bool(projection.reach_km(*places.T).max() <= LARGEST_REACH_KM))


def split_by_reach(rows: DataFrame, projection: LocalProjection) -> tuple[DataFrame, DataFrame]:
    """Return the rows whose positions a plane holds, and the others."""

    def is_near(latitude: pa.Array, longitude: pa.Array) -> pa.Array:
        reach_km = projection.reach_km(latitude.to_numpy(), longitude.to_numpy())
        return pa.array(reach_km <= LARGEST_REACH_KM)

    near = arrow_udf(is_near, "boolean")("latitude", "longitude")  # type: ignore[call-overload]
    return rows.where(near), rows.where(~near)
