"""How the pipeline grows: from a raw log to a plan, in stages, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearcast.errors import PipelineError
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.planning.stopping import Stopwatch

__all__ = ["EVEN_SIZES", "SKEWED", "LogCase", "StagePoint", "even_case", "run", "summary"]

EVEN_SIZES = {10_000: 6, 100_000: 18, 1_000_000: 32}
"""Clients: servers per side. There are as many topics as clients, ten members each."""
_MEMBERS_PER_TOPIC = 10
_SEARCH_S_AT_A_MILLION = 60.0


@dataclass(frozen=True, slots=True)
class LogCase:
    """A log to plan, and how."""

    name: str
    shape: LogShape
    file: str
    """Whose ending is the format."""
    servers_per_side: int
    limit_s: float
    """Of the search, and once more of the bound."""


SKEWED = LogCase(
    "skewed",
    LogShape(clients=30_000, topics=1_000, members=300_000, dirty=0.005, largest_topic=3_000),
    "log.jsonl",
    servers_per_side=4,
    limit_s=10.0,
)
"""Topics of up to 3,000 members, and one row in 200 that cannot be used."""


def even_case(clients: int) -> LogCase:
    """Return a clean log of one of the `EVEN_SIZES`, with topics of ten members."""
    return LogCase(
        "even",
        LogShape(clients, clients, clients * _MEMBERS_PER_TOPIC),
        "log.parquet",
        EVEN_SIZES[clients],
        max(_SEARCH_S_AT_A_MILLION * clients / 1_000_000, 1.0),
    )


@dataclass(frozen=True, slots=True)
class StagePoint:
    """One stage of one run; `start and end` is what the process took besides."""

    log: str
    clients: int
    memberships: int
    stage: str
    seconds: float
    peak_memory_mb: float | None
    """Private memory of driver, JVM and workers together."""
    largest_object: str
    """The largest table or array in the driver's memory."""
    largest_object_mb: float
    rows_in: int
    rows_out: int
    quarantined: int
    cost_ms: float
    """Of the plan that the run ended with."""
    bound_ms: float


def run(
    cases: Sequence[LogCase],
    *,
    seed: int = 1,
    method: str = "optimised",
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[StagePoint]:
    """Measure `nearcast pipeline run` on each log.

    Raises
    ------
    PipelineError
        When a run fails, with its last line, or puts other rows aside than it should.
    """
    for case in cases:
        shape, name = case.shape, f"{case.name}, {case.shape.clients:,} clients"
        with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as folder:
            begin(f"{name}: drawing the log")
            dirty = write_publication_log(Path(folder, case.file), shape, seed)
            begin(f"{name}: {shape.members:,} rows to a plan")
            watch = Stopwatch()
            found = _pipeline(case, Path(folder), seed, method)
            whole_s = watch.seconds()
        aside = found["stages"][0]["quarantined"]
        if aside != dirty:
            raise PipelineError(f"{name}: {aside} rows were put aside, not {dirty}")
        rest = StageRecord("start and end")
        rest.seconds = whole_s - sum(stage["seconds"] for stage in found["stages"])
        for stage in (*found["stages"], asdict(rest)):
            yield StagePoint(
                log=case.name,
                clients=shape.clients,
                memberships=shape.members,
                stage=stage["stage"],
                seconds=stage["seconds"],
                peak_memory_mb=stage["peak_memory_mb"],
                largest_object=stage["largest_object"],
                largest_object_mb=stage["largest_object_mb"],
                rows_in=stage["rows_in"],
                rows_out=stage["rows_out"],
                quarantined=stage["quarantined"],
                cost_ms=found["plan"]["cost"],
                bound_ms=found["plan"]["bound"],
            )


def _pipeline(case: LogCase, folder: Path, seed: int, method: str) -> dict[str, Any]:
    side, limit_s = case.servers_per_side, str(case.limit_s)
    start = "from nearcast.cli.main import main; main()"
    command = [sys.executable, "-c", start, "pipeline", "run", str(folder / case.file)]
    command += ["--out", str(folder / "run")]
    command += ["--servers-per-side", str(side), "--seed", str(seed), "--method", method, "--json"]
    command += ["--time-limit", limit_s, "--bound-limit", limit_s]
    command += ["--regions", str(max(side * side // 4, 1))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PipelineError(f"the pipeline on the {case.name} log failed: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def summary(points: Sequence[StagePoint]) -> list[dict[str, Any]]:
    """Return a row for each log: seconds by stage, in all, and the growth from the size before."""
    rows: list[dict[str, Any]] = []
    for log, clients in dict.fromkeys((point.log, point.clients) for point in points):
        mine = [point for point in points if (point.log, point.clients) == (log, clients)]
        total_s = sum(point.seconds for point in mine)
        largest = max(mine, key=lambda point: point.largest_object_mb)
        before = rows[-1]["seconds"] if rows and rows[-1]["log"] == log else None
        rows.append(
            {
                "log": log,
                "clients": clients,
                "memberships": mine[0].memberships,
                **{f"{point.stage}, s": point.seconds for point in mine},
                "seconds": total_s,
                "growth": total_s / before if before else None,
                "peak memory, MB": max(point.peak_memory_mb or 0.0 for point in mine),
                "driver object, MB": largest.largest_object_mb,
                "driver object": f"{largest.largest_object} ({largest.stage})",
                "Y, ms": mine[0].cost_ms,
                "bound, ms": mine[0].bound_ms,
            }
        )
    return rows
