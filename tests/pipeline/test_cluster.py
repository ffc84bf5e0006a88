"""A real standalone cluster: code, arrays and kernels reach its workers, and one may die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import nearcast
from nearcast.domain.plan import Model
from nearcast.domain.plan_files import read_plan
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import PipelineError
from nearcast.pipeline.manifest import MANIFEST_FILE
from nearcast.pipeline.sweep.cell import SweepCell, run_cell
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import make_plan
from nearcast.testing.spark_cluster import SparkCluster
from pipeline.cluster_driver import BLOCKS, USAGE, WIDTH
from pipeline.nasty_logs import write_nasty_log

pytestmark = [pytest.mark.timeout(500), pytest.mark.slow]  # six JVMs start
DRIVER = Path(__file__).with_name("cluster_driver.py")
SUBMITTED = Path(__file__).parents[2] / "examples" / "spark_submit.py"
USED = "used"
RELOC = ("--method", "reloc", "--regions", "3", "--json")
OPTIMISED = ("--method", "optimised", "--iterations", "20000", "--json")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has all libraries, but not nearcast, and notes by which name it was run.

    The first one that starts beside a pipe `hold` names its folder in `held/by` and waits there.
    """
    folder = tmp_path_factory.mktemp("bare")
    libraries = folder / "libraries"
    libraries.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "nearcast" not in entry.name:
            (libraries / entry.name).symlink_to(entry)
    program = folder / "bin" / "python"
    program.parent.mkdir()
    ours = Path(nearcast.__file__).parents[1]
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$0" >> "{folder}/{USED}"\n'
        f'if [ -p "{folder}/hold" ] && mkdir "{folder}/held" 2>/dev/null; then\n'
        f'pwd -P > "{folder}/held/new" && mv "{folder}/held/new" "{folder}/held/by"\n'
        f'read -r _ < "{folder}/hold"; fi\n'
        f"others=$(printf %s \"$PYTHONPATH\" | tr : '\\n' | grep -vxF '{ours}' | paste -sd:)\n"
        f'PYTHONPATH="{libraries}:$others" exec "{sys.executable}" -S "$@"\n'
    )
    program.chmod(0o755)
    tried = subprocess.run(
        [program, "-c", "import numpy, nearcast"], capture_output=True, text=True
    )
    assert "No module named 'nearcast'" in tried.stderr
    (folder / USED).unlink()
    return program


@pytest.fixture(scope="module")
def told(
    cluster: SparkCluster, bare_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What a driver tells of its jobs; a worker is killed in the middle of the last one."""
    meeting = tmp_path_factory.mktemp("meeting")
    with subprocess.Popen(
        [sys.executable, str(DRIVER), cluster.master, json.dumps(dict(cluster.conf)), str(meeting)],
        env={**os.environ, "PYSPARK_PYTHON": str(bare_python)},
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        try:
            kill_in_the_middle(cluster, meeting, driver)
            said, _ = driver.communicate(timeout=100)
        finally:
            driver.kill()
    begun = [mark.name.split("-")[1] for mark in meeting.glob("begun-*[0-9]")]
    return {**json.loads(said), "begun": begun, "lost": (meeting / "lost").read_text()}


def kill_in_the_middle(cluster: SparkCluster, meeting: Path, driver: subprocess.Popen[str]) -> None:
    """Kill the first worker when a block of the last job runs on it."""
    doomed = str(cluster.work_folder(0).resolve())
    deadline = time.monotonic() + 300
    while not any(mark.read_text().startswith(doomed) for mark in meeting.glob("begun-*[0-9]")):
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cluster.kill_worker(0)
    (meeting / "killed").touch()


def workers_of(cluster: SparkCluster, blocks: list[dict[str, Any]]) -> set[int]:
    return {
        worker
        for worker in range(2)
        for block in blocks
        if block["folder"].startswith(str(cluster.work_folder(worker).resolve()))
    }


def least() -> list[int]:
    return [int(np.argmin(part)) + at * WIDTH for at, part in enumerate(np.split(USAGE, BLOCKS))]


def as_options(conf: Mapping[str, str]) -> list[str]:
    return [word for item in conf.items() for word in ("--conf", "=".join(item))]


def ran_as(bare_python: Path) -> set[str]:
    """Return the names by which the bare Python was run."""
    return set((bare_python.parents[1] / USED).read_text().splitlines())


@contextmanager
def running_pipeline(
    log: Path, out: Path, asked: Sequence[str], *more: str
) -> Iterator[subprocess.Popen[str]]:
    program = "from nearcast.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "pipeline", "run", log, "--out", out, *asked, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_ingest(out: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what the manifest says of the first stage, as soon as it is done."""
    unfinished = out.with_name(f"{out.name}.unfinished")
    deadline = time.monotonic() + 600
    while not (told := first_stage(unfinished)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return told


def first_stage(run: Path) -> dict[str, Any]:
    try:
        line = (run / MANIFEST_FILE).read_text().splitlines(keepends=True)[0]
    except (OSError, IndexError):
        return {}
    return dict(json.loads(line)) if line.endswith("\n") else {}


def assert_same_run(found: Path, wanted: Path) -> None:
    exact = ("clients", "topics", "members", "relations", "client_regions", "homes", "quarantine")
    for name in exact:
        ours, theirs = (pq.read_table(run / name) for run in (found, wanted))
        order = [(column, "ascending") for column in theirs.column_names]
        assert ours.sort_by(order).equals(theirs.sort_by(order)), name
    # The sums of a block are added as the blocks are cut, which follows the number of cores.
    ours, theirs = (pq.read_table(run / "topic_delays").to_pandas() for run in (found, wanted))
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-12)


class Run(NamedTuple):
    log: Path
    bad_rows: int
    out: Path
    asked: Sequence[str]


def run_here(log: Path, asked: Sequence[str]) -> Run:
    """Return a run of the pipeline without the cluster."""
    out = log.with_name("run")
    nasty = write_nasty_log(log, good=400, seed=9)
    quick = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
    }
    with running_pipeline(log, out, asked, *as_options(quick)) as process:
        _, said = process.communicate()
    assert process.returncode == 0, said[-2000:]
    return Run(log, sum(nasty.bad.values()), out, asked)


