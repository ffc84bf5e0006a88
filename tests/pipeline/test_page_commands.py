"""The pipeline's commands of README, docs and help texts run as they are shown."""

from __future__ import annotations

import glob
import shlex
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from cli.conftest import Run
from nearcast.links.kafka_client import create_topics
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.testing.local_kafka import LocalKafka
from pipeline.test_replay import write_log
from shown_commands import in_help, in_pages, with_verb
from test_commands import write_inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWEEP = """
methods = ["nearest", "reloc"]
seeds = 2

[scenario]
source = "reloc2021"
parameters = { topics = [2] }
"""


def test_the_commands_of_pages_and_help_run_in_order(
    spark: SparkSession, kafka: LocalKafka, run: Run
) -> None:
    create_topics(KafkaSettings(kafka.bootstrap))
    write_inputs(Path())
    Path("sweep.toml").write_text(SWEEP)
    Path("logs").mkdir()
    write_log(Path("city", "site", "log"))
    shape = LogShape(clients=40, topics=6, members=50, messages_per_member=2, in_degrees=True)
    today = Path("logs", "today.parquet")
    write_publication_log(today, shape, seed=2)
    table = pq.read_table(today)
    later = pc.add(table["time"], datetime(2026, 11, 2, tzinfo=UTC).timestamp())
    pq.write_table(table.set_column(table.column_names.index("time"), "time", later), today)
    shown = [*in_pages(), *(line for lines in in_help().values() for line in lines)]
    # test_cluster.py runs the pipeline on a cluster, test_hadoop_paths.py from and to another
    # file system, and tests/site/test_alert_table_bridge.py beside a server, with addresses of
    # their own.
    elsewhere = ("spark://host", "hdfs://namenode", "s3a://bucket", "pipeline bridge")
    lines = [
        line
        for line in with_verb(shown, "pipeline")
        if not any(address in line for address in elsewhere)
    ]
    assert len(lines) >= 5
    for line in lines:
        said = shlex.split(line.replace("127.0.0.1:9092", kafka.bootstrap))
        words = [one for word in said[1:] for one in (glob.glob(word) or [word])]
        if "pipeline run" in line:
            shutil.rmtree("run", ignore_errors=True)
        answer = run(*words)
        assert answer.code == 0, (line, answer.err)
