"""A social graph as a scenario: a follower and its followees are the members of a topic.

This is how the papers of 2020 and 2021 make topics of Tencent's ``user_sns.txt``, a list of
``follower<TAB>followee``; lists of SNAP (``#`` comments) have the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.domain.generators.reloc2021 import draw_inside
from nearcast.domain.generators.server_sites import grid_servers
from nearcast.domain.imports.sources import codes_of, plain_ids, read_bytes
from nearcast.domain.scenario import Clients, Members, Scenario, ScenarioSettings, Topics
from nearcast.errors import ConfigError, ScenarioError

__all__ = [
    "FollowsGraph",
    "FollowsParams",
    "fail_without_topics",
    "follows_scenario",
    "graph_of",
    "graph_of_codes",
    "import_follows",
]

_Codes = npt.NDArray[np.int64]

_STORAGE_2021, _COMPUTE_2021, _TOPICS_PER_SERVER_2021 = 640.0, 3200.0, 4.0
_ONE_SEPARATOR = bytes.maketrans(b"\t,;\r\v\f", b"      ")


@dataclass(frozen=True, slots=True)
class FollowsParams:
    """Filters and the setting around the graph; the defaults are the extract of 2021."""

    min_members: int = 10
    max_members: int = 21
    topics: int | None = None
    """How many followers to take; None: all that pass."""
    sample: bool = False
    """Take followers by chance instead of the first of the file."""
    max_topics_per_client: int | None = 4
    """A follower that would put a client into more topics is passed over; None: no limit."""
    sigma_km: float = 5.0
    spool_per_member: float = 2.0
    spool: float | None = None
    """The same spool for every topic instead of `spool_per_member`."""
    field_km: float = 25.0
    servers_per_side: int = 4
    storage: float | None = None
    """Per server; None: 640 for up to 4 topics a server as in 2021, in proportion for more."""
    compute: float | None = None
    """Per server; None: 3200, in the same way."""
    client_limit: float = np.inf

    def __post_init__(self) -> None:
        if not 2 <= self.min_members <= self.max_members:
            raise ConfigError(
                f"members of a topic: at least 2 and no more than the highest number, not "
                f"{self.min_members}..{self.max_members}"
            )
        if self.topics is not None and self.topics < 1:
            raise ConfigError(f"topics must be 1 or more, not {self.topics}")
        if self.max_topics_per_client is not None and self.max_topics_per_client < 1:
            raise ConfigError(f"topics per client: 1 or more, not {self.max_topics_per_client}")
        if self.servers_per_side < 1:
            raise ConfigError(f"servers per side: 1 or more, not {self.servers_per_side}")
        amounts = (self.sigma_km, self.spool_per_member, self.field_km, self.client_limit)
        optional = (self.spool, self.storage, self.compute)
        if not all(amount > 0 for amount in (*amounts, *(o for o in optional if o is not None))):
            raise ConfigError("sigma, spools, field, storage, compute and limits must be positive")

    @classmethod
    def reloc2020(cls, **changes: Any) -> Self:
        """Return the setting of 2020: 100 servers on 10 x 10 km, spools of 1 MB, no filters."""
        setting: dict[str, Any] = {
            "min_members": 2,
            "max_members": 1_000_000,
            "max_topics_per_client": None,
            "sigma_km": 2.0,
            "spool": 1.0,
            "field_km": 10.0,
            "servers_per_side": 10,
            "storage": 160.0,
            "compute": np.inf,
            "client_limit": 100.0,
        }
        return cls(**setting | changes)


@dataclass(frozen=True, slots=True, eq=False)
class FollowsGraph:
    """Edges without repeats, grouped by follower; nodes are numbered by first appearance."""

    names: pa.Array
    follower: _Codes
    followee: _Codes
    counts: dict[str, int] = field(default_factory=dict)


def import_follows(path: Path, parameters: FollowsParams, seed: int) -> Scenario:
    """Return the scenario of an edge list, plain or gzip; ``extra["import"]`` has the counts.

    Ids are strings or integers, separated by blanks or commas; further columns are ignored.
    Clients are placed as in 2021: Gaussian around a random point of their first topic.

    Raises
    ------
    ScenarioError
        When the file is missing, not text, has a row of one column (rows are lines here,
        comments counted), or holds no follower that passes the filters.
    """
    graph = graph_of(*_read_edges(path))
    return follows_scenario(graph, parameters, seed, str(path))


def follows_scenario(
    graph: FollowsGraph, parameters: FollowsParams, seed: int, file: str
) -> Scenario:
    """Return the scenario of a graph.

    Followers that do not pass the filters of size may be missing: they change nothing. `file`
    names the scenario and the errors.
    """
    rng = np.random.default_rng(seed)
    topic, node, chosen, skipped = _choose_topics(graph, parameters, rng, file)
    kept, first_row, client = np.unique(node, return_index=True, return_inverse=True)
    # Clients in the order in which the topics name them.
    order = np.argsort(first_row)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    centre_km = rng.uniform(0, parameters.field_km, (len(chosen), 2))
    first_topic = topic[np.sort(first_row)]
    place_km = draw_inside(rng, centre_km[first_topic], parameters.sigma_km, parameters.field_km)
    sizes = np.bincount(topic, minlength=len(chosen)).astype(np.float64)
    side, count = parameters.servers_per_side, len(chosen)
    load = max(1.0, count / side**2 / _TOPICS_PER_SERVER_2021)
    return Scenario(
        settings=ScenarioSettings(
            name=Path(file).name.split(".")[0],
            width_km=parameters.field_km,
            height_km=parameters.field_km,
            seed=seed,
            generator="follows",
            extra={"import": graph.counts | {"topics_skipped": skipped}},
        ),
        servers=grid_servers(
            side,
            parameters.field_km,
            _STORAGE_2021 * load if parameters.storage is None else parameters.storage,
            _COMPUTE_2021 * load if parameters.compute is None else parameters.compute,
            parameters.client_limit,
        ),
        clients=Clients(
            ids=plain_ids(graph.names.take(pa.array(kept[order]))),
            x_km=place_km[:, 0].copy(),
            y_km=place_km[:, 1].copy(),
        ),
        topics=Topics(
            ids=plain_ids(graph.names.take(pa.array(chosen))),
            spool=(
                parameters.spool_per_member * sizes
                if parameters.spool is None
                else np.full(count, parameters.spool)
            ),
            permissible_ms=np.full(count, np.inf),
            process_ms=np.zeros(count),
        ),
        members=Members(
            topic=topic.astype(np.int32),
            client=rank[client],
            publishes=np.ones(len(topic), dtype=np.bool_),
            subscribes=np.ones(len(topic), dtype=np.bool_),
            rate_hz=np.ones(len(topic)),
        ),
    )


def graph_of(follower_text: pa.Array, followee_text: pa.Array) -> FollowsGraph:
    """Return the graph of edges in the order of their file, self-loops and repeats among them."""
    rows = len(follower_text)
    differ = pc.not_equal(follower_text, followee_text)
    follower_text, followee_text = follower_text.filter(differ), followee_text.filter(differ)
    code, names = codes_of(pa.concat_arrays([follower_text, followee_text]))
    follower, followee = np.split(code, 2)
    graph = graph_of_codes(names, follower, followee)
    counts = {
        "rows": rows,
        "self_loops": rows - len(follower),
        "duplicates": len(follower) - len(graph.follower),
        "edges": len(graph.follower),
        "followers": len(np.unique(follower)),
    }
    return replace(graph, counts=counts)


def graph_of_codes(names: pa.Array, follower: _Codes, followee: _Codes) -> FollowsGraph:
    """Return the graph of edges in the order of their file, without self-loops.

    Codes are places in `names`: followers come first, each in the order in which it appears.
    """
    _, first = np.unique(follower * len(names) + followee, return_index=True)
    # Numbers follow the order of appearance, so the sort keeps the order of the file.
    keep = np.sort(first)
    keep = keep[np.argsort(follower[keep], kind="stable")]
    return FollowsGraph(names, follower[keep], followee[keep])


def _read_edges(path: Path) -> tuple[pa.Array, pa.Array]:
    """Return the first two columns of every line that is neither empty nor a comment."""
    file, data = str(path), read_bytes(path)
    if b"\0" in data:
        raise ScenarioError("is not text", file=file)
    lines = _lines_of(data.removeprefix(b"\xef\xbb\xbf").translate(_ONE_SEPARATOR))
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        raise ScenarioError("is not text in UTF-8", file=file) from None
    lines = pc.ascii_trim_whitespace(lines)
    is_edge = pc.invert(pc.or_(pc.equal(lines, ""), pc.starts_with(lines, "#")))
    rows = np.flatnonzero(is_edge.to_numpy(zero_copy_only=False))
    if not len(rows):
        raise ScenarioError("holds no edges, only comments or empty lines", file=file)
    cells = pc.ascii_split_whitespace(lines.take(pa.array(rows)), max_splits=2)
    short = pc.index(pc.less(pc.list_value_length(cells), 2), True).as_py()
    if short >= 0:
        raise ScenarioError(
            "has one column, not follower and followee", file=file, row=int(rows[short]) + 1
        )
    return pc.list_element(cells, 0), pc.list_element(cells, 1)


def _lines_of(data: bytes) -> pa.Array:
    """Return the lines, each with its line end, without copying them."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeStringArray.from_buffers(len(ends), buffers[1], buffers[2])


