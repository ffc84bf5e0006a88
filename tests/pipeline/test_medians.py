from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from nearcast.pipeline.stages import medians
from nearcast.pipeline.stages.medians import exact_medians

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RNG = np.random.default_rng(8)
COLUMNS = {
    "one": np.array([4.5]),
    "even": RNG.normal(size=1_000),
    "odd": RNG.normal(size=1_001),
    "ties": RNG.integers(0, 3, 900).astype(np.float64),
    "all alike": np.full(500, 7.0),
    # The two middle values differ, and nothing lies between them.
    "two values": np.repeat([1.0, 2.0], 400),
    "a lump beside the middle": np.concatenate([RNG.uniform(5, 6, 700), np.full(650, 4.0)]),
}


@pytest.mark.parametrize("most_rows", [10, 100_000])
@pytest.mark.parametrize("name", COLUMNS)
def test_medians_are_exact_whatever_is_tied(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, most_rows: int
) -> None:
    monkeypatch.setattr(medians, "_MOST_ROWS", most_rows)
    values = RNG.permutation(COLUMNS[name])
    frame = spark.createDataFrame(pa.table({"a": values, "b": -2 * values})).repartition(3)
    middle = statistics.median(values.tolist())
    assert exact_medians(frame, ("a", "b")) == [middle, -2 * middle]
