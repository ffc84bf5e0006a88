"""A scenario of three clients as files, to be changed by tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

SMALL = {
    "scenario.json": '{"name": "small", "width_km": 10, "height_km": 8, "note": [1, "two"]}',
    "servers.csv": "server_id,x_km,y_km,storage\ns1,1,1,10\ns2,9,7,\n",
    "clients.csv": "client_id,x_km,y_km\n1,0,0\n2,3,4\n3,9.5,7\n",
    "topics.csv": "topic_id,spool\nt1,8\nt2,6\n",
    "members.csv": "topic_id,client_id,publishes,subscribes\nt2,3,1,0\nt1,1,1,1\nt1,2,0,1\nt2,1,1,1\n",
}


def put(folder: Path, changes: dict[str, str | bytes | None] | None = None) -> Path:
    """Write the small scenario with some files replaced, or left out with None."""
    folder.mkdir(exist_ok=True)
    for name, content in {**SMALL, **(changes or {})}.items():
        if content is not None:
            raw = content if isinstance(content, bytes) else content.encode()
            (folder / name).write_bytes(raw)
    return folder


def put_parquet(folder: Path, table: str, columns: dict[str, Any]) -> Path:
    put(folder, {f"{table}.csv": None})
    pa_parquet.write_table(pa.table(columns), folder / f"{table}.parquet")
    return folder
