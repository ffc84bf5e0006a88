from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.imports.follows import FollowsParams, import_follows
from nearcast.errors import ScenarioError
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages.ingest_follows import ingest_follows, members_from_follows
from nearcast.pipeline.workspace import Workspace


def edge_list() -> str:
    """Return edges with repeats, self-loops, comments, and all kinds of separators."""
    rng = np.random.default_rng(2)
    lines = ["\ufeff# follower followee", ""]
    for a, b in rng.integers(0, 40, (700, 2)) ** 2:
        lines.append(f"{a}{rng.choice(list(chr(9) + ' ,;'))}{b}{rng.choice(['', ' 7', chr(13)])}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "parameters",
    [
        FollowsParams(),
        FollowsParams(5, 15, topics=6, sample=True, max_topics_per_client=None),
    ],
)
def test_the_scenario_is_that_of_the_import(
    workspace: Workspace, tmp_path: Path, parameters: FollowsParams
) -> None:
    path = tmp_path / "user_sns.txt.gz"
    path.write_bytes(gzip.compress(edge_list().encode()))
    record = StageRecord("ingest")
    ingest_follows(workspace, path, record)
    assert (record.rows_in, record.rows_out, record.quarantined) == (700, 700, 0)
    found = members_from_follows(workspace, parameters, 3, StageRecord("members"), str(path))
    wanted = import_follows(path, parameters, 3)
    assert found.settings == wanted.settings
    assert found.clients.ids.equals(wanted.clients.ids)
    assert found.topics.ids.equals(wanted.topics.ids)
    for table, columns in (
        ("clients", ("x_km", "y_km")),
        ("topics", ("spool",)),
        ("members", ("topic", "client")),
        ("servers", ("x_km", "y_km", "storage", "compute")),
    ):
        for column in columns:
            np.testing.assert_array_equal(
                getattr(getattr(found, table), column), getattr(getattr(wanted, table), column)
            )


def test_lines_that_are_no_edges_are_put_aside(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_bytes(b"1 2\nalone\n2 \xff\n  \n#x\n3,4,5\n")
    record = StageRecord("ingest")
    ingest_follows(workspace, path, record)
    assert (record.rows_in, record.rows_out, record.quarantined) == (4, 2, 2)
    assert record.notes["reasons"] == {"not UTF-8": 1, "one column, not follower and followee": 1}
    edges = workspace.load("edges").toArrow().sort_by("row").to_pylist()
    assert [(row["follower"], row["followee"]) for row in edges] == [("1", "2"), ("3", "4")]
    with pytest.raises(ScenarioError, match="they have 2 to 2, itself and its followees"):
        members_from_follows(workspace, FollowsParams(), 1, StageRecord("members"))


def test_a_list_without_edges_is_named(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("# only a comment\n")
    with pytest.raises(ScenarioError, match=r"edges.txt: holds no edges"):
        ingest_follows(workspace, tmp_path / "edges.txt", StageRecord("ingest"))
    (tmp_path / "edges.txt").write_text("1 1\n")
    ingest_follows(workspace, tmp_path / "edges.txt", StageRecord("ingest"))
    with pytest.raises(ScenarioError, match="every edge goes from a client to itself"):
        members_from_follows(workspace, FollowsParams(), 1, StageRecord("members"))
    with pytest.raises(ScenarioError, match="no such file"):
        ingest_follows(workspace, tmp_path / "gone.txt", StageRecord("ingest"))
