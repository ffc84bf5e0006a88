"""The segments of one table of an event log: whole files only, old ones removed.

A segment is written to a name with a dot before it, which Spark and the pipeline pass over, and
renamed when it is on the disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TABLES", "SegmentFiles"]

TABLES = ("publications", "notifications")
"""The tables of an event log: folders of segments."""

_STAMP = "%Y%m%dT%H%M%S%fZ"


class SegmentFiles:
    """One server's files ``<server>-<start, UTC>-<number>.parquet`` in a folder.

    Other servers may write to the same folder; their files are left alone. What a crash left
    half written is removed here, when the server starts again.

    Parameters
    ----------
    keep_segments
        The newest that stay; None: all.
    keep_hours
        How long a segment stays after its start; None: for ever.
    """

    def __init__(
        self,
        folder: Path,
        server: str,
        keep_segments: int | None = None,
        keep_hours: float | None = None,
    ) -> None:
        if not re.fullmatch(r"[^\W_][\w.-]*", server):
            raise ConfigError(
                f"server {server!r}: with an event log, an id has letters, digits and _ . - only, "
                "a letter or digit first, since files are named after it"
            )
        self._folder, self._server = folder, server
        self._keep_segments, self._keep_hours = keep_segments, keep_hours
        self._own_name = re.compile(rf"{re.escape(server)}-(\d{{8}}T\d{{12}}Z)-(\d+)\.parquet")
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if self._own_name.fullmatch(path.name.removeprefix(".")) and path.name[0] == ".":
                path.unlink()

    def write(self, table: pa.Table, started_s: float, number: int) -> None:
        """Write a segment whole or not at all.

        Raises
        ------
        OSError
            When the disk refuses; the same segment may be tried again.
        """
        import pyarrow.parquet as parquet

        started = datetime.fromtimestamp(started_s, UTC).strftime(_STAMP)
        whole = self._folder / f"{self._server}-{started}-{number:06}.parquet"
        partial = whole.with_name(f".{whole.name}")
        try:
            with partial.open("wb") as file:
                parquet.write_table(table, file)
                file.flush()
                # Else a power cut might leave the name and not the data.
                os.fsync(file.fileno())
            partial.rename(whole)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

    def remove_old(self, now_s: float) -> None:
        """Remove the segments beyond the limits; OSError when the disk refuses."""
        if self._keep_segments is None and self._keep_hours is None:
            return
        kept = sorted(self._starts(), reverse=True)
        for place, (started_s, _, path) in enumerate(kept):
            is_beyond = self._keep_segments is not None and place >= self._keep_segments
            age_hours = (now_s - started_s) / 3600
            if is_beyond or (self._keep_hours is not None and age_hours > self._keep_hours):
                path.unlink(missing_ok=True)

    def _starts(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.iterdir():
            if match := self._own_name.fullmatch(path.name):
                started = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                yield started.timestamp(), int(match[2]), path
