"""Relations: the clients that share the most topics with a client (line 19 of RELOC 2021)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
import numpy.typing as npt

from nearcast.domain.grouping import Room, group_pieces
from nearcast.domain.scenario import FloatArray, IndexArray, Members, OffsetArray, Scenario
from nearcast.errors import PlanningError
from nearcast.planning.relation_blocks import (
    Arrays,
    RankedBlock,
    count_block,
    rebuild_block,
    score_block,
)
from nearcast.planning.relation_factors import dense_factors, strongest_factors

__all__ = [
    "DEFAULT_RANK",
    "RelationKind",
    "RelationWork",
    "Relations",
    "choose_kind",
    "no_relations",
    "prepare_relations",
    "prepare_scores",
    "relate_clients",
]

DEFAULT_RANK = 32
"""Factors of a scenario that is too large for all of them."""
_MOST_FACTORISED_CLIENTS = 3_000
_MOST_FACTORISED_RANK = 1_000
_CLIENTS_PER_BLOCK = 512
_MOST_PAIRS = 200_000_000
"""Pairs (client, member of a topic of it) to look at in all."""


class RelationKind(StrEnum):
    """How a relation is measured."""

    COUNTS = "counts"
    """Number of shared topics, Z itself."""
    FACTORISED = "factorised"
    """Z rebuilt from the larger part of its factors."""
    ALS = "als"
    """Product of implicit factors by alternating least squares; in the pipeline only."""


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """The most related others of each client, strongest first, ties by index."""

    kind: RelationKind
    start: OffsetArray
    """Client c has the entries start[c]:start[c + 1]."""
    others: IndexArray
    score: npt.NDArray[np.float32]
    partners_per_topic: int
    """A topic's members with the lowest indices that were looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class RelationWork:
    """Relations ready to be computed, block of clients by block of clients."""

    kind: RelationKind
    arrays: Arrays
    """What any block reads."""
    rank: Callable[[Arrays, int, int], RankedBlock]
    """Gives the relations of clients begin:end from the arrays."""
    effort: OffsetArray
    """Others that a client is compared with, repeats and itself included."""
    partners_per_topic: int
    clients_per_block: int | None = None
    """Only blocks of this size give the same to the last digit; None: any blocks do."""
    topics_cut: int = 0
    """Topics that have more members than are looked at."""
    pairs_cut: int = 0
    """Pairs (client, other member of a topic of it) that are not looked at."""

    def join(self, blocks: Iterable[RankedBlock]) -> Relations:
        """Return the relations of all clients from those of all blocks, in order."""
        whole, *more = blocks
        if more:
            count = np.concatenate([np.diff(block.start) for block in (whole, *more)])
            whole = RankedBlock(
                start=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
                others=np.concatenate([whole.others, *(block.others for block in more)]),
                score=np.concatenate([whole.score, *(block.score for block in more)]),
            )
        return Relations(self.kind, *whole, self.partners_per_topic)


def no_relations(client_count: int) -> Relations:
    """Return relations in which nobody is related."""
    return Relations(
        kind=RelationKind.COUNTS,
        start=np.zeros(client_count + 1, dtype=np.int64),
        others=np.empty(0, dtype=np.int32),
        score=np.empty(0, dtype=np.float32),
        partners_per_topic=0,
    )


def relate_clients(
    scenario: Scenario, most: int, kind: RelationKind | None = None, rank: int = DEFAULT_RANK
) -> Relations:
    """Return the `most` (M') strongest relations of each client; clients without any have none.

    Without a `kind`, scenarios up to some thousand clients are factorised as in the paper, larger
    ones counted. A larger one that is to be factorised keeps `rank` factors only.

    Deviation: Z counts common memberships as in 2021 for the 2020 model too, whose paper counts
    common publications; the same where all members publish.
    """
    clients = len(scenario.clients)
    if most < 1 or not len(scenario.members):
        return no_relations(clients)
    work = prepare_relations(scenario, most, kind, rank)
    step = work.clients_per_block or clients
    return work.join(
        work.rank(work.arrays, begin, min(begin + step, clients))
        for begin in range(0, clients, step)
    )


def choose_kind(scenario: Scenario) -> RelationKind:
    """Return the kind of a scenario for which none is given."""
    return RelationKind.FACTORISED if _is_small(scenario) else RelationKind.COUNTS


