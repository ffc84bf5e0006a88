"""What the driver holds: noted by size, and with room for many ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from nearcast.domain import texts
from nearcast.domain.texts import shortened
from nearcast.pipeline.driver_objects import note_object, watch_objects
from nearcast.pipeline.manifest import Manifest
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.driver_tables import long_texts, sorted_rows
from nearcast.pipeline.stages.relations import RELATIONS_SCHEMA, RELATIONS_TABLE, RelationsTable
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.relations import RelationKind

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_the_largest_object_of_a_stage_is_in_the_manifest(
    workspace: Workspace, spark: SparkSession, tmp_path: Path
) -> None:
    workspace.folder.mkdir()
    with Manifest(workspace.folder).stage("one") as record:
        workspace.save_rows("small", pa.table({"a": np.zeros(10)}))
        workspace.read("small")
        with share_arrays(spark, {"big": np.zeros(1 << 17)}):
            pass
        mapped = np.lib.format.open_memmap(tmp_path / "map.npy", "w+", np.int64, (1 << 20,))
        with share_arrays(spark, {"on disk": mapped}):
            pass
    assert (record.largest_object, record.largest_object_mb) == ("big", 1.0)


def test_stages_do_not_see_what_others_note() -> None:
    note_object("nobody asked", 5)
    with watch_objects() as outer:
        note_object("a", 2)
        with watch_objects() as inner:
            note_object("b", 9)
        note_object("c", 1)
    assert (outer.name, outer.size_bytes) == ("a", 2)
    assert (inner.name, inner.size_bytes) == ("b", 9)


def test_ids_of_any_length_stay_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [pa.table({"id": ["b", "\u00e9"], "row": [3, 1]}), pa.table({"id": ["a"], "row": [2]})]
    table = sorted_rows(long_texts(pa.concat_tables(parts)), "row")
    ids = table.column("id").chunk(0)
    assert ids.to_pylist() == ["\u00e9", "a", "b"]
    assert shortened(ids).type == pa.string()
    monkeypatch.setattr(texts, "MOST_SHORT_BYTES", 3)
    assert shortened(ids).type == pa.large_string()


def test_relations_are_mapped_part_by_part_and_the_file_is_removed(workspace: Workspace) -> None:
    rng = np.random.default_rng(1)
    count = rng.integers(0, 4, 40)
    client = np.repeat(np.arange(40, dtype=np.int32), count)
    other = rng.integers(0, 40, len(client)).astype(np.int32)
    folder = workspace.path(RELATIONS_TABLE)
    folder.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(client)), 3)):
        columns = [client[rows], np.ones(len(rows), np.int32), other[rows], np.ones(len(rows), "f")]
        table = pa.table([pa.array(column) for column in columns], schema=RELATIONS_SCHEMA)
        parquet.write_table(table, folder / f"part-{number:06d}.parquet")
    with RelationsTable(workspace, 40, RelationKind.COUNTS, 0).mapped() as found:
        for one in range(40):
            mine = found.others[found.start[one] : found.start[one + 1]]
            np.testing.assert_array_equal(mine, other[client == one])
        assert isinstance(found.others, np.memmap)
    assert [path.name for path in workspace.folder.iterdir()] == [RELATIONS_TABLE]
