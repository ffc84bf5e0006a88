"""Raw logs drawn by a seed, of any size: what benchmarks and tests of the pipeline read."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray
from nearcast.errors import ConfigError
from nearcast.geo.projection import LocalProjection

__all__ = ["LogShape", "write_publication_log"]

_CLIENTS_PER_KM2 = 1.0
_CANDIDATES_PER_MEMBER = 4
"""Members of a topic are drawn from so many neighbours each."""
_JITTER_KM = 0.02
_ROWS_AT_ONCE = 1_000_000
_CENTRE = LocalProjection(48.14, 11.58)
_FAULTS = ("client", "time", "position", "size", "action")


@dataclass(frozen=True, slots=True)
class LogShape:
    """What a log holds."""

    clients: int
    topics: int
    members: int
    """Pairs of a client and a topic; a topic has members / topics of them."""
    messages_per_member: int = 1
    span_s: float = 3600.0
    in_degrees: bool = False
    dirty: float = 0.0
    """Share of rows that cannot be used."""
    largest_topic: int | None = None
    """Members of the largest topic; the others' sizes fall by a power law. None: all alike."""

    def __post_init__(self) -> None:
        if min(self.clients, self.topics, self.messages_per_member) < 1 or not self.span_s > 0:
            raise ConfigError("clients, topics, messages and the time span must be positive")
        if not self.topics <= self.members <= self.topics * self.clients:
            raise ConfigError("a topic needs a member, and has a client once only")
        if not 0 <= self.dirty < 1:
            raise ConfigError(f"the share of dirty rows must be in [0, 1), not {self.dirty}")
        if self.largest_topic is not None and not (
            self.members / self.topics <= self.largest_topic <= self.clients
            and self.largest_topic + self.topics - 1 <= self.members
        ):
            raise ConfigError(
                f"no sizes of {self.topics} topics fit a largest one of {self.largest_topic}"
            )


def write_publication_log(path: Path, shape: LogShape, seed: int) -> int:
    """Write a log in the order of time and return how many of its rows are dirty.

    The ending of the path is the format: .parquet, .csv or .jsonl, the last two also with .gz.
    Clients are spread over a square, one per square kilometre, and a topic's members are
    neighbours. The same shape and seed give the same rows.
    """
    rng = np.random.default_rng(seed)
    side_km = float(np.sqrt(shape.clients / _CLIENTS_PER_KM2))
    place_km = _along_a_curve(rng.uniform(0, side_km, (shape.clients, 2)), side_km)
    topic, client = _draw_members(rng, shape)
    rows = shape.members * shape.messages_per_member
    order = rng.permutation(rows) % shape.members
    path.parent.mkdir(parents=True, exist_ok=True)
    dirty = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal dirty
        for start in range(0, rows, _ROWS_AT_ONCE):
            member = order[start : start + _ROWS_AT_ONCE]
            moment = (start + np.arange(len(member)) + rng.random(len(member))) / rows
            own_km = place_km[client[member]] + rng.normal(0, _JITTER_KM, (len(member), 2))
            x, y = own_km.T
            if shape.in_degrees:
                x, y = _CENTRE.to_degrees(x, y)
            columns = {
                "topic": _names("t", topic[member]),
                "client": _names("c", client[member]),
                "time": moment * shape.span_s,
                "latitude" if shape.in_degrees else "x_km": x,
                "longitude" if shape.in_degrees else "y_km": y,
                "size": rng.integers(1, 9, len(member)),
                "action": pa.array(["publish"]).take(pa.array(np.zeros(len(member), np.int32))),
            }
            is_dirty = rng.random(len(member)) < shape.dirty
            dirty += int(is_dirty.sum())
            yield pa.table(_spoil(rng, columns, is_dirty) if is_dirty.any() else columns)

    _write(path, tables())
    return dirty


def _along_a_curve(place_km: FloatArray, side_km: float) -> FloatArray:
    """Return the places in Morton order, in which neighbours are mostly near each other."""
    cell = (place_km / side_km * 65_535).astype(np.uint64)
    code = np.zeros(len(place_km), dtype=np.uint64)
    for bit in range(16):
        for axis in (0, 1):
            digit = (cell[:, axis] >> np.uint64(bit)) & np.uint64(1)
            code |= digit << np.uint64(2 * bit + axis)
    return place_km[np.argsort(code)]