def wait_for_held(held: Path, process: subprocess.Popen[str]) -> Path:
    """Return where the worker of a task waits that is held."""
    deadline = time.monotonic() + 300
    while not (held / "by").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return Path((held / "by").read_text().strip())


def run_while_a_worker_dies(
    cluster: SparkCluster, bare_python: Path, here: Run, out: Path, conf: Mapping[str, str]
) -> None:
    """Run on the cluster what was run here; the first worker that has a task is killed."""
    folder = bare_python.parents[1]
    shutil.rmtree(folder / "held", ignore_errors=True)
    os.mkfifo(folder / "hold")
    with running_on(cluster, bare_python, here, out, conf) as process:
        held = wait_for_held(folder / "held", process)
        worker = int(cluster.work_folder(1).resolve() in held.parents)
        assert cluster.work_folder(worker).resolve() in held.parents
        cluster.kill_worker(worker)
        (folder / "hold").unlink()
        _, said = process.communicate()
    cluster.start_worker(worker)
    assert process.returncode == 0, said[-2000:]


def running_on(
    cluster: SparkCluster, bare_python: Path, here: Run, out: Path, conf: Mapping[str, str]
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Give a run on the cluster of what was run here; it is killed at the end of the block."""
    settings = {**cluster.conf, "spark.pyspark.python": str(bare_python), **conf}
    there = ["--master", cluster.master, *as_options(settings)]
    return running_pipeline(here.log, out, here.asked, *there)


def task_ends(events: Path) -> list[dict[str, Any]]:
    """Return how the tasks of an application ended, as Spark's own log of events tells."""
    files = [path for path in events.rglob("events_*") if path.is_file()]
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [line for line in lines if line["Event"] == "SparkListenerTaskEnd"]


def test_the_whole_pipeline_runs_there_as_it_does_here_though_a_worker_dies(
    cluster: SparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    # Before the tests that kill a worker for good.
    here = run_here(tmp_path / "log.jsonl", RELOC)
    lost, events = tmp_path / "lost", tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    run_while_a_worker_dies(cluster, bare_python, here, lost, conf)
    ends = task_ends(events)
    died = {
        (end["Stage ID"], end["Task Info"]["Index"])
        for end in ends
        if end["Task End Reason"]["Reason"] == "ExecutorLostFailure"
    }
    again = {
        (end["Stage ID"], end["Task Info"]["Index"])
        for end in ends
        if end["Task End Reason"]["Reason"] == "Success" and end["Task Info"]["Attempt"] > 0
    }
    assert died
    assert died <= again
    assert str(bare_python) in ran_as(bare_python)
    assert_same_run(lost, here.out)
    assert here.bad_rows == len(pq.read_table(here.out / "quarantine"))


def test_spark_submit_says_where_and_how_in_an_environment_that_it_brings_along(
    cluster: SparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    """And goes on there with what a run that was killed there has done."""
    here = run_here(tmp_path / "log.parquet", OPTIMISED)
    out, packed = tmp_path / "there", tmp_path / "environment.tar.gz"
    with running_on(cluster, bare_python, here, out, {}) as interrupted:
        ingested = wait_for_ingest(out, interrupted)
    assert interrupted.returncode == -signal.SIGKILL
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(bare_python, "bin/python")
    python = "./environment/bin/python"
    conf = {
        **cluster.conf,
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.memory": "700m",
        "spark.archives": f"{packed}#environment",
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": sys.executable,
    }
    submit = Path(sys.executable).with_name("spark-submit")
    asked = ["run", str(here.log), "--out", str(out), *here.asked]
    done = subprocess.run(
        [submit, "--master", cluster.master, *as_options(conf), str(SUBMITTED), *asked],
        # By which the script spark-submit finds Spark.
        env={**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads((out / "run.json").read_text())["spark"]
    assert told["master"] == cluster.master
    assert told["spark.sql.shuffle.partitions"] == "3"
    assert told["spark.driver.memory"] == "700m"
    assert python in ran_as(bare_python)
    assert first_stage(out) == ingested
    assert ingested["stage"] == "ingest"
    assert_same_run(out, here.out)
    scenario = read_scenario(here.out / "scenario")
    alone = make_plan(scenario, PlanRequest(Model.RATIO, iterations=20_000))
    plan, _ = read_plan(out / "plan", scenario)
    assert np.array_equal(plan.homes, alone.plan.homes)


def test_a_run_goes_on_after_its_driver_died_though_a_worker_dies_too(
    cluster: SparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    here, out = run_here(tmp_path / "log.csv.gz", RELOC), tmp_path / "there"
    with running_on(cluster, bare_python, here, out, {}) as interrupted:
        ingested = wait_for_ingest(out, interrupted)
    assert interrupted.returncode == -signal.SIGKILL
    run_while_a_worker_dies(cluster, bare_python, here, out, {})
    assert first_stage(out) == ingested
    assert_same_run(out, here.out)


def test_blocks_run_on_both_workers_with_the_shipped_package(
    cluster: SparkCluster, told: dict[str, Any]
) -> None:
    blocks = told["blocks"]
    assert [block["block"] for block in blocks] == list(range(BLOCKS))
    assert [block["least"] for block in blocks] == least()
    assert workers_of(cluster, blocks) == {0, 1}
    assert len({block["pid"] for block in blocks}) == 2
    for block in blocks:
        # Not the package that is installed here.
        assert block["nearcast"] == f"{block['folder']}/nearcast/__init__.py"
        assert block["version"] == version("nearcast")


def test_the_drivers_compiled_kernels_are_shipped(told: dict[str, Any]) -> None:
    for block in told["blocks"]:
        assert block["cache"].startswith(block["folder"])
        assert block["compiled"] == 0


def test_a_sweep_runs_there_as_it_does_here(told: dict[str, Any]) -> None:
    assert (told["sweep"]["total"], told["sweep"]["failures"]) == (4, [])
    for row in pq.read_table(told["sweep"]["results"]).to_pylist():
        cell = SweepCell(row["source"], row["parameters"], row["seed"], method=row["method"])
        assert row["cost"] == pytest.approx(run_cell(cell)["cost"], rel=1e-12)


def test_a_new_executor_gets_all_that_it_needs(told: dict[str, Any]) -> None:
    again, other = told["restarted"]
    assert [again["least"], other["least"]] == least()[:2]
    assert len({again["folder"], other["folder"], told["lost"]}) == 3


def test_a_killed_worker_does_not_fail_the_job(cluster: SparkCluster, told: dict[str, Any]) -> None:
    after = told["after"]
    assert [block["least"] for block in after] == least()
    assert workers_of(cluster, after) == {1}
    # What ran on the lost worker was begun a second time.
    assert len(told["begun"]) > len(set(told["begun"])) == BLOCKS


def test_a_cluster_that_does_not_come_up_says_why() -> None:
    with (
        pytest.raises(PipelineError, match=r"cluster's worker-0 ended:\n(.|\n)*[Mm]emory"),
        SparkCluster(workers=1, memory="1k"),
    ):
        pass
