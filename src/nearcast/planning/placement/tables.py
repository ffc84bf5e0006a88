"""The pairs of a placement problem, held explicitly, and the state of a search over them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.delay.placement import PlacementProblem, pair_weight
from nearcast.domain.plan import Objective
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray
from nearcast.errors import PlanningError

__all__ = ["PlacementState", "PlacementTables", "empty_state", "placement_tables"]

_MOST_PAIRS = 10_000_000
_MOST_TABLE_ENTRIES = 40_000_000


class PlacementTables(NamedTuple):
    """What does not change during a search; a publisher here is a (client, topic) that sends."""

    leg_ms: FloatArray
    """[client, server]."""
    between_ms: FloatArray
    """[from, to] between servers."""
    by_leg: IndexArray
    """Servers of a client, nearest first [client, rank]."""
    cloud_ms: float
    """Both ways: 2 d^C."""
    excess_only: bool
    """True for D3: only what exceeds the permissible delay counts."""
    tie_ms: float
    """0, or D3 with ties broken by D1: a ms of excess then counts this many ms of delay."""
    tie_base_ms: float
    """Added to each delay in a tie, so that nothing counts less than 0: the longest beta."""
    spool: FloatArray
    storage: FloatArray
    offset_ms: FloatArray
    """f_n, for D3 minus beta_n [topic]."""
    row: OffsetArray
    """Member row [publisher]; publishers are sorted by topic."""
    topic: IndexArray
    """[publisher]."""
    client: IndexArray
    """[publisher]."""
    topic_start: OffsetArray
    """Topic n has the publishers topic_start[n]:topic_start[n + 1]."""
    pair_start: OffsetArray
    """Publisher p has the pairs pair_start[p]:pair_start[p + 1]."""
    subscriber: IndexArray
    """Client [pair]."""
    publisher: IndexArray
    """[pair]."""
    weight: FloatArray
    """alpha for D2, else 1 [pair]."""
    heard_start: OffsetArray
    heard: OffsetArray
    """Client c receives the pairs heard[heard_start[c]:heard_start[c + 1]]."""


class PlacementState(NamedTuple):
    """A plan under search; where publishers send always is the best for brokers and homes."""

    homes: IndexArray
    is_broker: BoolArray
    """z [topic, server]."""
    brokers: IndexArray
    """The servers of a topic's brokers [topic, 0 .. broker_count - 1], in any order."""
    broker_count: IndexArray
    used: FloatArray
    """Storage [server]."""
    edge_value: FloatArray
    """Cost of a publisher's pairs if it sends to a broker there [publisher, server]."""
    cloud_at: IndexArray
    """Nearest server without a broker of the topic [publisher]; -1: there is none."""
    cloud_value: FloatArray
    """Cost of a publisher's pairs through the cloud from there; infinite if there is none."""
    value: FloatArray
    """The least of these that the brokers permit [publisher]."""


def placement_tables(
    problem: PlacementProblem, objective: Objective, tie_ms: float = 0.0
) -> PlacementTables:
    """Return the tables of a problem; `tie_ms` is of D3 only.

    Raises
    ------
    PlanningError
        When there are too many pairs to hold.
    """
    network, topics = problem.network, problem.topic_count
    row = np.flatnonzero(problem.publishes).astype(np.int64)
    _check_size(problem, len(row))
    blocks = list(problem.pairs())
    left = _joined([left for left, _ in blocks])
    right = _joined([right for _, right in blocks])
    sender, subscriber = problem.member_client[left], problem.member_client[right]
    plain = np.ones(len(left))
    leg_ms = np.ascontiguousarray(network.leg_matrix_ms())
    excess = objective is Objective.D3
    start, heard = _grouped(subscriber, network.client_count)
    return PlacementTables(
        leg_ms=leg_ms,
        between_ms=network.server_server_ms,
        by_leg=np.argsort(leg_ms, axis=1, kind="stable").astype(np.int32),
        cloud_ms=2.0 * network.cloud_ms,
        excess_only=excess,
        tie_ms=tie_ms,
        tie_base_ms=float(problem.permissible_ms.max(initial=0.0)),
        spool=problem.spool,
        storage=problem.storage,
        offset_ms=problem.process_ms - problem.permissible_ms if excess else problem.process_ms,
        row=row,
        topic=problem.member_topic[row],
        client=problem.member_client[row],
        topic_start=np.searchsorted(problem.member_topic[row], np.arange(topics + 1)),
        pair_start=np.searchsorted(left, np.append(row, len(problem.member_topic))),
        subscriber=subscriber,
        publisher=np.searchsorted(row, left).astype(np.int32),
        weight=pair_weight(network, sender, subscriber) if objective is Objective.D2 else plain,
        heard_start=start,
        heard=heard,
    )


def empty_state(tables: PlacementTables, homes: IndexArray, brokers: BoolArray) -> PlacementState:
    """Return a state whose values are still to be computed by ``search_kernels.rebuild``."""
    publishers, servers = len(tables.row), tables.leg_ms.shape[1]
    return PlacementState(
        homes=homes.astype(np.int32),
        is_broker=brokers.copy(),
        brokers=np.zeros(brokers.shape, dtype=np.int32),
        broker_count=np.zeros(len(brokers), dtype=np.int32),
        used=np.zeros(servers),
        edge_value=np.zeros((publishers, servers)),
        cloud_at=np.zeros(publishers, dtype=np.int32),
        cloud_value=np.zeros(publishers),
        value=np.zeros(publishers),
    )


def _check_size(problem: PlacementProblem, publishers: int) -> None:
    """Refuse what would not fit in memory."""
    subscribers = np.bincount(problem.member_topic, problem.subscribes, problem.topic_count)
    sending = np.bincount(problem.member_topic, problem.publishes, problem.topic_count)
    pairs = float(subscribers @ sending)
    if pairs > _MOST_PAIRS:
        raise PlanningError(
            f"the placement model holds every publisher/subscriber pair; {pairs:.3g} are more "
            f"than {_MOST_PAIRS:.0e}: take smaller topics, fewer clients or the model ratio"
        )
    entries = max(publishers, problem.network.client_count) * problem.network.server_count
    if entries > _MOST_TABLE_ENTRIES:
        raise PlanningError(
            f"the placement model holds a table of members by servers; {entries:.3g} entries are "
            f"more than {_MOST_TABLE_ENTRIES:.0e}: take fewer servers or the model ratio"
        )


def _joined(blocks: list[OffsetArray]) -> OffsetArray:
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64)


def _grouped(key: npt.NDArray[np.int32], groups: int) -> tuple[OffsetArray, OffsetArray]:
    """Return (start, positions): group g has the positions[start[g]:start[g + 1]]."""
    start = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(key, minlength=groups), out=start[1:])
    return start, np.argsort(key, kind="stable").astype(np.int64)
