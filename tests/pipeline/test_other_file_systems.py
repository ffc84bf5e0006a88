"""A run from and to a real HDFS or a real S3 API is that of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from cli.conftest import Run
from nearcast.pipeline.hadoop_paths import HadoopPath
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.testing.local_hdfs import LocalHdfs
from nearcast.testing.local_s3 import LocalS3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow  # a JVM with servers starts
SHAPE = LogShape(clients=60, topics=8, members=120, dirty=0.1)


@contextmanager
def settings(spark: SparkSession, some: Mapping[str, str]) -> Iterator[None]:
    """Let Hadoop have settings while the block runs."""
    context: Any = spark.sparkContext
    hadoop, systems = context._jsc.hadoopConfiguration(), context._jvm.org.apache.hadoop.fs
    # It would keep file systems, and by whom they are used.
    systems.FileSystem.closeAll()
    for key, text in some.items():
        hadoop.set(key, text)
    try:
        yield
    finally:
        for key in some:
            hadoop.unset(key)
        systems.FileSystem.closeAll()


@pytest.fixture(scope="module")
def s3() -> Iterator[LocalS3]:
    with LocalS3() as server:
        yield server


@pytest.fixture(scope="module")
def hdfs() -> Iterator[LocalHdfs]:
    with LocalHdfs() as nodes:
        yield nodes


@pytest.fixture(params=["hdfs", "s3a"])
def other(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """What paths on another file system begin with."""
    if request.param == "hdfs":
        nodes: LocalHdfs = request.getfixturevalue("hdfs")
        yield nodes.url
        return
    server: LocalS3 = request.getfixturevalue("s3")
    with settings(spark, {**server.address, **server.credentials}):
        yield server.url


@pytest.mark.parametrize("log", ["log.jsonl", "log.csv.gz", "log.parquet"])
def test_a_run_from_and_to_another_file_system_is_that_of_this_machine(
    spark: SparkSession, other: str, run: Run, tmp_path: Path, log: str
) -> None:
    Path("input").mkdir()
    write_publication_log(Path("input", log), SHAPE, seed=1)
    Path("input", "sites.csv").write_text("x_km,y_km\n1,1\n1,5\n5,1\n5,5\n")
    there = HadoopPath(f"{other}/{log}")
    (there / "input").bring(str(Path("input").absolute()))
    options = ("--iterations", 5_000, "--bound-limit", 1, "--master", "local[2]", "--json")

    def plan_of(source: object, out: object, *more: str) -> Any:
        paths = (f"{source}/{log}", "--sites", f"{source}/sites.csv", "--out", out)
        done = run("pipeline", "run", *paths, "--work", "work", *options, *more)
        assert done.code == 0, done.err
        return done.json["plan"]

    here, remote = plan_of("input", "here"), plan_of(there / "input", there / "runs" / "a")
    for name in ("cost", "bound", "metrics", "scenario_fingerprint"):
        assert here[name] == remote[name]
    _fetch(spark, there / "runs" / "a", tmp_path / "back")
    assert {path.name for path in Path("here").iterdir()} == {
        path.name for path in (tmp_path / "back").iterdir()
    }
    for table in ("homes", "members", "clients", "topics", "topic_delays", "server_use"):
        assert pq.read_table(f"here/{table}").equals(pq.read_table(tmp_path / "back" / table))
    reasons = [
        pq.read_table(out / "quarantine")["reason"] for out in (Path("here"), tmp_path / "back")
    ]
    assert reasons[0].equals(reasons[1])
    assert len(reasons[0])
    # Another one takes its place, and nothing else stays beside it.
    again = plan_of(there / "input", there / "runs" / "a", "--overwrite", "--seed", "2")
    assert again["seed"] == 2
    assert {file.url.split("/runs/")[1].split("/")[0] for file in (there / "runs").files()} == {"a"}


def test_who_has_no_key_of_s3_is_told_in_a_sentence(
    spark: SparkSession, s3: LocalS3, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    nobody = {"fs.s3a.aws.credentials.provider": f"{_AUTH}.SimpleAWSCredentialsProvider"}
    with settings(spark, {**s3.address, **nobody}):
        answer = run("pipeline", "run", f"{s3.url}/log.csv", "--out", "out")
    assert answer.code == 2
    assert "No AWS credentials" in answer.err
    assert len(answer.err.splitlines()) <= 2
    assert not Path("out").exists()
    with settings(spark, {**s3.address, **s3.credentials}):
        answer = run("pipeline", "run", f"{s3.url}/log.csv", "--out", "out")
        assert f"{s3.url}/log.csv: no such file" in answer.err


_AUTH = "org.apache.hadoop.fs.s3a"


def _fetch(spark: SparkSession, folder: HadoopPath, to: Path) -> None:
    """Copy a whole folder here."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path
    system = path(folder.url).getFileSystem(context._jsc.hadoopConfiguration())
    system.copyToLocalFile(False, path(folder.url), path(f"file://{to}"), True)
