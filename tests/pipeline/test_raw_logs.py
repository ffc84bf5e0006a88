from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

from nearcast.errors import ConfigError
from nearcast.pipeline.raw_logs import LogShape, write_publication_log

SHAPE = LogShape(clients=2000, topics=150, members=1510, messages_per_member=2)


def test_a_log_has_the_members_asked_for_and_they_are_neighbours(tmp_path: Path) -> None:
    write_publication_log(tmp_path / "log.parquet", SHAPE, 1)
    rows = pa_parquet.read_table(tmp_path / "log.parquet").to_pandas()
    assert len(rows) == 3020
    assert len(rows[["topic", "client"]].drop_duplicates()) == 1510
    sizes = rows.groupby("topic").client.nunique()
    assert (len(sizes), sizes.min(), sizes.max()) == (150, 10, 11)
    assert rows.time.is_monotonic_increasing
    spread_km = rows.groupby("topic").x_km.std().median()
    assert spread_km < rows.x_km.std() / 4


def test_the_same_seed_gives_the_same_rows_in_every_format(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet", "c.csv"):
        write_publication_log(tmp_path / name, SHAPE, 7)
    first, second = (pa_parquet.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet"))
    assert first.equals(second)
    text = pa_csv.read_csv(tmp_path / "c.csv")
    assert text.column("client").to_pylist() == first.column("client").to_pylist()
    np.testing.assert_allclose(text.column("x_km").to_numpy(), first.column("x_km").to_numpy())


def test_shapes_that_make_no_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a topic needs a member"):
        LogShape(clients=3, topics=2, members=7)
    with pytest.raises(ConfigError, match=r"dirty rows must be in \[0, 1\)"):
        LogShape(clients=3, topics=2, members=4, dirty=1)
    with pytest.raises(ConfigError, match="positive"):
        LogShape(clients=0, topics=2, members=4)
    with pytest.raises(ConfigError, match=r"ends in \.parquet"):
        write_publication_log(tmp_path / "log.txt", SHAPE, 1)
