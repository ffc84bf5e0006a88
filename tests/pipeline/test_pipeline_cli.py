"""``nearcast pipeline`` as a user types it; all commands share the tests' session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from cli.conftest import Answer, Run
from nearcast.errors import PipelineError
from nearcast.pipeline.progress import named_jobs
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.testing.ports import closed_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED = ("--master", "local[2]")
STAGES = ["ingest", "members", "relations", "regions", "plan", "evaluate"]


@pytest.fixture
def scenario(run: Run) -> Path:
    """Two topics of the setting of 2021, the size of its preliminary example."""
    made = run("scenario", "generate", "reloc2021", "--topics", 2, "--seed", 1, "--out", "two")
    assert made.code == 0
    return Path("two")


def refused(answer: Answer, *words: str) -> None:
    assert answer.code == 2
    assert answer.err.count("error:") == 1
    assert "Traceback" not in answer.err
    for word in words:
        assert word in answer.err


def test_a_raw_log_becomes_a_plan(spark: SparkSession, run: Run) -> None:
    shape = LogShape(clients=40, topics=6, members=50, messages_per_member=2, dirty=0.1)
    dirty = write_publication_log(Path("log.jsonl"), shape, seed=1)
    command = ("pipeline", "run", "log.jsonl", "--out", "out", "--iterations", 20_000, *EMBEDDED)
    done = run(*command, "--bound-limit", 1, "--explain", "--json")
    assert done.code == 0, done.err
    stages = done.json["stages"]
    assert [stage["stage"] for stage in stages] == STAGES
    ingest = stages[0]
    assert (ingest["rows_in"], ingest["quarantined"]) == (100, dirty)
    assert ingest["rows_out"] == 100 - dirty
    written = Path("out", "manifest.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == stages
    for stage in stages:
        for table, rows in stage["tables"].items():
            path = Path("out", table)
            file = path if path.is_dir() else path.with_suffix(".parquet")
            assert pq.read_table(file).num_rows == rows, table
    assert all(stage["began"].endswith("+00:00") for stage in stages)
    told = json.loads(Path("out", "run.json").read_text())
    assert told["settings"]["request"]["bound_limit_s"] == 1
    assert told["inputs"][0]["bytes"] == Path("log.jsonl").stat().st_size
    assert told["spark"]["master"] == "local[2]"
    assert "== Physical Plan ==" in done.err
    # The folders are those that every other verb reads, and say the same.
    there = run("evaluate", "out/scenario", "out/plan", "--json").json
    assert there["cost"] == pytest.approx(done.json["plan"]["cost"], rel=1e-9)
    assert done.json["evaluation"]["metrics"] == pytest.approx(there["metrics"], rel=1e-9)
    # A second run does not touch the first.
    refused(run(*command), "out: holds an earlier run; give --overwrite")
    assert Path("out", "manifest.jsonl").read_text().splitlines() == written


def test_a_follower_list_becomes_a_plan(spark: SparkSession, run: Run) -> None:
    lines = ["# follower followee"]
    lines += [f"{a}\t{(a * 7 + b) % 90}" for a in range(20) for b in range(12)]
    Path("follows.txt").write_text("\n".join(lines))
    asked = ("--format", "follows", "--method", "reloc", "--regions", 4)
    done = run("pipeline", "run", "follows.txt", *asked, "--out", "out", *EMBEDDED, "--json")
    assert done.code == 0, done.err
    run("scenario", "import", "follows.txt", "--format", "follows", "--out", "imported")
    here = run("plan", "imported", "--method", "reloc", "--regions", 4, "--out", "p", "--json").json
    assert done.json["plan"]["cost"] == pytest.approx(here["cost"], rel=1e-9)


def test_jobs_have_names_and_java_errors_are_a_sentence(spark: SparkSession) -> None:
    context = spark.sparkContext

    def fail() -> None:
        with named_jobs(spark, "plan"):
            assert context.getLocalProperty("spark.job.description") == "nearcast plan"
            spark.sql("select cast('x' as int)").collect()

    with pytest.raises(PipelineError, match=r"^stage plan: [^\n]*'x'[^\n]*$"):
        fail()
    assert context.getLocalProperty("spark.job.description") is None


def test_stages_run_one_by_one_on_a_scenario(spark: SparkSession, run: Run, scenario: Path) -> None:
    asked = (scenario, "--method", "reloc", "--regions", 4)
    here = run("plan", *asked, "--out", "here", "--table-format", "csv", "--json").json
    there = run("pipeline", "plan", *asked, "--out", "there", "--table-format", "csv", *EMBEDDED)
    assert there.code == 0, there.err
    # Without a terminal a stage is two lines.
    assert "stage plan begins\nstage plan: " in there.err
    for table in ("homes", "publish", "brokers"):
        assert Path("there", f"{table}.csv").read_text() == Path("here", f"{table}.csv").read_text()
    valued = run("pipeline", "evaluate", scenario, "there", *EMBEDDED, "--json").json
    assert valued["cost"] == pytest.approx(here["cost"], rel=1e-9)
    assert 0 < valued["percentiles_ms"]["p50"] <= valued["percentiles_ms"]["max"]
    related = run(
        "pipeline", "relations", scenario, "--related", 3, "--out", "r", *EMBEDDED, "--json"
    ).json
    assert pq.read_table("r/relations").num_rows == related["stages"][0]["rows_out"] > 0
    run("pipeline", "evaluate", scenario, "there", "--out", "e", *EMBEDDED)
    for folder, stage, inputs in (
        ("r", "relations", 1),
        ("there", "plan", 1),
        ("e", "evaluate", 2),
    ):
        told = json.loads(Path(folder, "run.json").read_text())
        assert told["settings"]
        folders = {Path(one["file"]).parent.name for one in told["inputs"]}
        assert len(folders) == inputs
        (line,) = Path(folder, "manifest.jsonl").read_text().splitlines()
        assert json.loads(line)["stage"] == stage
    # What is beside the plan does not keep it from being replaced.
    again = run("pipeline", "plan", *asked, "--out", "there", "--overwrite", *EMBEDDED, "--json")
    assert again.code == 0, again.err
    assert "stage plan begins\nstage plan: " in again.err


def test_a_sweep_is_resumed(spark: SparkSession, run: Run) -> None:
    Path("spec.toml").write_text(
        'methods = ["nearest", "otos"]\nseeds = 2\n[scenario]\nsource = "reloc2021"\n'
        "parameters = {topics = 2}\n"
    )
    first = run("pipeline", "sweep", "spec.toml", "--out", "s", *EMBEDDED, "--json")
    assert first.code == 0, first.err
    assert first.err.splitlines()[0] == "0 of 4 combinations"
    assert first.err.splitlines()[-1] == "4 of 4 combinations"
    assert first.json | {"results": ""} == {"results": "", "total": 4, "reused": 0, "failed": 0}
    assert pq.read_table(first.json["results"]).num_rows == 4
    again = run("pipeline", "sweep", "spec.toml", "--out", "s", *EMBEDDED, "--json").json
    assert (again["total"], again["reused"]) == (4, 4)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.csv", "topic,time\nt,1\n", ("log.csv", "client")),
        ("log.csv", "topic,client,time,x_km,y_km\nt,c,soon,1,2\n", ("none of 1 rows", "time")),
        ("log.jsonl", "", ("log.jsonl",)),
        ("log.parquet", "PAR1 and then nothing", ("log.parquet",)),
    ],
)
def test_bad_logs_leave_no_output(
    spark: SparkSession, run: Run, name: str, content: str, words: tuple[str, ...]
) -> None:
    Path(name).write_text(content)
    refused(run("pipeline", "run", name, "--out", "out", *EMBEDDED), *words)
    assert not Path("out").exists()


def test_missing_logs_and_foreign_output_are_named(spark: SparkSession, run: Run) -> None:
    refused(run("pipeline", "run", "nowhere.csv", "--out", "out", *EMBEDDED), "nowhere.csv")
    assert not Path("out").exists()
    Path("mine").mkdir()
    Path("mine", "thesis.txt").write_text("years of work")
    answer = run("pipeline", "run", "log.csv", "--out", "mine", "--overwrite", *EMBEDDED)
    refused(answer, "mine: exists already and is not an earlier run")
    assert Path("mine", "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("url", ["s3a://bucket/x", "hdfs://host:9000/x", "gs:/x"])
def test_verbs_on_scenarios_refuse_other_file_systems(run: Run, url: str) -> None:
    refused(run("pipeline", "evaluate", "s", "p", "--out", url), url)
    refused(run("plan", "s", "--out", url), url, f"may be on {url.partition(':')[0]}")
    assert list(Path().iterdir()) == []


def test_an_unknown_file_system_is_refused_and_no_folder_is_named_like_it(
    spark: SparkSession, run: Run
) -> None:
    Path("log.csv").write_text("topic,client,time,x_km,y_km\nt,c,1,1,2\n")
    refused(run("pipeline", "run", "log.csv", "--out", "moon://x/y", *EMBEDDED), "moon://x/y")
    refused(run("pipeline", "run", "moon://x/y.csv", "--out", "out", *EMBEDDED), "moon://x/y.csv")
    assert [entry.name for entry in Path().iterdir()] == ["log.csv"]


def test_file_urls_are_paths(run: Run) -> None:
    here = f"file://{Path().absolute()}"
    made = run("scenario", "generate", "reloc2021", "--topics", 2, "--out", f"{here}/two")
    assert made.code == 0
    assert Path("two", "scenario.json").exists()
    refused(
        run("pipeline", "run", f"{here}/gone.csv", "--out", f"{here}/out"), "/gone.csv: no such"
    )


def test_an_unreachable_master_is_named_before_any_work(run: Run, scenario: Path) -> None:
    master = f"spark://127.0.0.1:{closed_port()}"
    answer = run("pipeline", "plan", scenario, "--out", "p", "--master", master)
    refused(answer, f"no Spark master answers at {master}", "leave --master out")
    assert not Path("p").exists()


def test_settings_must_be_sparks(run: Run, scenario: Path) -> None:
    answer = run("pipeline", "plan", scenario, "--out", "p", "--conf", "colour=red")
    assert answer.code == 2
    assert "colour=red" in answer.err
