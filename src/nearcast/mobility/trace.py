"""Recorded traces: Parquet files of who was where when.

Columns: ``time_s``, ``vehicle``, ``x_km`` and ``y_km`` (or ``lon`` and ``lat`` in WGS84 degrees),
``speed_mps``, ``angle_deg``; or those of SUMO's ``--fcd-output FILE.parquet``, in metres.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.errors import ConfigError
from nearcast.geo.bounds import Bounds
from nearcast.geo.projection import LARGEST_REACH_KM, projection_around
from nearcast.mobility.moment import Floats, Moment

__all__ = ["TraceMover", "write_trace"]

_MOST_KM = 1e6
_MOST_MPS = 200.0
_ROUNDING_S = 1e-6
_KM = ("x_km", "y_km")
_DEGREES = ("lon", "lat")
_SUMO = {
    "timestep_time": "time_s",
    "vehicle_id": "vehicle",
    "vehicle_x": "x_km",
    "vehicle_y": "y_km",
    "vehicle_speed": "speed_mps",
    "vehicle_angle": "angle_deg",
}
"""SUMO's names of the columns; its metres become kilometres."""


class TraceMover:
    """Vehicles of a recorded trace.

    Parameters
    ----------
    file
        A Parquet file; its rows may have any order.

    Raises
    ------
    ConfigError
        When a column is missing or a row is wrong: says which.
    """

    def __init__(self, file: Path) -> None:
        table = _read(file)
        self._vehicle_of: list[str] = table["vehicle"].to_pylist()
        self.names: Sequence[str] = sorted(set(self._vehicle_of))
        times, speed, angle = (_numbers(table, one) for one in ("time_s", "speed_mps", "angle_deg"))
        places = _KM if set(_KM) <= set(table.column_names) else _DEGREES
        first, second = (_numbers(table, one) for one in places)
        _check(file, times, "time_s", 0.0, 1e12)
        _check(file, speed, "speed_mps", 0.0, _MOST_MPS)
        _check(file, angle, "angle_deg", -360.0, 360.0)
        if places == _KM:
            _check(file, first, "x_km", -_MOST_KM, _MOST_KM)
            _check(file, second, "y_km", -_MOST_KM, _MOST_KM)
            x_km, y_km = first, second
        else:
            _check(file, first, "lon", -180.0, 180.0)
            _check(file, second, "lat", -85.0, 85.0)
            x_km, y_km = _on_a_plane(file, first, second)
        order = np.argsort(times, kind="stable")
        self._times, self._order = times[order], order
        self._x_km, self._y_km = x_km[order], y_km[order]
        self._speed, self._angle = speed[order], angle[order]
        self.field = Bounds(
            float(x_km.min()), float(y_km.min()), float(x_km.max()), float(y_km.max())
        ).grown(0.001)  # also where all are on one line
        self._check_once(file)

    def moments(self) -> Iterator[Moment]:
        """Return the seconds of the trace, from 0 on.

        Rows may come more or less often than that, and of each vehicle at its own times: from its
        first row to its last one a vehicle is where it was last.
        """
        seconds = np.floor(self._times - self._times[0] + _ROUNDING_S).astype(np.int64).tolist()
        names = [self._vehicle_of[row] for row in self._order]
        ends = dict(zip(names, seconds, strict=True))
        last: dict[str, int] = {}
        row = 0
        for second in range(seconds[-1] + 1):
            while row < len(seconds) and seconds[row] <= second:
                last[names[row]] = row
                row += 1
            for name in [one for one in last if ends[one] < second]:
                del last[name]
            rows = np.fromiter(last.values(), np.int64, len(last))
            yield Moment(
                float(second),
                list(last),
                self._x_km[rows],
                self._y_km[rows],
                self._speed[rows],
                self._angle[rows],
            )

    def _slices(self) -> Iterator[tuple[int, int]]:
        starts = np.flatnonzero(np.diff(self._times, prepend=-1.0))
        yield from zip(starts.tolist(), [*starts[1:].tolist(), len(self._times)], strict=True)

    def _check_once(self, file: Path) -> None:
        for begin, end in self._slices():
            seen: set[str] = set()
            for row in self._order[begin:end].tolist():
                if self._vehicle_of[row] in seen:
                    raise ConfigError(
                        f"{file}, row {row + 1}: vehicle {self._vehicle_of[row]!r:.60} is there twice "
                        f"at {self._times[begin]:g} s"
                    )
                seen.add(self._vehicle_of[row])


