"""Logs, sites and runs on another file system; Hadoop's viewfs stands for all of them here."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from cli.conftest import Run
from nearcast.domain.local_paths import scheme_of
from nearcast.errors import OutputError, PipelineError, ScenarioError
from nearcast.pipeline import run as run_module
from nearcast.pipeline.hadoop_paths import HadoopPath
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.pipeline.remote_run import check_remote_folder, fetch_file
from nearcast.pipeline.stages.log_files import find_files, read_layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHAPE = LogShape(clients=40, topics=6, members=50, dirty=0.1)


@pytest.fixture
def there(spark: SparkSession, tmp_path: Path) -> HadoopPath:
    """A folder that is reached as viewfs://lab/data, and is `tmp_path/there` in truth."""
    (tmp_path / "there").mkdir()
    # A name of its own for each test: Hadoop keeps the file systems that it has made.
    name = f"lab{abs(hash(tmp_path))}"
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{name}.link./data", f"file://{tmp_path}/there")
    return HadoopPath(f"viewfs://{name}/data")


def test_a_scheme_of_two_letters_is_another_file_system() -> None:
    assert scheme_of("hdfs://host:9000/x") == "hdfs"
    assert scheme_of("S3A://bucket/x") == "s3a"
    for here in ("file:///x", "x", "/x", "c:/x"):
        assert scheme_of(here) is None


def test_files_are_found_as_here(there: HadoopPath, tmp_path: Path) -> None:
    for name in ("b/2.csv", "b/1.csv", "b/_mark/3.csv", "b/.hidden.csv", "c.csv"):
        (tmp_path / "there" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / name).write_text("topic,client,time,x_km,y_km\nt,c,1,1,2\n")
    found = find_files([there / "b", there / "*.csv"])
    assert [str(file).removeprefix(f"{there}/") for file in found] == [
        "b/1.csv",
        "b/2.csv",
        "c.csv",
    ]
    with pytest.raises(ScenarioError, match="no such file"):
        find_files([there / "gone*"])
    (tmp_path / "there" / "empty").mkdir()
    with pytest.raises(ScenarioError, match="a folder without files"):
        find_files([there / "empty"])


@pytest.mark.parametrize("ending", ["jsonl", "csv.gz", "parquet"])
def test_beginnings_are_read_as_here(there: HadoopPath, tmp_path: Path, ending: str) -> None:
    file = tmp_path / "there" / f"log.{ending}"
    write_publication_log(file, SHAPE, seed=1)
    mine, other = read_layout([file]), read_layout([there / file.name])
    assert (mine.format, mine.columns, mine.names) == (other.format, other.columns, other.names)


def test_a_file_can_be_read_at_any_place(there: HadoopPath, tmp_path: Path) -> None:
    content = bytes(range(256)) * 3000
    (tmp_path / "there" / "bytes").write_bytes(content)
    with (there / "bytes").open() as file:
        assert file.read(3) == content[:3]
        file.seek(-5, 2)
        assert file.read() == content[-5:]
        assert file.read() == b""
        file.seek(300_000)
        assert file.read(9) == content[300_000:300_009]


def test_a_fetched_file_is_known_again(there: HadoopPath, tmp_path: Path) -> None:
    (tmp_path / "there" / "sites.csv.gz").write_bytes(gzip.compress(b"x_km,y_km\n1,2\n"))
    first = fetch_file(there / "sites.csv.gz", tmp_path / "work")
    known = first.stat().st_mtime_ns
    assert first.name.endswith("-sites.csv.gz")
    assert fetch_file(there / "sites.csv.gz", tmp_path / "work") == first
    assert first.stat().st_mtime_ns == known


def test_what_is_in_the_way_is_named(there: HadoopPath, tmp_path: Path) -> None:
    (tmp_path / "there" / "run").mkdir()
    check_remote_folder(there / "run", overwrite=False)
    check_remote_folder(there / "nothing", overwrite=False)
    (tmp_path / "there" / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="is not an earlier run"):
        check_remote_folder(there / "run", overwrite=True)
    (tmp_path / "there" / "run" / "run.json").write_text("{}")
    with pytest.raises(OutputError, match="give --overwrite"):
        check_remote_folder(there / "run", overwrite=False)


def test_a_file_system_that_hadoop_does_not_know_is_one_sentence(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r'^moon://x/y: .*scheme "moon"'):
        HadoopPath("moon://x/y").exists()


def test_a_run_from_and_to_another_file_system_is_that_of_this_one(
    there: HadoopPath, run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "there"
    write_publication_log(folder / "log.jsonl", SHAPE, seed=1)
    (folder / "sites.csv").write_text("x_km,y_km\n1,1\n1,5\n5,1\n5,5\n")
    options = ("--iterations", 5000, "--bound-limit", 1, "--master", "local[2]")
    here = run(
        *("pipeline", "run", folder / "log.jsonl", "--sites", folder / "sites.csv"),
        *("--out", "here", *options),
    )
    assert here.code == 0, here.err
    paths = ("pipeline", "run", f"{there}/log.jsonl", "--sites", f"{there}/sites.csv")
    command = (*paths, "--out", f"{there}/runs/a", "--work", "work", *options)
    other = run(*command, "--json")
    assert other.code == 0, other.err
    assert other.json["run"] == f"{there}/runs/a"
    assert [path.name for path in (folder / "runs").iterdir()] == ["a"]
    for table in ("homes", "members", "clients", "topic_delays", "quarantine"):
        mine = pq.read_table(f"here/{table}")
        theirs = pq.read_table(folder / "runs" / "a" / table)
        if table == "quarantine":
            mine, theirs = mine.drop(["file"]), theirs.drop(["file"])
        assert mine.equals(theirs), table
    # Nothing of the run stays here, and no folder is named like a URL.
    assert [path.name.split("-")[-1] for path in Path("work").iterdir()] == ["sites.csv"]
    assert not [path for path in Path().iterdir() if ":" in path.name]
    again = run(*command)
    assert again.code == 2
    assert "holds an earlier run; give --overwrite" in again.err
    shutil.rmtree("here")


def test_a_run_that_could_not_be_brought_is_not_made_again(
    there: HadoopPath, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_publication_log(tmp_path / "there" / "log.jsonl", SHAPE, seed=1)
    command = (
        *("pipeline", "run", f"{there}/log.jsonl", "--out", f"{there}/run", "--work", "work"),
        *("--iterations", 5000, "--bound-limit", 1, "--master", "local[2]"),
    )

    def fail(*_: object) -> None:
        raise PipelineError("the network is down")

    with monkeypatch.context() as patch:
        patch.setattr(HadoopPath, "bring", fail)
        failed = run(*command)
    assert failed.code == 2
    assert "the network is down" in failed.err
    assert not (tmp_path / "there" / "run").exists()
    for stage in ("ingest_publications", "find_members", "relate", "divide", "plan_scenario"):
        monkeypatch.setattr(run_module, stage, fail)
    brought = run(*command)
    assert brought.code == 0, brought.err
    names = {path.name for path in (tmp_path / "there" / "run").iterdir()}
    assert {"run.json", "plan", "homes"} <= names
    assert ".lock" not in names
    assert not list(Path("work").iterdir())
