from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.conftest import run as run
from nearcast.errors import ConfigError
from nearcast.links.maven_jars import CONNECTOR, find_jars
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.pipeline.stages import members
from nearcast.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connector() -> dict[str, str]:
    """Return what gives Spark its connector to Kafka; tests that need it complain without it."""
    try:
        return {"spark.jars": ",".join(map(str, find_jars(CONNECTOR)))}
    except ConfigError:
        return {}


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
            **connector(),
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
