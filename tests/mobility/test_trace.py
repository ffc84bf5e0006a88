"""Recorded traces come back as they were; what is wrong in one is said with its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.errors import ConfigError
from nearcast.mobility.synthetic import SyntheticMover, SyntheticParams
from nearcast.mobility.trace import TraceMover, write_trace

ROWS: dict[str, list[Any]] = {
    "time_s": [10.0, 11.0, 10.0],
    "vehicle": ["a", "a", "b"],
    "x_km": [1.0, 1.1, 2.0],
    "y_km": [3.0, 3.0, 4.0],
    "speed_mps": [100.0, 100.0, 0.0],
    "angle_deg": [90.0, 90.0, 0.0],
}


def trace(folder: Path, **changes: list[Any] | None) -> Path:
    columns = {name: values for name, values in {**ROWS, **changes}.items() if values is not None}
    pq.write_table(pa.table(columns), folder / "trace.parquet")
    return folder / "trace.parquet"


def test_a_trace_comes_back_as_it_was_written(tmp_path: Path) -> None:
    params = SyntheticParams(20, seconds=5)
    rows = write_trace(tmp_path / "t.parquet", SyntheticMover(params).moments())
    assert rows == 100
    pairs = zip(
        SyntheticMover(params).moments(), TraceMover(tmp_path / "t.parquet").moments(), strict=True
    )
    for made, read in pairs:
        assert made.time_s == read.time_s
        assert list(made.vehicles) == list(read.vehicles)
        for name in ("x_km", "y_km", "speed_mps", "angle_deg"):
            assert (getattr(made, name) == getattr(read, name)).all()


def test_rows_in_any_order_begin_at_second_zero(tmp_path: Path) -> None:
    mover = TraceMover(trace(tmp_path))
    first, second = mover.moments()
    assert (first.time_s, first.vehicles, second.time_s, second.vehicles) == (
        0.0,
        ["a", "b"],
        1.0,
        ["a"],
    )
    assert mover.field.west_km < 1.0 < 2.0 < mover.field.east_km


def test_each_second_has_who_is_there_however_often_rows_come(tmp_path: Path) -> None:
    times = [10.0, 10.5, 11.0, 12.7, 14.2]
    x_km = [1.0, 1.1, 1.2, 1.3, 1.4]
    rows: dict[str, list[Any]] = {"time_s": times, "x_km": x_km, "vehicle": list("aabab")}
    rows |= {name: [1.0] * 5 for name in ("y_km", "speed_mps", "angle_deg")}
    found = [
        (one.time_s, dict(zip(one.vehicles, one.x_km.tolist(), strict=True)))
        for one in TraceMover(trace(tmp_path, **rows)).moments()
    ]
    assert found == [
        (0.0, {"a": 1.1}),
        (1.0, {"a": 1.1, "b": 1.2}),
        (2.0, {"a": 1.3, "b": 1.2}),
        (3.0, {"b": 1.2}),
        (4.0, {"b": 1.4}),
    ]


def test_columns_as_sumo_names_them_are_metres(tmp_path: Path) -> None:
    columns = {
        "timestep_time": ROWS["time_s"],
        "vehicle_id": ROWS["vehicle"],
        "vehicle_x": [1000 * one for one in ROWS["x_km"]],
        "vehicle_y": [1000 * one for one in ROWS["y_km"]],
        "vehicle_angle": ROWS["angle_deg"],
        "vehicle_speed": ROWS["speed_mps"],
        "vehicle_lane": ["x"] * 3,
    }
    pq.write_table(pa.table(columns), tmp_path / "fcd.parquet")
    for ours, sumos in zip(
        TraceMover(trace(tmp_path)).moments(),
        TraceMover(tmp_path / "fcd.parquet").moments(),
        strict=True,
    ):
        assert ours.vehicles == sumos.vehicles
        assert (ours.x_km == sumos.x_km).all()
        assert (ours.y_km == sumos.y_km).all()
    pq.write_table(pa.table({**columns, "vehicle_x": ["a"] * 3}), tmp_path / "fcd.parquet")
    with pytest.raises(ConfigError, match="column vehicle_x holds no numbers"):
        TraceMover(tmp_path / "fcd.parquet")


def test_degrees_become_kilometres(tmp_path: Path) -> None:
    degrees = {"lon": [8.0, 8.0, 8.01], "lat": [50.0, 50.0, 50.0]}
    mover = TraceMover(trace(tmp_path, x_km=None, y_km=None, **degrees))
    first, _ = mover.moments()
    assert first.x_km[1] - first.x_km[0] == pytest.approx(0.717, abs=0.001)


BAD: list[tuple[dict[str, list[Any] | None], str]] = [
    ({"x_km": None}, "no column x_km and y_km"),
    ({"vehicle": None}, "no column vehicle"),
    ({"x_km": [1.0, float("nan"), 2.0]}, "row 2: x_km is nan"),
    ({"y_km": [1.0, 1.0, None]}, "row 3: y_km is nan"),
    ({"speed_mps": [1.0, -1.0, 2.0]}, "row 2: speed_mps is -1"),
    ({"angle_deg": [1.0, 1.0, 720.0]}, "row 3: angle_deg is 720"),
    ({"vehicle": ["a", "", "b"]}, "row 2: vehicle is empty"),
    ({"vehicle": ["a", "a", "a"]}, "row 3: vehicle 'a' is there twice at 10 s"),
    ({"time_s": ["x", "y", "z"]}, "column time_s holds string"),
    ({name: [] for name in ROWS}, "no rows"),
    ({"x_km": None, "y_km": None, "lon": [8.0, 8.0, 190.0], "lat": [5.0] * 3}, "row 3: lon is 190"),
    ({"x_km": None, "y_km": None, "lon": [8.0] * 3, "lat": [89.0] * 3}, "row 1: lat is 89"),
    ({"x_km": None, "y_km": None, "lon": [8.0, 8.0, 18.0], "lat": [5.0] * 3}, "row 3: more than"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[one for _, one in BAD])
def test_what_is_wrong_is_one_error(
    changes: dict[str, list[Any] | None], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        TraceMover(trace(tmp_path, **changes))


def test_a_file_that_is_not_a_trace_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_text("no")
    for name in ("no.parquet", "missing.parquet"):
        with pytest.raises(ConfigError, match="not a Parquet file that can be read"):
            TraceMover(tmp_path / name)
