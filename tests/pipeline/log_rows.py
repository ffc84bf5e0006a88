"""Rows of logs and the files that hold them, for the tests of the first stages."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

Row = dict[str, object]


def random_rows(count: int, in_degrees: bool = False, seed: int = 8) -> list[Row]:
    """Return publications of 40 clients to 12 topics, in no order of time."""
    rng = np.random.default_rng(seed)
    x, y = ("latitude", "longitude") if in_degrees else ("x_km", "y_km")
    x_low, y_low = (48.0, 179.9) if in_degrees else (-1.0, 2.0)
    rows: list[Row] = []
    for _ in range(count):
        place = y_low + float(rng.uniform(0, 0.3))
        rows.append(
            {
                "topic": f"t{rng.integers(12)}",
                "client": int(rng.integers(40)),
                "time": float(rng.uniform(1000, 1600)),
                x: float(rng.uniform(x_low, x_low + 0.2)),
                y: (place + 180) % 360 - 180 if in_degrees else place,
                "size": int(rng.integers(1, 9)),
            }
        )
    return rows


def write_rows(path: Path, rows: list[Row]) -> Path:
    """Write rows in the format that the ending of the path says."""
    kind = path.suffixes[0]
    if kind == ".parquet":
        pa_parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
        return path
    if kind == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        data = text.getvalue()
    else:
        data = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data.encode()))
    else:
        path.write_text(data)
    return path