def _draw_members(rng: np.random.Generator, shape: LogShape) -> tuple[IndexArray, IndexArray]:
    """Return (topic, client) of each member."""
    if shape.largest_topic is not None:
        return _draw_skewed(rng, shape, shape.largest_topic)
    small, larger = divmod(shape.members, shape.topics)
    sizes = np.full(shape.topics, small)
    sizes[:larger] += 1
    most = int(sizes.max())
    around = min(_CANDIDATES_PER_MEMBER * most, shape.clients)
    clients: list[IndexArray] = []
    step = max(1, 4_000_000 // around)
    for start in range(0, shape.topics, step):
        size = sizes[start : start + step]
        first = rng.integers(0, shape.clients - around + 1, len(size))
        near = np.argpartition(rng.random((len(size), around), np.float32), most - 1, axis=1)
        chosen = first[:, None] + near[:, :most]
        clients.append(chosen[np.arange(most) < size[:, None]].astype(np.int32))
    topic = np.repeat(np.arange(shape.topics, dtype=np.int32), sizes)
    return topic, np.concatenate(clients)


def _draw_skewed(
    rng: np.random.Generator, shape: LogShape, largest: int
) -> tuple[IndexArray, IndexArray]:
    """Return (topic, client) of each member; the k-th topic has largest / k^a members."""
    sizes = _power_law(shape.topics, shape.members, largest)
    clients: list[IndexArray] = []
    for size in sizes:
        around = min(_CANDIDATES_PER_MEMBER * int(size), shape.clients)
        first = int(rng.integers(0, shape.clients - around + 1))
        clients.append((first + rng.choice(around, size, replace=False)).astype(np.int32))
    topic = np.repeat(np.arange(shape.topics, dtype=np.int32), sizes)
    return topic, np.concatenate(clients)


def _power_law(topics: int, members: int, largest: int) -> OffsetArray:
    """Return sizes that sum to `members`, 1 at least, with the exponent that makes it so."""
    rank = np.arange(1, topics + 1)
    low, high = 0.0, 20.0
    for _ in range(60):
        exponent = (low + high) / 2
        sizes = np.maximum(largest * rank**-exponent, 1.0)
        low, high = (exponent, high) if sizes.sum() > members else (low, exponent)
    upto = np.floor(np.cumsum(np.maximum(largest * rank**-low, 1.0)) + 1e-6).astype(np.int64)
    upto[-1] = members
    return np.diff(upto, prepend=0)


def _names(letter: str, index: IndexArray) -> pa.Array:
    return pc.binary_join_element_wise(letter, pa.array(index).cast(pa.string()), "")


def _spoil(
    rng: np.random.Generator, columns: dict[str, pa.Array], is_dirty: npt.NDArray[np.bool_]
) -> dict[str, pa.Array]:
    """Return the columns with one fault in each dirty row."""
    fault = np.where(is_dirty, rng.integers(0, len(_FAULTS), len(is_dirty)), -1)
    mask = {name: pa.array(fault == index) for index, name in enumerate(_FAULTS)}
    x = next(name for name in columns if name in ("x_km", "latitude"))
    nan = pa.scalar(float("nan"))
    return columns | {
        "client": pc.if_else(mask["client"], pa.scalar(None, pa.string()), columns["client"]),
        "time": pc.if_else(mask["time"], nan, pa.array(columns["time"])),
        x: pc.if_else(mask["position"], nan, pa.array(columns[x])),
        "size": pc.if_else(mask["size"], -1, pa.array(columns["size"])),
        "action": pc.if_else(mask["action"], "shout", columns["action"]),
    }


def _write(path: Path, tables: Iterator[pa.Table]) -> None:
    if path.suffix == ".parquet":
        first = next(tables)
        with pa_parquet.ParquetWriter(path, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
        return
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind not in (".csv", ".jsonl"):
        raise ConfigError(f"{path}: a log ends in .parquet, .csv or .jsonl, or .gz after these")
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        for number, table in enumerate(tables):
            if kind == ".csv":
                options = pa_csv.WriteOptions(include_header=number == 0, quoting_style="needed")
                pa_csv.write_csv(table, file, options)
            else:
                lines = io.StringIO()
                for row in table.to_pylist():
                    lines.write(json.dumps(row) + "\n")
                file.write(lines.getvalue().encode())
