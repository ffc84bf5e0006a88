"""Relations: the clients that share the most topics with a client (line 19 of RELOC 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray, Scenario

__all__ = ["RelationKind", "Relations", "no_relations", "relate_clients"]

_MOST_FACTORISED_CLIENTS = 3_000
_MOST_FACTORISED_RANK = 1_000
_KEPT_OF_RANK = 0.8
_ROUND_TO = 9
"""Decimals of a reconstructed score: what differs less is a tie."""
_CLIENTS_PER_BLOCK = 512
_MOST_PAIRS = 200_000_000
"""Pairs (client, member of a topic of it) to look at in all."""


class RelationKind(StrEnum):
    """How a relation is measured."""

    COUNTS = "counts"
    """Number of shared topics, Z itself."""
    FACTORISED = "factorised"
    """Z rebuilt from the larger part of its factors."""


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


def no_relations(client_count: int) -> Relations:
    """Return relations in which nobody is related."""
    return Relations(
        kind=RelationKind.COUNTS,
        start=np.zeros(client_count + 1, dtype=np.int64),
        others=np.empty(0, dtype=np.int32),
        score=np.empty(0, dtype=np.float32),
        partners_per_topic=0,
    )


def relate_clients(scenario: Scenario, most: int, kind: RelationKind | None = None) -> Relations:
    """Return the `most` (M') strongest relations of each client; clients without any have none.

    Without a `kind`, scenarios up to some thousand clients are factorised as in the paper, larger
    ones counted.

    Deviation: Z counts common memberships as in 2021 for the 2020 model too, whose paper counts
    common publications; the same where all members publish.
    """
    clients = len(scenario.clients)
    if kind is None:
        rank = min(clients, len(scenario.topics))
        small = clients <= _MOST_FACTORISED_CLIENTS and rank <= _MOST_FACTORISED_RANK
        kind = RelationKind.FACTORISED if small else RelationKind.COUNTS
    if most < 1 or not len(scenario.members):
        return no_relations(clients)
    return _factorise(scenario, most) if kind is RelationKind.FACTORISED else _count(scenario, most)


def _count(scenario: Scenario, most: int) -> Relations:
    """Return relations by shared topics.

    Deviation: where all pairs would be too many, only the members of a topic with the lowest
    indices are partners. Ties go to the lowest index anyway, so this loses only pairs that
    share several large topics.
    """
    from nearcast.planning.relations_kernels import count_partners

    members, clients, topics = scenario.members, len(scenario.clients), len(scenario.topics)
    topic_start = members.topic_start(topics)
    client_start, rows = members.rows_by_client(clients)
    size = np.diff(topic_start)
    limit = max(_partners_within(size, _MOST_PAIRS), min(most + 1, int(size.max())))
    # At most so many partners: without repeats, and never more than `most`.
    room = np.bincount(members.client, (np.minimum(size, limit))[members.topic], clients)
    capacity = int(np.minimum(room, most).sum())
    start = np.zeros(clients + 1, dtype=np.int64)
    others, score = np.empty(capacity, np.int32), np.empty(capacity, np.float32)
    count_partners(
        client_start,
        members.topic[rows],
        topic_start,
        members.client[np.lexsort((members.client, members.topic))],
        limit,
        most,
        start,
        others,
        score,
    )
    return Relations(RelationKind.COUNTS, start, others[: start[-1]], score[: start[-1]], limit)


def _partners_within(size: OffsetArray, most_pairs: int) -> int:
    """Return how many partners a topic may offer to each member for so many pairs in all."""
    low, high = 1, int(size.max())
    while low < high:
        middle = (low + high + 1) // 2
        fits = int((size * np.minimum(size, middle)).sum()) <= most_pairs
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _factorise(scenario: Scenario, most: int) -> Relations:
    """Return relations by the scores of a truncated singular value decomposition of Z.

    Z = M^T M for the 0/1 membership matrix M = U S V^T, so Z = V S^2 V^T: the factors of Z come
    from M, and the scores are rebuilt block by block, never as a whole Z.
    """
    clients = len(scenario.clients)
    factors = _client_factors(scenario)
    start = np.zeros(clients + 1, dtype=np.int64)
    others, scores = [], []
    for begin in range(0, clients, _CLIENTS_PER_BLOCK):
        end = min(begin + _CLIENTS_PER_BLOCK, clients)
        block = np.round(factors[begin:end] @ factors.T, _ROUND_TO)
        own = np.arange(end - begin)
        block[own, own + begin] = 0.0
        order = np.argsort(-block, axis=1, kind="stable")[:, :most]
        value = np.take_along_axis(block, order, axis=1)
        related = value > 0
        start[begin + 1 : end + 1] = related.sum(axis=1)
        others.append(order[related].astype(np.int32))
        scores.append(value[related].astype(np.float32))
    return Relations(
        kind=RelationKind.FACTORISED,
        start=np.cumsum(start),
        others=np.concatenate(others),
        score=np.concatenate(scores),
        partners_per_topic=int(np.bincount(scenario.members.topic).max()),
    )


def _client_factors(scenario: Scenario) -> FloatArray:
    """Return V S [client, factor] of the membership matrix, the smallest factors left out.

    The eigenvectors of M M^T are U and V S = M^T U, which is quicker than decomposing M itself;
    with fewer clients than topics, V are those of the (then small) M^T M. Factors as strong as the weakest one kept are kept too: the kept space would depend on the
    linear algebra library otherwise.
    """
    members = scenario.members
    membership = np.zeros((len(scenario.topics), len(scenario.clients)))
    membership[members.topic, members.client] = 1.0
    by_topic = len(membership) <= membership.shape[1]
    square, vector = np.linalg.eigh(
        membership @ membership.T if by_topic else membership.T @ membership
    )
    rank = int(np.count_nonzero(square > 1e-9 * square[-1]))
    weakest = square[-max(round(_KEPT_OF_RANK * rank), 1)]
    kept = square > weakest * (1 - 1e-9)
    vector = vector[:, kept]
    factors: FloatArray = membership.T @ vector if by_topic else vector * np.sqrt(square[kept])
    return factors
