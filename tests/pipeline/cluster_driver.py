"""A driver on a real cluster: tells what happened there as JSON on stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import nearcast
from nearcast.pipeline.blocks import map_blocks
from nearcast.pipeline.session import SparkSettings, open_session
from nearcast.pipeline.shared_arrays import SharedArrays, share_arrays
from nearcast.pipeline.sweep.cell import SweepCell
from nearcast.pipeline.sweep.run import run_sweep
from nearcast.planning.methods import assignment_kernels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCKS, WIDTH = 6, 1000
USAGE = np.random.default_rng(5).random(BLOCKS * WIDTH)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 200
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def least_used(shared: SharedArrays, block: int) -> int:
    usage = shared.load()["usage"]
    servers = np.arange(block * WIDTH, (block + 1) * WIDTH)
    return int(assignment_kernels._least_used(usage, servers))


def look_around(spark: SparkSession, meeting: Path) -> list[dict[str, Any]]:
    """Run a kernel block by block and tell where each block ran; the first two must meet."""
    with share_arrays(spark, {"usage": USAGE}) as shared:

        def compute(block: int) -> Iterator[pa.RecordBatch]:
            from pyspark import SparkFiles

            if block < 2:
                (meeting / f"met-{block}").touch()
                wait_for(meeting / f"met-{1 - block}")
            least = least_used(shared, block)
            stats = assignment_kernels._least_used.stats
            told = {
                "block": block,
                "least": least,
                "pid": os.getpid(),
                "folder": str(Path(SparkFiles.getRootDirectory()).resolve()),
                "nearcast": str(Path(nearcast.__file__).resolve()),
                "version": version("nearcast"),
                "cache": str(Path(stats.cache_path or "").resolve()),
                "compiled": sum(stats.cache_misses.values()),
            }
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(told)])], ["told"])

        rows = map_blocks(spark, BLOCKS, compute, "told string").toArrow()["told"].to_pylist()
    return [json.loads(row) for row in rows]


def lose_a_worker(spark: SparkSession, meeting: Path) -> list[dict[str, Any]]:
    """Run blocks that wait until the test has killed the worker of the block that it chose."""
    with share_arrays(spark, {"usage": USAGE}) as shared:

        def compute(block: int) -> Iterator[pa.RecordBatch]:
            from pyspark import SparkFiles

            folder = str(Path(SparkFiles.getRootDirectory()).resolve())
            mark = meeting / f"begun-{block}-{os.getpid()}"
            mark.with_suffix(".new").write_text(folder)
            mark.with_suffix(".new").rename(mark)
            wait_for(meeting / "killed")
            told = {"block": block, "least": least_used(shared, block), "folder": folder}
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(told)])], ["told"])

        rows = map_blocks(spark, BLOCKS, compute, "told string").toArrow()["told"].to_pylist()
    return [json.loads(row) for row in rows]


def lose_an_executor(spark: SparkSession, meeting: Path) -> list[dict[str, Any]]:
    """Run two blocks; the first kills the JVM that it runs under, and must run again in a new one.

    The second block keeps the other executor busy until then.
    """
    with share_arrays(spark, {"usage": USAGE}) as shared:

        def compute(block: int) -> Iterator[pa.RecordBatch]:
            from pyspark import SparkFiles

            folder = str(Path(SparkFiles.getRootDirectory()).resolve())
            if block == 1:
                (meeting / "busy").touch()
                wait_for(meeting / "again")
            elif not (meeting / "lost").exists():
                wait_for(meeting / "busy")
                (meeting / "lost").write_text(folder)
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
                time.sleep(60)  # until the daemon ends this process too
            told = {"block": block, "least": least_used(shared, block), "folder": folder}
            (meeting / "again").touch()
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(told)])], ["told"])

        rows = map_blocks(spark, 2, compute, "told string").toArrow()["told"].to_pylist()
    return [json.loads(row) for row in rows]


def sweep(spark: SparkSession, meeting: Path) -> dict[str, Any]:
    cells = [
        SweepCell.of("reloc2021", {"topics": 4, "servers_per_side": 2}, seed=seed, method=method)
        for seed in (1, 2)
        for method in ("nearest", "otos")
    ]
    result = run_sweep(spark, cells, meeting / "sweep")
    failures = [failure.error for failure in result.failures]
    return {"total": result.total, "failures": failures, "results": str(result.results)}


def main(master: str, conf: dict[str, str], meeting: Path) -> None:
    # The signature that the blocks meet: mapped arrays are read-only.
    USAGE.flags.writeable = False
    assignment_kernels._least_used(USAGE, np.arange(10))
    with open_session(SparkSettings(master=master, ui=False, conf=conf)) as spark:
        told = {
            "blocks": look_around(spark, meeting),
            "restarted": lose_an_executor(spark, meeting),
            "sweep": sweep(spark, meeting),
            "after": lose_a_worker(spark, meeting),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]))
