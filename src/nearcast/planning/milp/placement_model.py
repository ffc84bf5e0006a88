"""The placement model as a mixed-integer program: one flow per publisher/subscriber pair.

Brokers z and homes y are binary. Where publishers send, x, may be continuous: with z and y
fixed an integral x is best. The flow of a pair runs from where its publisher sends (or from
the cloud) to its subscriber's home, and an arc costs what the pair counts in the objective::

    sum_b flow[k, a, b] = x[p, a]      sum_a flow[k, a, b] = y[c, b]      x[p, a] <= z[n, a]

A flow aggregated over publishers is smaller, but lets a home be split for free: its relaxation
is twice as far from the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import BoolArray, FloatArray
from nearcast.planning.milp.highs import LinearModel
from nearcast.planning.placement.tables import PlacementTables

__all__ = ["Choices", "PlacementModel", "arc_count", "build_model"]

_MOST_COVERS = 400
"""Covers of one server's storage that are written down; the solver finds others itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """What is still open; false where a better plan than the best known cannot have it."""

    broker: BoolArray
    """[topic, server]."""
    home: BoolArray
    """[client, server]."""
    send: BoolArray
    """[publisher, server]: to a broker there."""
    cloud: BoolArray
    """[publisher, server]: to the cloud through there."""
    must: BoolArray
    """[topic, server]: a broker is there."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementModel:
    """The program and where its columns are; -1 where a choice has none."""

    linear: LinearModel
    broker: npt.NDArray[np.int64]
    home: npt.NDArray[np.int64]
    send: npt.NDArray[np.int64]
    cloud: npt.NDArray[np.int64]
    arcs: list[npt.NDArray[np.int64]]
    """Flow columns of a pair [open sends, then open cloud roads; open homes]; empty: none."""

    def choice_columns(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Return the columns of brokers, homes, sends and cloud roads: the first of all."""
        return self.broker, self.home, self.send, self.cloud


class _Program:
    """Collects columns and rows, block by block."""

    def __init__(self) -> None:
        self.columns = self.rows = 0
        self.cost: list[FloatArray] = []
        self.bounds: list[tuple[FloatArray, FloatArray]] = []
        self.entries: list[tuple[FloatArray, FloatArray, FloatArray]] = []

    def add_columns(self, mask: BoolArray, cost: FloatArray | float = 0.0) -> npt.NDArray[np.int64]:
        """Return the columns made for the true entries of a mask; -1 elsewhere."""
        index = np.full(mask.shape, -1, dtype=np.int64)
        count = int(np.count_nonzero(mask))
        index[mask] = np.arange(self.columns, self.columns + count)
        self.cost.append(np.broadcast_to(cost, mask.shape)[mask].astype(np.float64))
        self.columns += count
        return index

    def add_rows(self, count: int, lower: FloatArray | float, upper: FloatArray | float) -> int:
        """Return the first of `count` new rows."""
        first = self.rows
        self.bounds.append(
            (np.broadcast_to(lower, count) + 0.0, np.broadcast_to(upper, count) + 0.0)
        )
        self.rows += count
        return first

    def put(self, row: npt.ArrayLike, column: npt.ArrayLike, value: npt.ArrayLike) -> None:
        """Write entries; those of column -1 are left out."""
        row, column, value = np.broadcast_arrays(row, column, value)
        there = column >= 0
        self.entries.append((row[there], column[there], value[there]))

    def finish(self, integer_columns: int, ones: npt.NDArray[np.int64]) -> LinearModel:
        """Return the program; the first `integer_columns` are binary, `ones` fixed to 1."""
        row, column, value = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        order = np.argsort(row, kind="stable")
        integer = np.arange(self.columns) < integer_columns
        lower = np.zeros(self.columns)
        lower[ones] = 1.0
        return LinearModel(
            cost=np.concatenate(self.cost),
            lower=lower,
            upper=np.where(integer, 1.0, np.inf),
            integer=integer,
            row_lower=np.concatenate([low for low, _ in self.bounds]),
            row_upper=np.concatenate([high for _, high in self.bounds]),
            row_start=np.searchsorted(row[order], np.arange(self.rows + 1)).astype(np.int32),
            column=column[order].astype(np.int32),
            value=value[order].astype(np.float64),
        )


def arc_count(tables: PlacementTables, choices: Choices) -> int:
    """Return how many flow columns a model would have."""
    out = choices.send.sum(axis=1) + choices.cloud.sum(axis=1)
    into = choices.home.sum(axis=1)
    return int(out[tables.publisher].astype(np.int64) @ into[tables.subscriber])