def _choose_topics(
    graph: FollowsGraph, parameters: FollowsParams, rng: np.random.Generator, file: str
) -> tuple[_Codes, _Codes, _Codes, int]:
    """Return (topic, node) of each member row, the followers chosen, and how many were skipped."""
    followers, start = np.unique(graph.follower, return_index=True)
    start = np.append(start, len(graph.follower))
    size = np.diff(start) + 1
    passes = np.flatnonzero((size >= parameters.min_members) & (size <= parameters.max_members))
    if not len(passes):
        limits = (int(size.min()), int(size.max())) if len(size) else None
        fail_without_topics(limits, parameters, file)
    candidates = rng.permutation(passes) if parameters.sample else passes
    chosen, skipped = _within_client_limit(graph, parameters, candidates, followers, start)
    if parameters.topics is not None and len(chosen) < parameters.topics:
        raise ScenarioError(
            f"only {len(chosen)} followers pass, not {parameters.topics}: {len(passes)} have "
            f"{parameters.min_members} to {parameters.max_members} members and {skipped} of them "
            f"would put a client into more than {parameters.max_topics_per_client} topics; ask "
            "for fewer topics or loosen a filter",
            file=file,
        )
    chosen = np.sort(chosen)
    topic = np.repeat(np.arange(len(chosen)), size[chosen])
    first_row = np.cumsum(size[chosen]) - size[chosen]
    # Row k of a topic is edge k - 1 of its follower; row 0 is the follower.
    edge = np.arange(len(topic)) - first_row[topic] - 1 + start[chosen][topic]
    node = graph.followee[np.maximum(edge, 0)]
    node[first_row] = followers[chosen]
    return topic, node, followers[chosen], skipped


