"""How the pipeline grows: from a raw log to a plan, in stages, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearcast.errors import PipelineError
from nearcast.pipeline.raw_logs import LogShape, write_publication_log

__all__ = ["SIZES", "StagePoint", "run", "summary"]

SIZES = {10_000: 6, 100_000: 18, 1_000_000: 32}
"""Clients: servers per side. There are as many topics as clients, ten members each."""
_MEMBERS_PER_TOPIC = 10
_SEARCH_S_AT_A_MILLION = 60.0


@dataclass(frozen=True, slots=True)
class StagePoint:
    """One stage of one run."""

    clients: int
    memberships: int
    stage: str
    seconds: float
    peak_memory_mb: float | None
    """Private memory of driver, JVM and workers together."""
    rows_in: int
    rows_out: int
    cost_ms: float
    """Of the plan that the run ended with."""


def run(
    sizes: Sequence[int],
    *,
    seed: int = 1,
    method: str = "optimised",
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[StagePoint]:
    """Measure `nearcast pipeline run` at each size.

    Raises
    ------
    PipelineError
        When a run fails; the message has its last line.
    """
    for clients in sizes:
        with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as folder:
            begin(f"{clients:,} clients: drawing the log")
            log = Path(folder, "log.parquet")
            shape = LogShape(clients, clients, clients * _MEMBERS_PER_TOPIC)
            write_publication_log(log, shape, seed)
            begin(f"{clients:,} clients: {shape.members:,} rows to a plan")
            found = _pipeline(log, Path(folder, "run"), SIZES[clients], seed, method, clients)
        for stage in found["stages"]:
            yield StagePoint(
                clients=clients,
                memberships=shape.members,
                stage=stage["stage"],
                seconds=stage["seconds"],
                peak_memory_mb=stage["peak_memory_mb"],
                rows_in=stage["rows_in"],
                rows_out=stage["rows_out"],
                cost_ms=found["plan"]["cost"],
            )


def _pipeline(
    log: Path, out: Path, side: int, seed: int, method: str, clients: int
) -> dict[str, Any]:
    limit_s = max(_SEARCH_S_AT_A_MILLION * clients / 1_000_000, 1.0)
    start = "from nearcast.cli.main import main; main()"
    command = [sys.executable, "-c", start, "pipeline", "run", str(log), "--out", str(out)]
    command += ["--servers-per-side", str(side), "--seed", str(seed), "--method", method, "--json"]
    command += ["--time-limit", str(limit_s), "--bound-limit", str(limit_s)]
    command += ["--regions", str(max(side * side // 4, 1))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PipelineError(f"the pipeline at {clients:,} clients failed: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def summary(points: Sequence[StagePoint]) -> list[dict[str, Any]]:
    """Return a row for each size: seconds by stage, in all, and the growth from the size before."""
    rows: list[dict[str, Any]] = []
    for clients in dict.fromkeys(point.clients for point in points):
        mine = [point for point in points if point.clients == clients]
        total_s = sum(point.seconds for point in mine)
        before = rows[-1]["seconds"] if rows else None
        rows.append(
            {
                "clients": clients,
                "memberships": mine[0].memberships,
                **{f"{point.stage}, s": point.seconds for point in mine},
                "seconds": total_s,
                "growth": total_s / before if before else None,
                "peak memory, MB": max(point.peak_memory_mb or 0.0 for point in mine),
                "Y, ms": mine[0].cost_ms,
            }
        )
    return rows
