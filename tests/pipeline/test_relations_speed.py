"""The benchmark of relations at its smallest: all ways end with the same relations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as parquet
import pytest

from nearcast.errors import PipelineError
from nearcast.experiments import relations_speed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_all_ways_end_with_the_same_relations(spark: SparkSession, tmp_path: Path) -> None:
    size = relations_speed.RelationSize(memberships=600, topics=60, clients=90, most=20)
    points = list(relations_speed.run(spark, tmp_path, size, attempts=1))
    assert tuple(point.way for point in points) == relations_speed.WAYS
    assert all(point.same_result for point in points)
    drawn = parquet.read_table(tmp_path / "memberships.parquet").to_pylist()
    pairs = {(row["topic"], row["client"]) for row in drawn}
    assert len(pairs) == len(drawn) == 600
    related = {client: set[int]() for _, client in pairs}
    for topic, client in pairs:
        related[client] |= {other for at, other in pairs if at == topic and other != client}
    expected = sum(min(len(others), 20) for others in related.values())
    assert {point.related_pairs for point in points} == {expected}


def point(way: str, attempt: int, seconds: float) -> relations_speed.RelationSpeed:
    return relations_speed.RelationSpeed(way, attempt, seconds, 10, 20, same_result=attempt < 2)


def test_the_summary_has_the_best_warm_attempt_of_each_way() -> None:
    rows = relations_speed.summary(
        [
            point("stage", 0, 9.0),
            point("scipy", 0, 8.0),
            point("stage", 1, 2.0),
            point("stage", 2, 3.0),
        ]
    )
    assert rows == [
        {"way": "stage", "cold_seconds": 9.0, "seconds": 2.0, "same_result": False}
        | {"times_ours": 1.0},
        {"way": "scipy", "cold_seconds": 8.0, "seconds": 8.0, "same_result": True}
        | {"times_ours": 4.0},
    ]


def test_an_unknown_way_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no way 'magic'"):
        list(relations_speed.run(spark, tmp_path, ways=["magic"]))
