"""The run manifest: one line for each stage that ran, with what went in, out and aside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nearcast.pipeline.memory import PeakMemory
from nearcast.planning.stopping import Stopwatch

__all__ = ["MANIFEST_FILE", "Manifest", "StageRecord"]

MANIFEST_FILE = "manifest.jsonl"


@dataclass(slots=True)
class StageRecord:
    """What a stage did."""

    stage: str
    rows_in: int = 0
    rows_out: int = 0
    quarantined: int = 0
    seconds: float = 0.0
    peak_memory_mb: float | None = None
    """Largest private memory of driver, JVM and local workers together."""
    tables: dict[str, int] = field(default_factory=dict)
    """Tables written and their rows."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What else the stage wants to say: what was capped, chosen, lost."""


class Manifest:
    """The manifest of a run folder; stages append to it as they end."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST_FILE
        self.records: list[StageRecord] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[StageRecord]:
        """Measure a stage; its record is written when the block ends without an error."""
        record, watch = StageRecord(name), Stopwatch()
        with PeakMemory() as memory:
            yield record
        record.seconds = round(watch.seconds(), 3)
        record.peak_memory_mb = None if memory.peak_mb is None else round(memory.peak_mb, 1)
        self.records.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(record)) + "\n")
