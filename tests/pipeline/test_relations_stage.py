"""Relations on executors: the same as in memory, whatever the blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import Clients, Members, Scenario, Topics
from nearcast.errors import ConfigError
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages import relations as stage
from nearcast.pipeline.stages.relations import (
    RELATIONS_TABLE,
    RelationSettings,
    RelationsTable,
    relate,
)
from nearcast.pipeline.stages.relations_als import als_factors
from nearcast.pipeline.workspace import Workspace
from nearcast.planning import relations as planning
from nearcast.planning.relations import RelationKind, Relations, relate_clients


def random_scenario(seed: int, clients: int = 60, topics: int = 40) -> Scenario:
    """Topics of 1 to `clients` members, half of them small; the last fifth of clients has none."""
    rng = np.random.default_rng(seed)
    active = clients * 4 // 5
    sizes = np.where(
        rng.random(topics) < 0.5, rng.integers(1, 5, topics), rng.integers(1, active, topics)
    )
    client = np.concatenate([rng.permutation(active)[:size] for size in sizes]).astype(np.int32)
    publishes = rng.random(len(client)) < 0.3
    base = generate_reloc2021(Reloc2021(topics=5), 0)
    return replace(
        base,
        clients=Clients(base.clients.ids[:clients], np.zeros(clients), np.zeros(clients)),
        topics=Topics(base.topics.ids, np.ones(topics), np.ones(topics), np.ones(topics)),
        members=Members(
            topic=np.repeat(np.arange(topics, dtype=np.int32), sizes),
            client=client,
            publishes=publishes,
            subscribes=~publishes,
            rate_hz=np.ones(len(client)),
        ),
    )


def assert_same(found: Relations, expected: Relations) -> None:
    assert found.kind is expected.kind
    assert found.partners_per_topic == expected.partners_per_topic
    for name in ("start", "others", "score"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype


def held(table: RelationsTable) -> Relations:
    """Return what a planner gets, in memory, with the scores of the table."""
    with table.mapped() as relations:
        score = table.workspace.read(RELATIONS_TABLE, ["score"]).column(0).to_numpy()
        return replace(relations, others=np.array(relations.others), score=score)


def rows_of(relations: Relations) -> set[tuple[int, int, int, float]]:
    count = np.diff(relations.start)
    client = np.repeat(np.arange(len(count)), count)
    rank = np.arange(len(client)) - np.repeat(relations.start[:-1], count) + 1
    columns = (client, rank, relations.others, relations.score)
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_SMALLEST_EFFORT", 1)
    monkeypatch.setattr(planning, "_CLIENTS_PER_BLOCK", 16)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("seed", "most"), [(0, 3), (1, 100)])
def test_counts_equal_those_in_memory_and_a_plain_count(
    workspace: Workspace, seed: int, most: int
) -> None:
    scenario = random_scenario(seed)
    record = StageRecord("relations")
    found = held(relate(workspace, scenario, RelationSettings(most, RelationKind.COUNTS), record))
    assert_same(found, relate_clients(scenario, most, RelationKind.COUNTS))

    members: dict[int, list[int]] = {}
    for topic, client in zip(scenario.members.topic, scenario.members.client, strict=True):
        members.setdefault(int(topic), []).append(int(client))
    shared = Counter((a, b) for own in members.values() for a in own for b in own if a != b)
    expected = set()
    for client in range(len(scenario.clients)):
        others = sorted((-count, b) for (a, b), count in shared.items() if a == client)
        expected |= {(client, i + 1, b, float(-c)) for i, (c, b) in enumerate(others[:most])}
    table = workspace.load(RELATIONS_TABLE)
    assert [(name, kind) for name, kind in table.dtypes] == [
        ("client_index", "int"),
        ("rank", "int"),
        ("other_index", "int"),
        ("score", "float"),
    ]
    assert {tuple(row) for row in table.collect()} == expected
    assert record.rows_in == len(scenario.members)
    assert record.rows_out == record.tables[RELATIONS_TABLE] == len(expected)
    assert record.notes["pairs_cut"] == 0


@pytest.mark.usefixtures("small_blocks")
def test_a_small_scenario_is_factorised_as_in_memory(workspace: Workspace) -> None:
    scenario = random_scenario(2)
    record = StageRecord("relations")
    found = held(relate(workspace, scenario, RelationSettings(7), record))
    assert found.kind is RelationKind.FACTORISED
    assert_same(found, relate_clients(scenario, 7))
    assert {tuple(row) for row in workspace.load(RELATIONS_TABLE).collect()} == rows_of(found)
    assert "lost_by_factors" not in record.notes


@pytest.mark.usefixtures("small_blocks")
def test_a_large_scenario_is_factorised_as_in_memory(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_MOST_FACTORISED_CLIENTS", 10)
    scenario = random_scenario(3)
    record = StageRecord("relations")
    settings = RelationSettings(7, RelationKind.FACTORISED, rank=5)
    found = held(relate(workspace, scenario, settings, record))
    assert_same(found, relate_clients(scenario, 7, RelationKind.FACTORISED, rank=5))
    assert record.notes["factors"] == 5
    assert "strongest factors" in record.notes["lost_by_factors"]


def test_als_ranks_by_the_product_of_its_factors(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = random_scenario(4)
    factors = np.zeros((len(scenario.clients), 4))

    def kept(*arguments: object) -> np.ndarray:
        factors[:] = als_factors(*arguments)  # type: ignore[arg-type]
        return factors

    monkeypatch.setattr(stage, "als_factors", kept)
    settings = RelationSettings(5, RelationKind.ALS, rank=4)
    found = held(relate(workspace, scenario, settings, StageRecord("relations")))
    assert found.kind is RelationKind.ALS
    assert len(found.others)
    assert not factors[-len(factors) // 5 :].any()
    membership = np.zeros((len(scenario.topics), len(scenario.clients)))
    membership[scenario.members.topic, scenario.members.client] = 1
    score = np.where(membership.T @ membership > 0, factors @ factors.T, -1.0)
    np.fill_diagonal(score, -1.0)
    for client, row in enumerate(score):
        own = slice(*found.start[client : client + 2])
        best = np.sort(row[row > 1e-9])[::-1][:5]
        np.testing.assert_allclose(row[found.others[own]], best, atol=1e-8)
        np.testing.assert_allclose(found.score[own], best, rtol=1e-6, atol=1e-8)


def test_als_reads_the_members_where_a_stage_has_written_them(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = random_scenario(4)
    members = scenario.members
    names = ["client_index", "topic_index"]
    table = pa.table([members.client, members.topic], names=names)
    workspace.save_rows("members", table)

    def refuse(*_: object) -> None:
        raise AssertionError("the driver sends the members")

    monkeypatch.setattr(Workspace, "save_batches", refuse)
    factors = als_factors(workspace, scenario, 4, 3, 0)
    assert factors[np.unique(members.client)].any(axis=1).all()
    assert [path.name for path in workspace.folder.iterdir()] == ["members"]


def test_what_large_topics_lose_is_written_down(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_MOST_PAIRS", 400)
    scenario = random_scenario(5)
    record = StageRecord("relations")
    settings = RelationSettings(2, RelationKind.COUNTS)
    found = held(relate(workspace, scenario, settings, record))
    assert_same(found, relate_clients(scenario, 2, RelationKind.COUNTS))
    limit = record.notes["partners_per_topic"]
    lost = topics = 0
    for topic in range(len(scenario.topics)):
        own = sorted(scenario.members.client[scenario.members.topic == topic].tolist())
        cut = sum(a != b for a in own for b in own[limit:])
        lost, topics = lost + cut, topics + (len(own) > limit)
    assert (record.notes["topics_cut"], record.notes["pairs_cut"]) == (topics, lost)
    assert lost > 0
    assert f"first {limit} members" in record.notes["lost"]


def test_nobody_is_related_without_members(workspace: Workspace) -> None:
    scenario = random_scenario(6)
    nobody = Members(*(column[:0] for column in _columns(scenario.members)))
    record = StageRecord("relations")
    found = held(relate(workspace, replace(scenario, members=nobody), RelationSettings(), record))
    assert not found.start.any()
    assert workspace.load(RELATIONS_TABLE).count() == record.rows_out == 0


def _columns(members: Members) -> list[np.ndarray]:
    return [getattr(members, name) for name in Members.__slots__]


def test_a_table_is_replaced_and_leaves_nothing_else(workspace: Workspace) -> None:
    for seed in (0, 1):
        found = held(
            relate(workspace, random_scenario(seed), RelationSettings(4), StageRecord("r"))
        )
    assert {tuple(row) for row in workspace.load(RELATIONS_TABLE).collect()} == rows_of(found)
    assert [path.name for path in workspace.folder.iterdir()] == [RELATIONS_TABLE]
    assert all(
        Path(path).suffix == ".parquet" for path in workspace.path(RELATIONS_TABLE).iterdir()
    )


def test_blocks_have_about_the_same_effort() -> None:
    effort = np.random.default_rng(0).pareto(1.5, 1000).astype(np.int64) + 1
    ends = stage.cut_evenly(effort, 8)
    assert (ends[0], ends[-1], len(ends)) == (0, 1000, 9)
    blocks = [effort[a:b].sum() for a, b in pairwise(ends)]
    assert max(blocks) <= effort.sum() / 8 + effort.max()
    assert stage.cut_evenly(np.zeros(3, dtype=np.int64), 4) == [0, 3]
    assert stage.cut_evenly(np.array([0, 9, 0]), 8) == [0, 2, 3]


@pytest.mark.parametrize("name", ["most", "rank", "iterations"])
def test_settings_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be at least 1"):
        replace(RelationSettings(), **{name: 0})  # type: ignore[arg-type]