def prepare_relations(
    scenario: Scenario,
    most: int,
    kind: RelationKind | None = None,
    rank: int = DEFAULT_RANK,
    room: Room = np.empty,
) -> RelationWork:
    """Return the work of `relate_clients`; there must be members.

    `room` gives arrays that are as long as the members.

    Raises
    ------
    PlanningError
        For relations by alternating least squares, whose factors only the pipeline has.
    """
    kind = kind or choose_kind(scenario)
    if kind is RelationKind.ALS:
        raise PlanningError("relations of kind als need Spark; run `nearcast pipeline relations`")
    if kind is RelationKind.COUNTS:
        return _prepare(scenario, most, kind, {}, count_block, room)
    if not _is_small(scenario):
        return prepare_scores(scenario, most, kind, strongest_factors(scenario, rank), room)
    clients = len(scenario.clients)
    return RelationWork(
        kind=kind,
        arrays={"factors": dense_factors(scenario)},
        rank=partial(rebuild_block, most=most),
        effort=np.full(clients, clients, dtype=np.int64),
        # Products of another shape may differ in the last digits.
        clients_per_block=_CLIENTS_PER_BLOCK,
        partners_per_topic=int(np.bincount(scenario.members.topic).max()),
    )


def prepare_scores(
    scenario: Scenario,
    most: int,
    kind: RelationKind,
    factors: FloatArray,
    room: Room = np.empty,
) -> RelationWork:
    """Return the work of scoring by client factors.

    Deviation: only clients that share a topic are compared, all pairs would be too many.
    """
    return _prepare(scenario, most, kind, {"factors": factors}, score_block, room)


def _is_small(scenario: Scenario) -> bool:
    clients = len(scenario.clients)
    rank = min(clients, len(scenario.topics))
    return clients <= _MOST_FACTORISED_CLIENTS and rank <= _MOST_FACTORISED_RANK


def _prepare(
    scenario: Scenario,
    most: int,
    kind: RelationKind,
    arrays: Arrays,
    rank: Callable[..., RankedBlock],
    room: Room,
) -> RelationWork:
    """Return the work of ranking those who share topics.

    Deviation: where all pairs would be too many, only the members of a topic with the lowest
    indices are partners. Ties go to the lowest index anyway, so this loses only pairs that
    share several large topics.
    """
    members, clients, topics = scenario.members, len(scenario.clients), len(scenario.topics)
    topic_start = members.topic_start(topics)
    size = np.diff(topic_start)
    limit = max(_partners_within(size, _MOST_PAIRS), min(most + 1, int(size.max())))
    cut = size[size > limit]
    client_topic = room(len(members), np.int32)
    client_start = group_pieces(
        lambda: ((members.client[rows], members.topic[rows]) for rows in members.pieces()),
        clients,
        client_topic,
    )
    reach = np.zeros(clients, dtype=np.int64)
    for rows in members.pieces():
        compared = np.minimum(size, limit)[members.topic[rows]]
        np.add.at(reach, members.client[rows], compared)
    return RelationWork(
        kind=kind,
        arrays={
            "client_start": client_start,
            "client_topic": client_topic,
            "topic_start": topic_start,
            "topic_client": _ascending(members, room),
            "reach": reach,
            **arrays,
        },
        rank=partial(rank, most=most, limit=limit),
        effort=reach,
        partners_per_topic=limit,
        topics_cut=len(cut),
        pairs_cut=int(((cut - limit) * (cut - 1)).sum()),
    )


def _ascending(members: Members, room: Room) -> IndexArray:
    """Return the clients of each topic in ascending order; they are so where a stage sorted them."""
    if all(_is_ascending(members.rows(rows)) for rows in members.pieces()):
        return members.client
    client = room(len(members), np.int32)
    for rows in members.pieces():
        mine = members.rows(rows)
        client[rows] = mine.client[np.lexsort((mine.client, mine.topic))]
    return client


def _is_ascending(members: Members) -> bool:
    topic, client = members.topic, members.client
    return bool(((topic[1:] != topic[:-1]) | (client[1:] > client[:-1])).all())


def _partners_within(size: OffsetArray, most_pairs: int) -> int:
    """Return how many partners a topic may offer to each member for so many pairs in all."""
    low, high = 1, int(size.max())
    while low < high:
        middle = (low + high + 1) // 2
        fits = int((size * np.minimum(size, middle)).sum()) <= most_pairs
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
