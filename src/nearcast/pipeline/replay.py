"""A live processor over the historical log: the notifications that it would have made.

Each topic is a task of its own: its publications in the order in which homes got them, one by one,
through the runner that servers use, with a spool as long as theirs. What a processor raises, or
does not end, is counted with its message and has no effect on the others.

The log has no attributes and areas of publications, and one time for each: when its home got it.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nearcast.broker.notifications import numbered
from nearcast.broker.processing import Outcome, ProcessorRunner
from nearcast.broker.registry import make_processor
from nearcast.broker.requests import Failure
from nearcast.broker.topic_spool import TopicSpool
from nearcast.domain.output_folder import check_output_folder, new_folder
from nearcast.errors import PipelineError
from nearcast.pipeline.progress import described_jobs
from nearcast.pipeline.spark_errors import clear_errors
from nearcast.wire.publication import Origin, Publication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ReplayResult", "ReplaySettings", "replay_log", "replay_topic"]

NOTIFICATIONS, FAILURES = "notifications", "failures"
_ROWS = (
    "topic string, publisher string, epoch long, durable boolean, sequence long, part long,"
    " time double, payload binary, audience string, error string"
)
_LOG = (
    "topic string, client string, time double, x_km double, y_km double, action string,"
    " sequence long, epoch long, durable boolean, payload binary"
)
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("publisher", pa.string()),
        ("epoch", pa.int64()),
        ("durable", pa.bool_()),
        ("sequence", pa.int64()),
        ("part", pa.int64()),
        ("time", pa.float64()),
        ("payload", pa.binary()),
        ("audience", pa.string()),
        ("error", pa.string()),
    ]
)
_HUNG = "took longer than"


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Which processor, made how, and how long a message may take it."""

    processor: str
    options: str = "{}"
    """What it is made with, as a JSON object."""
    spool: int = 100
    """Messages that a topic's spool keeps."""
    timeout_s: float = 1.0
    search: tuple[str, ...] = ()
    """Folders in which Python finds processors of one's own, on all machines."""

    def make(self) -> ProcessorRunner:
        """Return a new processor; ProcessorError when there is none such."""
        sys.path += [one for one in self.search if one not in sys.path]
        options: dict[str, Any] = json.loads(self.options)
        return ProcessorRunner(make_processor(self.processor, options))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How much was replayed, and what came of it."""

    path: str
    """The table of notifications; ``failures`` is beside it."""
    topics: int
    publications: int
    notifications: int
    failed: int
    """Messages at which the processor raised."""
    hung: int
    """Messages at which it did not end in time."""
    bad_rows: int
    """Rows of the log that are not a whole publication, or are there twice."""


def replay_log(spark: SparkSession, log: Path, out: Path, settings: ReplaySettings) -> ReplayResult:
    """Replay the publications of an event log into a folder, the whole of it or nothing.

    Raises
    ------
    NearcastError
        When there is no log or processor, the folder cannot be written, or Spark fails.
    """
    from pyspark.sql import functions as sf

    settings.make()  # complains before Spark works
    files = sorted(str(one.absolute()) for one in (log / "publications").glob("[!._]*.parquet"))
    if not files:
        raise PipelineError(f"{log}: there is no event log with publications")
    check_output_folder(out, False)
    with (
        described_jobs(spark, "replay"),
        clear_errors(f"replaying {log}"),
        new_folder(out, overwrite=False, kind="") as partial,
    ):
        rows = (
            spark.read.schema(_LOG)
            .option("ignoreMissingFiles", "true")
            .parquet(*files)
            .where("action = 'publish'")
            # what came in one pass of a server has one time; its file has the order
            .withColumns(
                {"file": sf.col("_metadata.file_name"), "row": sf.col("_metadata.row_index")}
            )
        )
        is_whole = " and ".join(
            f"{name} is not null"
            for name in ("topic", "client", "time", "epoch", "sequence", "durable", "payload")
        )
        identity = ["topic", "client", "epoch", "durable", "sequence"]
        whole = rows.where(is_whole)
        first = whole.groupBy(*identity).agg(
            sf.min(sf.struct("time", "file", "row", "x_km", "y_km", "payload")).alias("of")
        )
        once = first.select(*identity, "of.*")

        elsewhere = replace(settings, search=tuple(sys.path))

        def replay(topic: pa.Table) -> pa.Table:
            return replay_topic(topic, elsewhere)

        everything = str(partial / "everything")
        once.groupBy("topic").applyInArrow(replay, _ROWS).write.parquet(everything)
        found = spark.read.parquet(everything)
        made = found.where("error is null").drop("error")
        made.write.parquet(str(partial / NOTIFICATIONS))
        failures = found.where("error is not null").drop("part", "payload", "audience")
        failures.write.parquet(str(partial / FAILURES))
        counts = once.agg(sf.count(sf.lit(1)), sf.count_distinct("topic")).first()
        assert counts is not None
        hung = failures.where(sf.col("error").contains(_HUNG)).count()
        result = ReplayResult(
            path=str(out / NOTIFICATIONS),
            topics=counts[1],
            publications=counts[0],
            notifications=spark.read.parquet(str(partial / NOTIFICATIONS)).count(),
            failed=failures.count() - hung,
            hung=hung,
            bad_rows=rows.count() - counts[0],
        )
        shutil.rmtree(everything)
    return result


def replay_topic(rows: pa.Table, settings: ReplaySettings) -> pa.Table:
    """Return what a processor makes of the publications of one topic."""
    spool, runner = TopicSpool(settings.spool), settings.make()
    found: list[Mapping[str, Any]] = []
    for row in _as_taken(rows):
        received_us = round(row["time"] * 1e6)
        message = Publication(
            topic=row["topic"],
            publisher=row["client"],
            epoch=row["epoch"],
            sequence=row["sequence"],
            published_us=received_us,
            received_us=received_us,
            x_km=row["x_km"] or 0.0,
            y_km=row["y_km"] or 0.0,
            payload=row["payload"],
            origin=Origin.DIRECT if row["durable"] else Origin.ONCE,
        )
        spool.append(message)
        try:
            with _limited(settings.timeout_s):
                outcome = runner.run([message], spool.view())
        except _HungError as error:  # it came when the processor had just ended
            outcome = Outcome(failures=[Failure(str(error), message)])
        cause = {
            "topic": message.topic,
            "publisher": message.publisher,
            "epoch": message.epoch,
            "durable": row["durable"],
            "sequence": message.sequence,
            "time": row["time"],
        }
        found += (
            {**cause, "part": part, "payload": one.payload, "audience": repr(one.audience)}
            for one, _, part in numbered(outcome.notifications)
        )
        found += ({**cause, "error": one.detail.splitlines()[0]} for one in outcome.failures[:1])
    return pa.Table.from_pylist(found, _SCHEMA)


def _as_taken(rows: pa.Table) -> list[dict[str, Any]]:
    """Return publications in the order in which a broker takes them.

    That is the order in which they came, but for one that overtook others of its publisher: it
    waits for them.
    """
    places = ("time", "file", "row") if "file" in rows.column_names else ("time",)
    order = ("client", "epoch", "sequence", *places)
    reached: dict[tuple[str, int], tuple[Any, ...]] = {}
    taken: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for row in rows.sort_by([(name, "ascending") for name in order]).to_pylist():
        came = tuple(row[name] for name in places)
        if row["durable"]:
            stream = (row["client"], row["epoch"])
            came = reached[stream] = max(came, reached.get(stream, came))
        taken.append((came, row))
    return [row for _, row in sorted(taken, key=lambda one: one[0])]  # stable: by sequence


class _HungError(Exception):
    """A processor did not end in time."""


@contextmanager
def _limited(timeout_s: float) -> Iterator[None]:
    """Raise in the block when it takes too long, again and again: users' code may catch it."""

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        raise _HungError(f"{_HUNG} {timeout_s:g} s")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, timeout_s, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
