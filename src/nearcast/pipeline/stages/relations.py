"""Stage 3, relations: who is most related to whom, block of clients by block of clients.

Pairs never leave the worker that counts them, only each client's strongest do: joining the
memberships with themselves would shuffle every pair.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearcast.domain.scenario import OffsetArray, Scenario
from nearcast.errors import ConfigError
from nearcast.pipeline.blocks import block_count
from nearcast.pipeline.driver_objects import note_object
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.shared_arrays import share_arrays
from nearcast.pipeline.stages.block_tables import save_blocks
from nearcast.pipeline.stages.relations_als import als_factors
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.relation_blocks import RankedBlock
from nearcast.planning.relations import (
    DEFAULT_RANK,
    RelationKind,
    Relations,
    RelationWork,
    no_relations,
    prepare_relations,
    prepare_scores,
)

__all__ = [
    "RELATIONS_SCHEMA",
    "RELATIONS_TABLE",
    "RelationSettings",
    "RelationsTable",
    "relate",
    "related_before",
]

RELATIONS_TABLE = "relations"
RELATIONS_SCHEMA = pa.schema(
    [
        ("client_index", pa.int32()),
        ("rank", pa.int32()),
        ("other_index", pa.int32()),
        ("score", pa.float32()),
    ]
)
"""One row a related pair: rank 1 is the strongest relation of the client, ties by other_index;
score is the number of shared topics, or the product of the clients' factors."""
_SMALLEST_EFFORT = 500_000
"""Comparisons that are worth a task."""
_CLIENTS_AT_ONCE = 8_192
"""Of a task, which bounds its memory; it is quicker in small pieces, too."""


