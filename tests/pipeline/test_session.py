from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from nearcast.errors import PipelineError
from nearcast.pipeline.blocks import map_blocks
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.testing.ports import closed_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_arrays_and_blocks_reach_the_workers(spark: SparkSession) -> None:
    numbers = np.arange(10, dtype=np.int64)
    with share_arrays(spark, {"numbers": numbers}) as shared:

        def compute(block: int) -> Iterator[pa.RecordBatch]:
            part = shared.load()["numbers"][block * 5 : block * 5 + 5]
            yield pa.RecordBatch.from_arrays(
                [pa.array([block]), pa.array([part.sum()])], ["b", "s"]
            )

        rows = map_blocks(spark, 2, compute, "b long, s long").toArrow().to_pydict()
    assert dict(zip(rows["b"], rows["s"], strict=True)) == {0: 10, 1: 35}


def test_a_running_session_is_used_and_left(spark: SparkSession) -> None:
    with open_session(SparkSettings(master="local[2]")) as session:
        assert session is spark
    assert spark.range(3).count() == 3


def test_an_unreachable_master_is_named() -> None:
    address = f"spark://127.0.0.1:{closed_port()}"
    with (
        pytest.raises(PipelineError, match=f"no Spark master answers at {address}"),
        open_session(SparkSettings(master=address)),
    ):
        pass


def test_a_jvm_leaves_the_terminal_alone_even_if_it_is_killed() -> None:
    program = (
        "import logging, os, signal\n"
        "from nearcast.errors import PipelineError\n"
        "from nearcast.pipeline.progress import named_jobs\n"
        "from nearcast.pipeline.session import SparkSettings, open_session\n"
        "logging.basicConfig()\n"
        "try:\n"
        "    with open_session(SparkSettings(master='local[1]', ui=False)) as spark:\n"
        "        assert spark.range(2).count() == 2\n"
        "        java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()\n"
        "        with named_jobs(spark, 'ingest'):\n"
        "            os.kill(java, signal.SIGKILL)\n"
        "            spark.range(2).count()\n"
        "except PipelineError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("stage ingest: Spark's JVM has ended; was it killed")
    assert (done.returncode, done.stderr) == (0, "")


def test_whoever_asks_for_sparks_log_gets_it() -> None:
    program = (
        "from nearcast.pipeline.session import SparkSettings, open_session\n"
        "conf = {'spark.log.level': 'ERROR'}\n"
        "with open_session(SparkSettings(master='local[1]', ui=False, conf=conf)) as spark:\n"
        "    spark.range(2).count()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr != ""


def test_the_users_defaults_for_all_of_spark_win_over_ours(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# mine\nspark.sql.shuffle.partitions   7\nspark.driver.memory=600m\n"
        "spark.master local[1]\nspark.sql.session.timeZone: CET\n"
    )
    program = (
        "from nearcast.pipeline.session import SparkSettings, open_session\n"
        "conf = {'spark.sql.session.timeZone': 'UTC'}\n"
        "with open_session(SparkSettings(ui=False, conf=conf)) as spark:\n"
        "    for key in ('sql.shuffle.partitions', 'driver.memory', 'sql.session.timeZone'):\n"
        "        print(spark.conf.get('spark.' + key))\n"
        "    print(spark.sparkContext.master)\n"
    )
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["7", "600m", "UTC", "local[1]"], done.stderr


def test_a_jvm_that_does_not_start_says_why() -> None:
    program = (
        "from nearcast.pipeline.session import SparkSettings, open_session\n"
        "with open_session(SparkSettings(master='local[1]', driver_memory='banana')):\n"
        "    pass\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "PipelineError: Spark does not start at local[1]: Invalid" in done.stderr
    assert "banana" in done.stderr