def write_trace(file: Path, moments: Iterable[Moment]) -> int:
    """Write moments as a trace, and return the number of rows."""
    columns: dict[str, list[Any]] = {
        one: [] for one in ("time_s", "vehicle", *_KM, "speed_mps", "angle_deg")
    }
    for one in moments:
        columns["time_s"].extend([one.time_s] * len(one.vehicles))
        columns["vehicle"].extend(one.vehicles)
        for name in (*_KM, "speed_mps", "angle_deg"):
            columns[name].extend(getattr(one, name).tolist())
    table = pa.table(columns)
    pq.write_table(table, file)
    return len(table)


def _read(file: Path) -> pa.Table:
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"{file}: not a Parquet file that can be read: {reason:.120}") from None
    if "time_s" not in table.column_names and set(_SUMO) <= set(table.column_names):
        table = _of_sumo(file, table)
    known = set(table.column_names)
    missing = [one for one in ("time_s", "vehicle", "speed_mps", "angle_deg") if one not in known]
    if not set(_KM) <= known and not set(_DEGREES) <= known:
        missing.append("x_km and y_km (or lon and lat)")
    if missing:
        raise ConfigError(f"{file}: there is no column {missing[0]}")
    if not len(table):
        raise ConfigError(f"{file}: there are no rows")
    try:
        names = pc.cast(table["vehicle"].combine_chunks(), pa.string())
    except pa.ArrowException:
        raise ConfigError(f"{file}: column vehicle holds no names") from None
    bad = pc.or_kleene(pc.is_null(names), pc.equal(pc.fill_null(names, ""), ""))
    if pc.any(bad).as_py():
        raise ConfigError(f"{file}, row {bad.to_pylist().index(True) + 1}: vehicle is empty")
    table = table.set_column(table.column_names.index("vehicle"), "vehicle", names)
    for one in table.column_names:
        if one in ("time_s", "speed_mps", "angle_deg", *_KM, *_DEGREES):
            kind = table.schema.field(one).type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
                raise ConfigError(f"{file}: column {one} holds {kind}, not numbers")
    return table


def _of_sumo(file: Path, table: pa.Table) -> pa.Table:
    table = table.select(list(_SUMO)).rename_columns(list(_SUMO.values()))
    for name in _KM:
        try:
            km = pc.divide(pc.cast(table[name], pa.float64()), 1000.0)
        except pa.ArrowException:
            raise ConfigError(f"{file}: column vehicle_{name[0]} holds no numbers") from None
        table = table.set_column(table.column_names.index(name), name, km)
    return table


def _numbers(table: pa.Table, column: str) -> Floats:
    values = pc.fill_null(pc.cast(table[column].combine_chunks(), pa.float64()), float("nan"))
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _check(file: Path, values: Floats, column: str, least: float, most: float) -> None:
    bad = np.flatnonzero(~((values >= least) & (values <= most)))
    if len(bad):
        raise ConfigError(
            f"{file}, row {bad[0] + 1}: {column} is {values[bad[0]]:g}, "
            f"not between {least:g} and {most:g}"
        )


def _on_a_plane(file: Path, longitude: Floats, latitude: Floats) -> tuple[Floats, Floats]:
    projection = projection_around(latitude, longitude)
    far = np.flatnonzero(projection.reach_km(latitude, longitude) > LARGEST_REACH_KM)
    if len(far):
        raise ConfigError(
            f"{file}, row {far[0] + 1}: more than {LARGEST_REACH_KM:g} km from the middle"
        )
    return projection.to_plane(latitude, longitude)
