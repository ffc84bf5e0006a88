"""Relations of millions of memberships: our stage against a self-join, scipy and one process.

All ways start from the same Parquet file of memberships. The stage and the self-joins end with the
ranked relations in a Parquet table; scipy and `relate_clients`, which are one process each, end
with arrays and are spared the writing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as parquet

from nearcast.domain.generators.server_sites import grid_servers
from nearcast.domain.scenario import Clients, Members, Scenario, ScenarioSettings, Topics
from nearcast.errors import PipelineError
from nearcast.experiments.relations_rivals import join_with_itself, multiply_sparse
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages.relations import RELATIONS_TABLE, RelationSettings, relate
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.relations import RelationKind, relate_clients
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WAYS", "RelationSize", "RelationSpeed", "run", "summary"]

WAYS = ("stage", "memory", "scipy", "tuned self-join", "self-join")
"""Ours on executors, ours in one process, and what one would write else."""


@dataclass(frozen=True, slots=True)
class RelationSize:
    """How much to relate."""

    memberships: int = 2_000_000
    topics: int = 200_000
    clients: int = 300_000
    most: int = 100
    """Relations to keep of each client."""


@dataclass(frozen=True, slots=True)
class RelationSpeed:
    """One run of one way."""

    way: str
    attempt: int
    """Attempt 0 is cold: workers start, code is compiled or loaded."""
    seconds: float
    memberships: int
    related_pairs: int
    same_result: bool
    """Whether pairs, order and scores are those of the first way."""


class _Ranked(NamedTuple):
    """Relations as rows, sorted by client and rank."""

    client: npt.NDArray[Any]
    other: npt.NDArray[Any]
    score: npt.NDArray[Any]


def run(
    spark: SparkSession,
    folder: Path,
    size: RelationSize | None = None,
    *,
    ways: Sequence[str] = WAYS,
    attempts: int = 2,
    seed: int = 1,
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[RelationSpeed]:
    """Measure each way on random memberships, in a session that is up already.

    Raises
    ------
    PipelineError
        When there is no such way.
    """
    size = size or RelationSize()
    if unknown := [way for way in ways if way not in WAYS]:
        raise PipelineError(f"no way {unknown[0]!r} to relate; there are: {', '.join(WAYS)}")
    source = folder / "memberships.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    _draw_memberships(source, size, np.random.default_rng(seed))
    workspace = Workspace(spark, folder)
    first: _Ranked | None = None
    for attempt in range(attempts):  # in turns: a busy spell of the machine meets all ways
        for way in ways:
            begin(f"{way}, attempt {attempt + 1}")
            os.sync()  # no way waits for what the one before left to be written
            watch = Stopwatch()
            result = _relate(way, workspace, source, size)
            seconds = watch.seconds()
            ranked = result()
            first = first or ranked
            yield RelationSpeed(
                way=way,
                attempt=attempt,
                seconds=seconds,
                memberships=size.memberships,
                related_pairs=len(ranked.client),
                same_result=all(map(np.array_equal, ranked, first)),
            )


def summary(points: Sequence[RelationSpeed]) -> list[dict[str, Any]]:
    """Return a row a way: the first attempt, the best of the later ones, and that over ours."""
    rows: list[dict[str, Any]] = []
    for way in dict.fromkeys(point.way for point in points):
        mine = [point for point in points if point.way == way]
        rows.append(
            {
                "way": way,
                "cold_seconds": mine[0].seconds,
                "seconds": min(point.seconds for point in mine[1:] or mine),
                "same_result": all(point.same_result for point in mine),
            }
        )
    ours = next((row["seconds"] for row in rows if row["way"] == "stage"), None)
    return [row | {"times_ours": ours and row["seconds"] / ours} for row in rows]


def _draw_memberships(file: Path, size: RelationSize, rng: np.random.Generator) -> None:
    """Write that many different pairs (topic, client), drawn evenly, sorted by topic."""
    if size.memberships > size.topics * size.clients // 2:
        raise PipelineError("there are too few topics and clients for so many memberships")
    key = np.empty(0, dtype=np.int64)
    while (missing := size.memberships - len(key)) > 0:
        more = rng.integers(0, size.topics * size.clients, missing)
        key = np.unique(np.concatenate([key, more]))
    columns = {"topic": key // size.clients, "client": key % size.clients}
    table = pa.table({name: column.astype(np.int32) for name, column in columns.items()})
    parquet.write_table(table, file)


def _relate(
    way: str, workspace: Workspace, source: Path, size: RelationSize
) -> Callable[[], _Ranked]:
    """Relate by one way; return what fetches the result for comparison."""
    if way.endswith("self-join"):
        frame = join_with_itself(
            workspace.spark.read.parquet(str(source)),
            size.most,
            one_shuffle=way.startswith("tuned"),
        )
        workspace.save("self_join", frame)
        return lambda: _read(workspace.path("self_join"))
    if way == "scipy":
        rows = parquet.read_table(source)
        topic, client = (np.asarray(rows.column(name)) for name in ("topic", "client"))
        found = multiply_sparse(topic, client, size.topics, size.clients, size.most)
        return lambda: _Ranked(*found)
    scenario = _scenario(source, size)
    if way == "memory":
        related = relate_clients(scenario, size.most, RelationKind.COUNTS)
        clients = np.arange(size.clients, dtype=np.int32)
        return lambda: _Ranked(
            np.repeat(clients, np.diff(related.start)), related.others, related.score
        )
    settings = RelationSettings(size.most, RelationKind.COUNTS)
    relate(workspace, scenario, settings, StageRecord("relations"))
    return lambda: _read(workspace.path(RELATIONS_TABLE))


def _scenario(source: Path, size: RelationSize) -> Scenario:
    """Return a scenario with these memberships; where its clients are does not matter here."""
    rows = parquet.read_table(source)
    each = np.ones(len(rows), dtype=np.bool_)
    return Scenario(
        settings=ScenarioSettings("memberships", 1.0, 1.0),
        servers=grid_servers(1, 1.0, 1.0, 1.0, 1.0),
        clients=Clients(
            pa.array(np.arange(size.clients)), np.zeros(size.clients), np.zeros(size.clients)
        ),
        topics=Topics(
            pa.array(np.arange(size.topics)),
            np.ones(size.topics),
            np.full(size.topics, np.inf),
            np.zeros(size.topics),
        ),
        members=Members(
            topic=np.asarray(rows.column("topic")),
            client=np.asarray(rows.column("client")),
            publishes=each,
            subscribes=each,
            rate_hz=np.ones(len(rows)),
        ),
    )


def _read(table: Path) -> _Ranked:
    rows = parquet.read_table(table)
    client, rank = np.asarray(rows.column("client_index")), np.asarray(rows.column("rank"))
    order = np.argsort(client.astype(np.int64) * (1 << 20) + rank)
    return _Ranked(
        client[order],
        np.asarray(rows.column("other_index"))[order],
        np.asarray(rows.column("score"))[order],
    )