def _within_client_limit(
    graph: FollowsGraph,
    parameters: FollowsParams,
    candidates: _Codes,
    followers: _Codes,
    start: _Codes,
) -> tuple[_Codes, int]:
    """Return the candidates to take, in turn, and how many the limit per client left out."""
    wanted, limit = parameters.topics, parameters.max_topics_per_client
    if limit is None:
        return candidates[:wanted], 0
    topics_of = np.zeros(len(graph.names), dtype=np.int64)
    chosen: list[int] = []
    skipped = 0
    for candidate in candidates.tolist():
        if len(chosen) == wanted:
            break
        followees = graph.followee[start[candidate] : start[candidate + 1]]
        follower = followers[candidate]
        if topics_of[follower] >= limit or topics_of[followees].max() >= limit:
            skipped += 1
            continue
        topics_of[followees] += 1
        topics_of[follower] += 1
        chosen.append(candidate)
    return np.array(chosen, dtype=np.int64), skipped


def fail_without_topics(
    sizes: tuple[int, int] | None, parameters: FollowsParams, file: str
) -> NoReturn:
    """Raise the error that none of followers of these sizes passes; None: there are none."""
    if sizes is None:
        raise ScenarioError("every edge goes from a client to itself", file=file)
    smallest, largest = sizes
    option = "min members" if largest < parameters.min_members else "max members"
    raise ScenarioError(
        f"no follower has {parameters.min_members} to {parameters.max_members} members; they "
        f"have {smallest} to {largest}, itself and its followees: change {option}",
        file=file,
    )
