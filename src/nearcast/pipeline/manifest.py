"""The run manifest: one line for each stage that ran, with what went in, out and aside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nearcast.pipeline.driver_objects import watch_objects
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
    began: str = ""
    """ISO date, in UTC."""
    seconds: float = 0.0
    peak_memory_mb: float | None = None
    """Largest private memory of driver, JVM and local workers together."""
    largest_object: str = ""
    """The largest table or array in the driver's memory, and its size."""
    largest_object_mb: float = 0.0
    tables: dict[str, int] = field(default_factory=dict)
    """Tables written and their rows."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What else the stage wants to say: what was capped, chosen, lost."""


class Manifest:
    """The manifest of a run folder; stages append to it as they end."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST_FILE
        self.records: list[StageRecord] = []

    def take_up(self, stages: Sequence[str]) -> None:
        """Keep the records of the first of these stages, as far as the folder has them."""
        self.records = []
        for record, name in zip(_read(self.path), stages, strict=False):
            if record.stage != name:
                break
            self.records.append(record)
        if not self.records:
            self.path.unlink(missing_ok=True)
            return
        partial = self.path.with_suffix(".new")
        partial.write_text("".join(map(_line, self.records)))
        partial.replace(self.path)

    def find(self, stage: str) -> StageRecord | None:
        """Return the record of a stage that is finished."""
        return next((record for record in self.records if record.stage == stage), None)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageRecord]:
        """Measure a stage; its record is written when the block ends without an error."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        record, watch = StageRecord(name, began=now), Stopwatch()
        with PeakMemory() as memory, watch_objects() as largest:
            yield record
        record.largest_object = largest.name
        record.largest_object_mb = round(largest.size_bytes / 2**20, 3)
        record.seconds = round(watch.seconds(), 3)
        record.peak_memory_mb = None if memory.peak_mb is None else round(memory.peak_mb, 1)
        self.records.append(record)
        with self.path.open("a") as file:
            file.write(_line(record))


def _line(record: StageRecord) -> str:
    return json.dumps(asdict(record)) + "\n"


def _read(path: Path) -> list[StageRecord]:
    """Return the records up to the first line that a crash left torn."""
    records: list[StageRecord] = []
    if not path.exists():
        return records
    for line in path.read_text().splitlines():
        try:
            records.append(StageRecord(**json.loads(line)))
        except (ValueError, TypeError):
            break
    return records