def build_model(tables: PlacementTables, choices: Choices) -> PlacementModel:
    """Return the program over the choices still open."""
    program = _Program()
    broker = program.add_columns(choices.broker)
    home = program.add_columns(choices.home)
    integer_columns = program.columns
    send = program.add_columns(choices.send)
    cloud = program.add_columns(choices.cloud)
    publishers, servers = send.shape
    _add_storage(program, tables, broker)
    first = program.add_rows(len(home), 1.0, 1.0)
    program.put(first + np.arange(len(home))[:, None], home, 1.0)
    first = program.add_rows(publishers, 1.0, 1.0)
    one_way = first + np.arange(publishers)[:, None]
    program.put(one_way, send, 1.0)
    program.put(one_way, cloud, 1.0)
    every = np.arange(publishers * servers).reshape(publishers, servers)
    at_broker = program.add_rows(every.size, -np.inf, 0.0) + every
    program.put(at_broker, send, 1.0)
    program.put(at_broker, np.where(send >= 0, broker[tables.topic], -1), -1.0)
    if np.any(choices.cloud.sum(axis=1) > 1):
        # Where a road between servers is longer than the cloud's, a broker would forbid it.
        no_broker = program.add_rows(every.size, -np.inf, 1.0) + every
        program.put(no_broker, cloud, 1.0)
        program.put(no_broker, np.where(cloud >= 0, broker[tables.topic], -1), 1.0)
    arcs = _add_flows(program, tables, choices, (send, cloud, home))
    linear = program.finish(integer_columns, broker[choices.must])
    return PlacementModel(linear, broker, home, send, cloud, arcs)


def _add_flows(
    program: _Program,
    tables: PlacementTables,
    choices: Choices,
    columns: tuple[npt.NDArray[np.int64], ...],
) -> list[npt.NDArray[np.int64]]:
    """Add the flow of every pair that can cost anything; return the columns of each."""
    send, cloud, home = columns
    all_arcs = []
    for k in range(len(tables.weight)):
        p, c = int(tables.publisher[k]), int(tables.subscriber[k])
        at, to = np.flatnonzero(choices.send[p]), np.flatnonzero(choices.home[c])
        up = np.flatnonzero(choices.cloud[p])
        leg = tables.leg_ms[tables.client[p]] + tables.offset_ms[tables.topic[p]]
        last = tables.leg_ms[c, to]
        cost_ms = np.concatenate(
            [
                leg[at, None] + tables.between_ms[np.ix_(at, to)] + last,
                (leg[up, None] + tables.cloud_ms) + last,
            ]
        )
        if tables.tie_ms:
            cost_ms += tables.tie_ms * np.maximum(cost_ms, 0.0) + tables.tie_base_ms
        elif tables.excess_only:
            cost_ms = np.maximum(cost_ms, 0.0)
        arc_cost = tables.weight[k] * cost_ms
        arcs = program.add_columns(np.full(arc_cost.shape, arc_cost.any()), arc_cost)
        all_arcs.append(arcs)
        if not arc_cost.any():
            continue
        first = program.add_rows(sum(arc_cost.shape), 0.0, 0.0)
        leaving = first + np.arange(len(arcs))
        arriving = first + len(arcs) + np.arange(len(to))
        program.put(leaving[:, None], arcs, 1.0)
        program.put(leaving, np.concatenate([send[p, at], cloud[p, up]]), -1.0)
        program.put(arriving[None, :], arcs, 1.0)
        program.put(arriving, home[c, to], -1.0)
    return all_arcs


def _add_storage(program: _Program, tables: PlacementTables, broker: npt.NDArray[np.int64]) -> None:
    """Add the storage limits, and the covers that follow from them for integral brokers."""
    servers = broker.shape[1]
    first = program.add_rows(servers, -np.inf, tables.storage * (1 + 1e-9) + 1e-9)
    program.put(first + np.arange(servers), broker, tables.spool[:, None])
    for server in range(servers):
        open_topics = np.flatnonzero(broker[:, server] >= 0)
        for topics, most in _covers(tables.spool[open_topics], tables.storage[server]):
            row = program.add_rows(1, -np.inf, float(most))
            program.put(row, broker[open_topics[list(topics)], server], 1.0)


def _covers(spool: FloatArray, storage: float) -> list[tuple[tuple[int, ...], int]]:
    """Return (topics, most of them that fit together): extended minimal covers."""
    covers: dict[tuple[int, ...], int] = {}
    limit = storage * (1 + 1e-9) + 1e-9
    for size in range(2, 5):
        for chosen in combinations(range(len(spool)), size):
            spools = spool[list(chosen)]
            if spools.sum() <= limit or spools.sum() - spools.min() > limit:
                continue
            larger = np.flatnonzero(spool >= spools.max()).tolist()
            covers[tuple(sorted(set(chosen) | set(larger)))] = size - 1
            if len(covers) >= _MOST_COVERS:
                return list(covers.items())
    return list(covers.items())
