"""The query of traffic: the tables of members and clients, a version after each batch.

A version is made from the one before and the rows of the batch. Spark repeats a batch after a kill:
the version is then made again from the same one before, so that each row counts once.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from nearcast.errors import NearcastError
from nearcast.pipeline.stream.batch_files import BatchFiles
from nearcast.pipeline.stream.drift import DRIFT, weigh_plan
from nearcast.pipeline.stream.sources import read_traffic
from nearcast.pipeline.stream.stream_folder import StreamFolder, disk_errors, replace_file
from nearcast.pipeline.stream.stream_settings import StreamSettings, TrafficSettings
from nearcast.pipeline.stream.traffic_tables import (
    CLIENTS,
    MEMBERS,
    merge_clients,
    merge_members,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TrafficSink", "traffic_frame"]

_KEPT = 3
"""Versions: one may be made anew, and readers may be at an older one."""
_LATEST = "latest"


def traffic_frame(spark: SparkSession, settings: StreamSettings) -> DataFrame:
    """Return the stream of what clients did."""
    assert settings.traffic is not None
    return read_traffic(spark, settings, settings.traffic.repeats_s)


class TrafficSink:
    """Where batches of `traffic_frame` go: a new version of the tables, and a row about the plan.

    Parameters
    ----------
    clock
        In seconds, says when the plan is weighed again.
    """

    def __init__(
        self,
        folder: StreamFolder,
        settings: TrafficSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._settings, self._clock = folder.folder / "traffic", settings, clock
        self._drift = BatchFiles(folder.folder / "drift", DRIFT) if settings.drift else None
        self._weighed_s: float | None = None
        self.counts: Counter[str] = Counter()
        """Since this process began."""
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take a batch, perhaps once more."""
        rows = frame.persist()
        try:
            found = rows.agg(sf.count(sf.lit(1)), sf.max("time_s")).first()
            assert found is not None
            if found[0]:
                self._merge(rows, batch, found[1])
                self.counts["rows"] += found[0]
        finally:
            rows.unpersist()
        self._weigh(frame.sparkSession, batch)

    def _merge(self, rows: DataFrame, batch: int, newest_s: float) -> None:
        spark, settings = rows.sparkSession, self._settings
        before = max((one for one in self._versions() if one < batch), default=None)
        members, clients = spark.createDataFrame([], MEMBERS), spark.createDataFrame([], CLIENTS)
        now_s = newest_s
        if before is not None:
            old = self._folder / f"{before:010d}"
            members = spark.read.schema(MEMBERS).parquet(str(old / "members"))
            clients = spark.read.schema(CLIENTS).parquet(str(old / "clients"))
            now_s = max(now_s, json.loads((old / "now.json").read_text())["now_s"])
        partial = self._folder / f".{batch:010d}"
        with disk_errors(self._folder):
            shutil.rmtree(partial, ignore_errors=True)
            forget_s = settings.forget_s
            merged = merge_members(members, rows, now_s, settings.window_s, forget_s)
            merged.coalesce(1).write.parquet(str(partial / "members"))
            places = merge_clients(clients, rows, now_s, forget_s)
            places.coalesce(1).write.parquet(str(partial / "clients"))
            replace_file(partial / "now.json", json.dumps({"now_s": now_s}).encode())
            whole = self._folder / f"{batch:010d}"
            shutil.rmtree(whole, ignore_errors=True)  # of an earlier try
            partial.rename(whole)
            self._point_to(whole)
            for number in sorted(self._versions())[:-_KEPT]:
                shutil.rmtree(self._folder / f"{number:010d}", ignore_errors=True)

    def _versions(self) -> list[int]:
        return [int(one.name) for one in self._folder.iterdir() if one.name.isdecimal()]

    def _point_to(self, whole: Path) -> None:
        link = self._folder / f".{_LATEST}"
        link.unlink(missing_ok=True)
        link.symlink_to(whole.name)
        link.replace(self._folder / _LATEST)

    def _weigh(self, spark: SparkSession, batch: int) -> None:
        settings = self._settings
        latest = self._folder / _LATEST
        if self._drift is None or settings.drift is None or not latest.exists():
            return
        now_s = self._clock()
        if self._weighed_s is not None and now_s < self._weighed_s + settings.drift.every_s:
            return
        self._weighed_s = now_s
        try:
            row = weigh_plan(spark, latest.resolve(), settings.drift, settings.window_s)
        except NearcastError as error:  # the tables go on, whatever is wrong with the plan
            row = {"reason": str(error), "failed": True, "trigger": False}
        self.counts["weighed"] += 1
        self.counts["triggers"] += row["trigger"] is True
        self._drift.write(batch, [{"batch": batch, **row}])