@dataclass(frozen=True, slots=True)
class RelationSettings:
    """What to relate, and how."""

    most: int = 100
    """Relations to keep of each client, M' in the papers."""
    kind: RelationKind | None = None
    """None: as `planning.relations.relate_clients` chooses."""
    rank: int = DEFAULT_RANK
    """Factors of kind als, and of large factorised scenarios."""
    iterations: int = 5
    """Rounds of kind als."""
    seed: int = 0
    """Of the start of kind als."""

    def __post_init__(self) -> None:
        for name in ("most", "rank", "iterations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"relations: {name} must be at least 1")


@dataclass(frozen=True, slots=True)
class RelationsTable:
    """The table that `relate` wrote; not every method of planning reads it."""

    workspace: Workspace
    clients: int
    kind: RelationKind
    partners_per_topic: int

    @contextmanager
    def mapped(self) -> Iterator[Relations]:
        """Give the relations in the order of strength, mapped from a file beside the table.

        In memory there are a piece of the table and a number a client: a hundred relations of
        ten million clients would take 12 GB. The scores stay in the table; RELOC needs none.
        """
        count = np.zeros(self.clients, dtype=np.int64)
        rows = self.workspace.count(RELATIONS_TABLE)
        file = self.workspace.path(f"_{RELATIONS_TABLE}.{uuid.uuid4().hex[:12]}.npy")
        others = np.lib.format.open_memmap(file, "w+", np.int32, (rows,))
        try:
            end = 0
            columns = ["client_index", "other_index"]
            for batch in self.workspace.batches(RELATIONS_TABLE, columns):
                client, other = (column.to_numpy() for column in batch.columns)
                begin, end = end, end + len(batch)
                others[begin:end] = other
                np.add.at(count, *np.unique(client, return_counts=True))
            start = np.concatenate([[0], np.cumsum(count)])
            note_object("relations of clients", start.nbytes)
            none = np.empty(0, dtype=np.float32)
            yield Relations(self.kind, start, others, none, self.partners_per_topic)
        finally:
            file.unlink()


def relate(
    workspace: Workspace, scenario: Scenario, settings: RelationSettings, record: StageRecord
) -> RelationsTable:
    """Write the strongest relations of each client; see RELATIONS_SCHEMA."""
    spark, clients = workspace.spark, len(scenario.clients)
    record.rows_in = len(scenario.members)
    if not len(scenario.members):
        return _save_nothing(workspace, clients, record)
    work = _prepare(workspace, scenario, settings)
    record.notes |= _notes(work, settings)
    ends = _block_ends(workspace, work)
    with share_arrays(spark, work.arrays) as shared:
        rank = work.rank  # not the work itself: its arrays would travel with each task
        rank(work.arrays, 0, 0)  # compiles once for all workers of this host

        def rows_of(block: int) -> Iterator[pa.RecordBatch]:
            arrays, last = shared.load(), ends[block + 1]
            for begin in range(ends[block], last, _CLIENTS_AT_ONCE):
                end = min(begin + _CLIENTS_AT_ONCE, last)
                yield _rows(rank(arrays, begin, end), begin, end)

        record.rows_out = save_blocks(
            workspace, RELATIONS_TABLE, RELATIONS_SCHEMA, len(ends) - 1, rows_of
        )
    record.tables[RELATIONS_TABLE] = record.rows_out
    return RelationsTable(workspace, clients, work.kind, work.partners_per_topic)


def related_before(workspace: Workspace, clients: int, record: StageRecord) -> RelationsTable:
    """Return the table that an earlier `relate` with this record wrote."""
    kind, partners = RelationKind(record.notes["kind"]), record.notes["partners_per_topic"]
    return RelationsTable(workspace, clients, kind, partners)


def _block_ends(workspace: Workspace, work: RelationWork) -> list[int]:
    """Return the first client of each block, and then the number of clients."""
    clients = len(work.effort)
    if work.clients_per_block is not None:
        return [*range(0, clients, work.clients_per_block), clients]
    count = block_count(workspace.spark, int(work.effort.sum()), _SMALLEST_EFFORT)
    return cut_evenly(work.effort, count)


def cut_evenly(effort: OffsetArray, count: int) -> list[int]:
    """Return where to cut the clients into at most `count` blocks of about the same effort."""
    upto = np.concatenate([[0], np.cumsum(effort)])
    cuts = np.searchsorted(upto, upto[-1] * np.arange(1, count) / count)
    return [int(end) for end in np.unique(np.concatenate([[0], cuts, [len(effort)]]))]


def _prepare(workspace: Workspace, scenario: Scenario, settings: RelationSettings) -> RelationWork:
    most, rank, room = settings.most, settings.rank, workspace.mapped
    if settings.kind is not RelationKind.ALS:
        return prepare_relations(scenario, most, settings.kind, rank, room)
    factors = als_factors(workspace, scenario, rank, settings.iterations, settings.seed)
    return prepare_scores(scenario, most, RelationKind.ALS, factors, room)


def _rows(ranked: RankedBlock, begin: int, end: int) -> pa.RecordBatch:
    """Return the rows of RELATIONS_SCHEMA for clients begin:end."""
    count = np.diff(ranked.start)
    client = np.repeat(np.arange(begin, end, dtype=np.int32), count)
    rank = np.arange(1, len(client) + 1, dtype=np.int32)
    rank -= np.repeat(ranked.start[:-1].astype(np.int32), count)
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in (client, rank, ranked.others, ranked.score)],
        schema=RELATIONS_SCHEMA,
    )


def _save_nothing(workspace: Workspace, clients: int, record: StageRecord) -> RelationsTable:
    save_blocks(workspace, RELATIONS_TABLE, RELATIONS_SCHEMA, 1, lambda _block: ())
    record.tables[RELATIONS_TABLE] = 0
    nothing = no_relations(clients)
    record.notes |= {
        "kind": nothing.kind.value,
        "partners_per_topic": nothing.partners_per_topic,
    }
    return RelationsTable(workspace, clients, nothing.kind, nothing.partners_per_topic)


def _notes(work: RelationWork, settings: RelationSettings) -> dict[str, object]:
    """Return what was chosen and what is lost by it."""
    notes: dict[str, object] = {
        "kind": work.kind.value,
        "most": settings.most,
        "partners_per_topic": work.partners_per_topic,
        "topics_cut": work.topics_cut,
        "pairs_cut": work.pairs_cut,
    }
    if work.pairs_cut:
        notes["lost"] = (
            f"{work.topics_cut} topics offer only their first {work.partners_per_topic} members "
            "as partners: pairs of later members count only where they share a smaller topic"
        )
    factors = work.arrays.get("factors")
    if factors is not None:
        notes["factors"] = factors.shape[1]
        if "client_start" in work.arrays:
            notes["lost_by_factors"] = (
                "all but the strongest factors, and relations of clients that share no topic"
            )
    return notes
