"""A run takes the place of another only when it is whole, and goes on where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.conftest import Run
from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import report_to_json
from nearcast.errors import OutputError
from nearcast.pipeline import run as run_module
from nearcast.pipeline import session
from nearcast.pipeline.manifest import MANIFEST_FILE, Manifest
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.pipeline.run import RunResult, RunSettings, made_of, run_pipeline
from nearcast.pipeline.run_folder import RUN_FILE, open_run_folder
from nearcast.planning.request import PlanRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHAPE = LogShape(clients=40, topics=6, members=50, messages_per_member=2, dirty=0.1)


def write_run(folder: Path, text: str, *, overwrite: bool = False) -> None:
    with open_run_folder(folder, overwrite) as unfinished:
        (unfinished / "table").write_text(text)


def interrupt(folder: Path, made_of: dict[str, str] | None) -> None:
    def write_half() -> None:
        with open_run_folder(folder, overwrite=True, made_of=made_of) as unfinished:
            (unfinished / "table").write_text("half")
            with Manifest(unfinished).stage("ingest"):
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()


def test_an_earlier_run_stays_until_another_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    write_run(out, "old")
    interrupt(out, {"log": "b"})
    assert (out / "table").read_text() == "old"
    with pytest.raises(OutputError, match="out: holds an earlier run; give --overwrite"):
        write_run(out, "new")
    write_run(out, "new", overwrite=True)
    assert (out / "table").read_text() == "new"
    assert [entry.name for entry in out.parent.iterdir()] == ["out"]
    assert sorted(entry.name for entry in out.iterdir()) == [RUN_FILE, "table"]


def test_only_a_run_of_the_same_goes_on_and_only_after_a_stage(tmp_path: Path) -> None:
    out, unfinished = tmp_path / "out", tmp_path / "out.unfinished"
    interrupt(out, {"log": "a"})
    with open_run_folder(out, overwrite=False, made_of={"log": "a"}) as folder:
        assert (folder / "table").read_text() == "half"
    interrupt(out, {"log": "a"})
    with open_run_folder(out, overwrite=True, made_of={"log": "b"}) as folder:
        assert not (folder / "table").exists()
    interrupt(out, None)
    assert not unfinished.exists()
    with (
        pytest.raises(KeyboardInterrupt),
        open_run_folder(out, overwrite=True, made_of={"log": "a"}),
    ):
        raise KeyboardInterrupt
    assert not unfinished.exists()


def test_a_crash_just_before_the_end_loses_neither_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    interrupt(out, {"log": "a"})
    # As between the two renames: the earlier run has another name, and the new one not yet its own.
    with open_run_folder(out, overwrite=True, made_of={"log": "a"}) as folder:
        assert (folder / MANIFEST_FILE).exists()
    assert (out / "table").read_text() == "half"


def test_two_runs_do_not_write_one_folder(tmp_path: Path) -> None:
    with (
        open_run_folder(tmp_path / "out", overwrite=True),
        pytest.raises(OutputError, match="out: another run is writing it"),
    ):
        write_run(tmp_path / "out", "other", overwrite=True)


def test_what_is_in_the_way_is_named_before_anything_is_done(tmp_path: Path) -> None:
    foreign = tmp_path / "out.unfinished"
    foreign.mkdir()
    (foreign / "thesis").touch()
    (tmp_path / "file").touch()
    for folder, message in (
        (tmp_path / "out", "out.unfinished: exists already and is not an earlier run"),
        (tmp_path / "file" / "out", "file is no folder to write into"),
        (Path("/proc"), "is a mount point"),
    ):
        with pytest.raises(OutputError, match=message):
            write_run(folder, "text", overwrite=True)
    assert (foreign / "thesis").exists()


def whole_run(spark: SparkSession, settings: RunSettings, out: Path) -> RunResult:
    with open_run_folder(out, overwrite=True, made_of=made_of(settings)) as unfinished:
        return run_pipeline(spark, settings, unfinished)


@pytest.mark.parametrize("method", ["reloc", "nearest"])
def test_an_interrupted_run_ends_as_one_that_was_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    log = tmp_path / "log.jsonl"
    write_publication_log(log, SHAPE, seed=1)
    settings = RunSettings([log], request=PlanRequest(Model.RATIO, method, regions=3))
    expected = whole_run(spark, settings, tmp_path / "expected")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "divide", stop)
        with pytest.raises(KeyboardInterrupt):
            whole_run(spark, settings, tmp_path / "out")
    with (tmp_path / "out.unfinished" / MANIFEST_FILE).open("a") as manifest:
        manifest.write('{"stage": "reg')  # a crash in the middle of a line
    for stage in ("ingest_publications", "find_members", "relate"):
        monkeypatch.setattr(run_module, stage, stop)
    found = whole_run(spark, settings, tmp_path / "out")
    assert found.outcome.plan.homes.tolist() == expected.outcome.plan.homes.tolist()
    assert found.outcome.report.cost == expected.outcome.report.cost
    assert scenario_fingerprint(found.scenario) == scenario_fingerprint(expected.scenario)
    assert [record.stage for record in found.stages] == [one.stage for one in expected.stages]
    assert found.stages[0].quarantined == expected.stages[0].quarantined > 0


def test_a_run_that_only_lacks_its_evaluation_keeps_its_plan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.jsonl"
    write_publication_log(log, SHAPE, seed=1)
    request = PlanRequest(Model.RATIO, iterations=5_000, bound_limit_s=0.5)
    settings = RunSettings([log], request=request)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "evaluate_plan", stop)
        with pytest.raises(KeyboardInterrupt):
            whole_run(spark, settings, tmp_path / "out")
    kept = tmp_path / "out.unfinished" / "plan" / "plan.json"
    report = json.loads(kept.read_text())
    for stage in ("ingest_publications", "find_members", "relate", "divide", "plan_scenario"):
        monkeypatch.setattr(run_module, stage, stop)
    found = whole_run(spark, settings, tmp_path / "out")
    assert report_to_json(found.outcome.report) == report
    assert found.evaluation.assessment.cost == pytest.approx(report["cost"])
    assert [record.stage for record in found.stages][-2:] == ["plan", "evaluate"]


@pytest.mark.parametrize(
    ("log", "sites", "message"),
    [
        ("gone.csv", "sites.csv", "gone.csv: no such file"),
        ("log.csv", "gone.csv", "gone.csv"),
        ("log.csv", "sites.csv", "sites.csv"),
    ],
)
def test_bad_inputs_are_named_before_spark_starts_and_spoil_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, log: str, sites: str, message: str
) -> None:
    monkeypatch.setattr(session, "open_session", lambda _: pytest.fail("Spark was started"))
    write_run(Path("out"), "good")
    Path("log.csv").write_text("topic,client,time,latitude,longitude\nt,c,1,48,11\n")
    Path("sites.csv").write_text("x_km,y_km\n1,1\n")
    answer = run("pipeline", "run", log, "--sites", sites, "--out", "out", "--overwrite")
    assert answer.code == 2
    assert message in answer.err
    assert Path("out", "table").read_text() == "good"
    assert not Path("out.unfinished").exists()
