"""What Spark says of a query after each batch, as a line: rows, speed, lag, state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["REFUSED", "progress_line", "refused_rows"]

REFUSED = "refused"
"""Records that cannot be read."""


def refused_rows(progress: Mapping[str, Any]) -> int:
    """Return how many records of a batch could not be read, as far as the query observes it."""
    observed = progress.get("observedMetrics") or {}
    return sum(one[REFUSED] for one in observed.values())


def progress_line(progress: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return a line about a batch.

    Parameters
    ----------
    progress
        Of `StreamingQuery.lastProgress`.
    counts
        Further numbers, since the process began.
    """
    states = progress.get("stateOperators") or ()
    rows = progress.get("numInputRows") or 0
    speed = progress.get("processedRowsPerSecond") or 0.0
    duration_ms = (progress.get("durationMs") or {}).get("triggerExecution", 0)
    parts = [
        f"{rows:,} rows in {duration_ms:,} ms ({speed:,.0f}/s)",
        f"lag {_lag(progress)}",
        f"state {sum(one['numRowsTotal'] for one in states):,} rows "
        f"{sum(one['memoryUsedBytes'] for one in states) / 1e6:,.1f} MB",
    ]
    late = sum(one.get("numRowsDroppedByWatermark", 0) for one in states)
    if late:
        parts.append(f"{late:,} late")
    parts += [f"{name} {count:,}" for name, count in sorted(counts.items()) if count]
    return f"{progress.get('name')}, batch {progress.get('batchId')}: {', '.join(parts)}"


def _lag(progress: Mapping[str, Any]) -> str:
    """Return how much is there and not read, as far as the source says it."""
    behind, files = 0, 0
    for source in progress.get("sources") or ():
        metrics = source.get("metrics") or {}
        behind += int(metrics.get("maxOffsetsBehindLatest") or 0)
        files += int(metrics.get("numFilesOutstanding") or 0)
    return f"{files:,} files" if files else f"{behind:,} rows"
