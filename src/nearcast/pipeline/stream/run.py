"""A stream from its settings: checks, queries with their checkpoints, progress, the end."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from nearcast.domain.plan_in_force import read_plan_in_force
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import PipelineError
from nearcast.links.kafka_client import check_topics
from nearcast.pipeline.spark_errors import clear_errors, reason_of
from nearcast.pipeline.stream.progress_lines import REFUSED, progress_line, refused_rows
from nearcast.pipeline.stream.stream_folder import StreamFolder
from nearcast.pipeline.stream.stream_settings import StreamSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["check_stream", "run_stream"]

_LOOK_S = 0.2
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_BY_RENAME = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Hadoop's other way to rename a local file starts `readlink` eight times for each."""
Sink = Callable[["DataFrame", int], None]


def check_stream(settings: StreamSettings) -> None:
    """Complain about what can be known before Spark starts.

    Raises
    ------
    NearcastError
        When Kafka does not answer or lacks a topic, or log, scenario or plan cannot be read.
    """
    if settings.log is not None and not (settings.log / "publications").is_dir():
        raise PipelineError(f"{settings.log}: there is no event log with publications")
    if settings.traffic is not None and (drift := settings.traffic.drift) is not None:
        read_plan_in_force(drift.plan, read_scenario(drift.scenario))
    if settings.kafka is None:
        return
    kinds: list[str] = []
    if settings.alerts is not None:
        kinds.append("alerts")
        kinds += ["events"] if settings.log is None else []
    if settings.traffic is not None and settings.log is None:
        kinds += ["publications", "events", "reports", "notifications"]
    if kinds:
        check_topics(settings.kafka, tuple(map(settings.kafka.topic, dict.fromkeys(kinds))))


def run_stream(
    spark: SparkSession,
    settings: StreamSettings,
    stop: Callable[[], bool],
    tell: Callable[[str], None],
) -> dict[str, dict[str, int]]:
    """Run the queries of a stream until told to stop, or until all is read with `once`.

    Parameters
    ----------
    tell
        Gets a line after each batch.

    Returns
    -------
    dict
        By query: what was counted since this process began.

    Raises
    ------
    NearcastError
        When the folder is another stream's, or a query fails.
    """
    folder = StreamFolder(settings.out)
    # it writes the trace of what a sink raises; the reason comes back as one sentence
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    with folder.opened(settings.identity()):
        # settings of its own: those of the caller's session stay as they are
        session = spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(settings.partitions))
        session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        if session.conf.get(_FILE_MANAGER, None) is None:
            session.conf.set(_FILE_MANAGER, _BY_RENAME)
        # each keeps what is remembered of all topics
        session.conf.set("spark.sql.streaming.minBatchesToRetain", "10")
        running: list[tuple[StreamingQuery, Counter[str]]] = []
        try:
            with clear_errors("the stream does not start"):
                if settings.alerts is not None:
                    from nearcast.pipeline.stream.alerts_query import AlertSink, alerts_frame

                    sink = AlertSink(folder, settings.kafka)
                    frame = alerts_frame(session, settings)
                    running.append(
                        (_start(settings, folder, "alerts", frame, sink, 0), sink.counts)
                    )
                if settings.traffic is not None:
                    from nearcast.pipeline.stream.traffic_query import TrafficSink, traffic_frame

                    session.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
                    tables = TrafficSink(folder, settings.traffic)
                    frame = traffic_frame(session, settings)
                    every_s = settings.traffic.every_s
                    query = _start(settings, folder, "traffic", frame, tables, every_s)
                    running.append((query, tables.counts))
            _watch(running, stop, tell)
        finally:
            for query, _ in running:
                if query.isActive:
                    query.stop()
    return {query.name.removeprefix("nearcast-"): dict(counts) for query, counts in running}


def _start(
    settings: StreamSettings,
    folder: StreamFolder,
    name: str,
    frame: DataFrame,
    sink: Sink,
    every_s: float,
) -> StreamingQuery:
    writer = (
        frame.writeStream.queryName(f"nearcast-{name}")
        .outputMode("append")
        .option("checkpointLocation", str(folder.checkpoint(name).absolute()))
        .foreachBatch(sink)
    )
    if settings.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(every_s * 1e3)} milliseconds")
    return writer.start()


def _watch(
    running: list[tuple[StreamingQuery, Counter[str]]],
    stop: Callable[[], bool],
    tell: Callable[[str], None],
) -> None:
    """Tell of batches until all queries have ended, or it is time to stop."""
    told = [("", -1)] * len(running)
    """Of each query: the time of the last progress that was looked at, the last batch told."""
    while True:
        is_last = stop() or not any(query.isActive for query, _ in running)
        for number, (query, counts) in enumerate(running):
            last, (looked, batch) = query.lastProgress, told[number]
            if last is not None and last["timestamp"] != looked:
                for progress in query.recentProgress:
                    if progress["batchId"] > batch and progress["numInputRows"]:
                        batch = progress["batchId"]
                        if refused := refused_rows(progress):
                            counts[REFUSED] += refused
                        tell(progress_line(progress, counts))
                told[number] = last["timestamp"], batch
            if not query.isActive and (error := query.exception()) is not None:
                raise PipelineError(f"stream {query.name}: {reason_of(str(error))}")
        if is_last:
            return
        time.sleep(_LOOK_S)
