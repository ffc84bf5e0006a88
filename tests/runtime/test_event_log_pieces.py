from __future__ import annotations

from math import inf
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from nearcast.runtime.event_log_files import Retention, SegmentFiles
from nearcast.runtime.event_log_segments import SegmentWriter
from nearcast.runtime.event_log_tables import read_publications
from runtime.test_event_log import publication, renamed


def test_the_core_is_given_up_between_small_pieces_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that waits for it behind 12,000 rows would notify nobody meanwhile."""
    given_up = 0

    def give_up() -> None:
        nonlocal given_up
        given_up += 1

    monkeypatch.setattr("nearcast.runtime.helper_scheduling.os.sched_yield", give_up)
    files = {"publications": SegmentFiles(tmp_path / "publications", "e1")}
    writer = SegmentWriter(files, Retention((), inf, inf), 1_000_000, lambda: 1_700_000_000.0)
    rows = [publication(number) for number in range(12_000)]
    assert writer.take("publications", rows) == 0
    assert given_up >= 12_000 / 500
    while_writing = given_up
    writer.end()
    assert writer.write().rows == 12_000
    assert given_up >= while_writing + 2
    (file,) = (tmp_path / "publications").glob("*.parquet")
    groups = parquet.ParquetFile(file).metadata
    assert max(groups.row_group(at).num_rows for at in range(groups.num_row_groups)) <= 5_000
    read = read_publications(tmp_path)
    assert read.slice(0, 3).to_pylist() == [renamed(row) for row in rows[:3]]
    assert read.slice(11_999).to_pylist() == [renamed(rows[-1])]
    assert read["sequence"].to_pylist() == list(range(12_000))
