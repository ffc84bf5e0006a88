"""Positions in degrees or kilometres, from the columns of files to one plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from nearcast.domain.imports.sources import SourceTable, codes_of, plain_ids
from nearcast.domain.scenario import FloatArray, ScenarioSettings
from nearcast.geo.projection import LARGEST_REACH_KM, LocalProjection, projection_around

__all__ = [
    "LATITUDE",
    "LONGITUDE",
    "X_KM",
    "Y_KM",
    "Plane",
    "check_reach",
    "has_km",
    "place_on_plane",
    "read_degrees",
    "read_ids",
    "read_km",
]

X_KM = ("x_km",)
Y_KM = ("y_km",)
LATITUDE = ("latitude", "lat")
LONGITUDE = ("longitude", "lon", "lng", "long")
_SMALLEST_FIELD_KM = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """Positions [row, (x, y)] of several files on one plane, in km."""

    projection: LocalProjection | None
    """None where the files are in km already."""
    places_km: list[FloatArray]

    def with_corner_at_zero(self) -> Plane:
        """Return the same plane with the lower left corner of all positions at (0, 0).

        A user's own kilometres stay what they are unless one is negative.
        """
        corner = np.vstack(self.places_km).min(axis=0)
        projection = self.projection
        if projection is None:
            corner = np.minimum(corner, 0.0)
        else:
            west_km, south_km = corner.tolist()
            projection = replace(projection, west_km=west_km, south_km=south_km)
        return Plane(projection, [place - corner for place in self.places_km])

    def settings(
        self, name: str, seed: int, generator: str, counts: dict[str, int]
    ) -> ScenarioSettings:
        """Return settings of a field that holds all positions.

        ``extra["projection"]`` is what `LocalProjection` needs to go back to degrees.
        """
        width, height = np.vstack(self.places_km).max(axis=0).tolist()
        extra: dict[str, object] = {"import": counts}
        if (used := self.projection) is not None:
            extra["projection"] = {
                "latitude": used.latitude,
                "longitude": used.longitude,
                "west_km": used.west_km,
                "south_km": used.south_km,
            }
        return ScenarioSettings(
            name=name,
            width_km=max(width, _SMALLEST_FIELD_KM),
            height_km=max(height, _SMALLEST_FIELD_KM),
            seed=seed,
            generator=generator,
            extra=extra,
        )


def place_on_plane(sources: Sequence[SourceTable]) -> Plane:
    """Return the positions of all files: x_km and y_km, or WGS84 degrees projected together.

    Raises
    ------
    ScenarioError
        When a file has neither or not what the others have, a cell is no position, or a
        position is so far from the others that a plane does not hold them.
    """
    if all(has_km(source) for source in sources):
        return Plane(None, [read_km(source) for source in sources])
    degrees = [read_degrees(source) for source in sources]
    projection = projection_around(*np.vstack(degrees).T)
    for source, part in zip(sources, degrees, strict=True):
        check_reach(source, part, projection)
    return Plane(projection, [np.column_stack(projection.to_plane(*part.T)) for part in degrees])


def check_reach(source: SourceTable, degrees: FloatArray, projection: LocalProjection) -> None:
    """Raise an error where a position is too far from the projection's centre."""
    reach_km = projection.reach_km(*degrees.T)
    row = int(np.argmax(reach_km))
    if reach_km[row] > LARGEST_REACH_KM:
        source.fail(
            f"({degrees[row, 0]:g}, {degrees[row, 1]:g}) is {reach_km[row]:,.0f} km from the "
            f"middle of the positions; a plane holds only {LARGEST_REACH_KM:g} km around it",
            row,
        )


def read_ids(source: SourceTable, names: Sequence[str], option: str | None) -> pa.Array:
    """Return the ids of the rows, each once: a column of one of the names, else 0, 1, 2, ..."""
    column = source.find(names, option)
    if column is None:
        return pa.array(np.arange(len(source)))
    texts = source.texts(column)
    code, _ = codes_of(texts)
    # Numbered by appearance, the first repeat is the first row that is no new number.
    repeated = code != np.arange(len(code))
    if repeated.any():
        row = int(np.argmax(repeated))
        source.fail(f"the id {texts[row].as_py()!r} is there twice", row, column)
    return plain_ids(texts)


def has_km(source: SourceTable) -> bool:
    """Return whether a file has positions in km; else they must be in degrees."""
    return source.find(X_KM) is not None and source.find(Y_KM) is not None


def read_km(source: SourceTable) -> FloatArray:
    """Return x_km and y_km of each row."""
    return _read_pair(source, X_KM, Y_KM)


def read_degrees(source: SourceTable) -> FloatArray:
    """Return latitude and longitude of each row."""
    return _read_pair(source, LATITUDE, LONGITUDE, 90.0, 180.0)


def _read_pair(
    source: SourceTable,
    first_names: Sequence[str],
    second_names: Sequence[str],
    first_limit: float = np.inf,
    second_limit: float = np.inf,
) -> FloatArray:
    first, second = source.need(first_names), source.need(second_names)
    return np.column_stack(
        [
            source.numbers(first, -first_limit, first_limit),
            source.numbers(second, -second_limit, second_limit),
        ]
    )
