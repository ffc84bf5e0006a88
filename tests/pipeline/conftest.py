from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.conftest import run as run
from nearcast.errors import ConfigError
from nearcast.links.maven_jars import CONNECTOR, S3A, find_jars
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.pipeline.stages import members
from nearcast.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connectors() -> dict[str, str]:
    """Return what gives Spark its ways to Kafka and S3; tests that need them complain without."""
    jars: list[Path] = []
    for wanted in (CONNECTOR, S3A):
        with suppress(ConfigError):
            jars += find_jars(wanted)
    return {"spark.jars": ",".join(map(str, jars))} if jars else {}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One embedded session for all tests."""
    settings = SparkSettings(
        master="local[2]",
        name="nearcast-tests",
        ui=False,
        is_short_lived=True,
        conf={
            "spark.sql.shuffle.partitions": "2",
            **connectors(),
        },
    )
    with open_session(settings) as session:
        yield session


@pytest.fixture(params=["one task", "many tasks"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find members as of a small log, and once more as of a large one."""
    if request.param == "many tasks":
        monkeypatch.setattr(members, "ROWS_OF_ONE_TASK", 0)


@pytest.fixture
def workspace(spark: SparkSession, tmp_path: Path) -> Workspace:
    return Workspace(spark, tmp_path / "run")
