"""The quarantine: rows that are put aside, each with its file, its text and the reason."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from nearcast.pipeline.workspace import Workspace

__all__ = ["QUARANTINE_SCHEMA", "put_aside"]

QUARANTINE_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("file", pa.string()),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
    ]
)
"""`bytes` are there where they are not UTF-8, of which `text` can show a part only."""
_TABLE = "quarantine"


def put_aside(workspace: Workspace, frames: Sequence[DataFrame], stage: str) -> int:
    """Add rows of `publications`, which a later stage cannot use, and return how many.

    What the stage added before is replaced. Their text are their cells, as JSON.
    """
    for file in workspace.files(_TABLE):
        if file.name.startswith(f"part-of-{stage}-"):
            file.unlink()
    if not frames:
        return 0
    rows = reduce(DataFrame.unionByName, frames)
    cells = [column for column in rows.columns if column not in ("row", "file", "reason")]
    text = sf.to_json(sf.struct(*cells)).alias("text")
    none = sf.lit(None).cast("binary").alias("bytes")
    added = f"_{_TABLE}.{stage}"
    count = workspace.save(added, rows.select("row", "file", "reason", text, none))
    for file in workspace.files(added):
        file.rename(workspace.path(_TABLE) / f"part-of-{stage}-{file.name}")
    shutil.rmtree(workspace.path(added))
    return count
