"""Relations against brute force on the whole matrix Z."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import Members, Scenario
from nearcast.errors import PlanningError
from nearcast.planning import relations as module
from nearcast.planning.relations import RelationKind, Relations, no_relations, relate_clients


def with_members(topics: list[list[int]], clients: int) -> Scenario:
    scenario = generate_reloc2021(Reloc2021(topics=max(len(topics), clients // 9 + 1)), 0)
    rows = sum(map(len, topics))
    members = Members(
        topic=np.repeat(np.arange(len(topics), dtype=np.int32), list(map(len, topics))),
        client=np.array([client for topic in topics for client in topic], dtype=np.int32),
        publishes=np.ones(rows, dtype=np.bool_),
        subscribes=np.ones(rows, dtype=np.bool_),
        rate_hz=np.ones(rows),
    )
    return dataclasses.replace(
        scenario,
        members=members,
        clients=dataclasses.replace(
            scenario.clients,
            ids=scenario.clients.ids[:clients],
            x_km=scenario.clients.x_km[:clients],
            y_km=scenario.clients.y_km[:clients],
        ),
    )


def random_topics(seed: int, clients: int, topics: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.permutation(clients)[: rng.integers(1, 9)].tolist() for _ in range(topics)]


def listing(relations: Relations, client: int) -> list[int]:
    begin, end = relations.start[client : client + 2].tolist()
    return [int(other) for other in relations.others[begin:end]]


def ranked(scores: list[float], client: int, most: int) -> list[int]:
    related = [other for other, score in enumerate(scores) if other != client and score > 0]
    return sorted(related, key=lambda other: (-scores[other], other))[:most]


@pytest.mark.parametrize("most", [1, 3, 100])
def test_counts_equal_brute_force_over_all_pairs(most: int) -> None:
    for seed in range(6):
        topics = random_topics(seed, 50, 40)
        relations = relate_clients(with_members(topics, 50), most, RelationKind.COUNTS)
        for client in range(50):
            shared = [
                float(sum(client in topic and other in topic for topic in topics))
                for other in range(50)
            ]
            expected = ranked(shared, client, most)
            assert listing(relations, client) == expected
            begin, end = relations.start[client : client + 2]
            assert relations.score[begin:end].tolist() == [shared[other] for other in expected]


def test_factorised_relations_equal_the_truncated_decomposition_of_z() -> None:
    for seed in range(6):
        topics = random_topics(seed, 40, 30)
        relations = relate_clients(with_members(topics, 40), 12, RelationKind.FACTORISED)
        z = np.zeros((40, 40))
        for topic in topics:
            z[np.ix_(topic, topic)] += 1
        value, vector = np.linalg.eigh(z)
        value, vector = value[::-1], vector[:, ::-1]
        rank = int((value > 1e-9).sum())
        kept = value >= value[round(0.8 * rank) - 1] - 1e-8
        rebuilt = np.round((vector[:, kept] * value[kept]) @ vector[:, kept].T, 7)
        for client in range(40):
            own = listing(relations, client)
            expected = ranked(rebuilt[client].tolist(), client, 12)
            np.testing.assert_allclose(rebuilt[client, own], rebuilt[client, expected], atol=1e-6)
            assert len(set(own)) == len(own)
            assert client not in own


def test_topics_of_one_size_keep_all_their_relations_with_ties_by_index() -> None:
    topics = [[3, 0, 9], [1, 8, 4], [7, 2, 5]]
    for kind in (RelationKind.COUNTS, RelationKind.FACTORISED):
        relations = relate_clients(with_members(topics, 10), 100, kind)
        for topic in topics:
            for client in topic:
                assert listing(relations, client) == sorted({*topic} - {client})
        assert listing(relations, 6) == []


def test_large_topics_offer_their_first_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PAIRS", 100)
    topics = [list(range(29, -1, -1)), [4, 29], [28, 29]]
    relations = relate_clients(with_members(topics, 30), 5, RelationKind.COUNTS)
    assert relations.partners_per_topic == 6
    assert listing(relations, 29) == [4, 0, 1, 2, 3]
    assert listing(relations, 2) == [0, 1, 3, 4, 5]
    assert listing(relations, 28) == [0, 1, 2, 3, 4]


def test_the_bound_on_pairs_changes_nothing_where_it_is_not_reached() -> None:
    scenario = generate_reloc2021(Reloc2021(overlap=0.2), 3)
    relations = relate_clients(scenario, 5, RelationKind.COUNTS)
    assert relations.partners_per_topic == np.bincount(scenario.members.topic).max()


def test_small_scenarios_are_factorised_and_large_ones_counted() -> None:
    small = generate_reloc2021(Reloc2021(topics=20), 0)
    large = generate_reloc2021(Reloc2021(topics=300), 0)
    assert relate_clients(small, 5).kind is RelationKind.FACTORISED
    assert relate_clients(large, 5).kind is RelationKind.COUNTS


def test_nobody_is_related_when_no_relations_are_asked_for() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=5), 0)
    for relations in (relate_clients(scenario, 0), no_relations(len(scenario.clients))):
        assert not relations.start.any()
        assert len(relations.start) == len(scenario.clients) + 1


@pytest.mark.parametrize("most", [3, 100])
def test_counts_of_many_partners_equal_brute_force(most: int) -> None:
    rng = np.random.default_rng(7)
    topics = [rng.permutation(600)[: rng.integers(2, 300)].tolist() for _ in range(12)]
    membership = np.zeros((12, 600))
    for row, topic in enumerate(topics):
        membership[row, topic] = 1
    shared = membership.T @ membership
    relations = relate_clients(with_members(topics, 600), most, RelationKind.COUNTS)
    for client in range(600):
        assert listing(relations, client) == ranked(shared[client].tolist(), client, most)


def test_large_scenarios_are_scored_by_their_strongest_factors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST_FACTORISED_RANK", 5)
    for seed in range(4):
        topics = random_topics(seed, 40, 30)
        relations = relate_clients(with_members(topics, 40), 12, RelationKind.FACTORISED, rank=6)
        membership = np.zeros((30, 40))
        for row, topic in enumerate(topics):
            membership[row, topic] = 1
        _, strength, vector = np.linalg.svd(membership, full_matrices=False)
        factors = vector[:6].T * strength[:6]
        rebuilt = np.where(membership.T @ membership > 0, factors @ factors.T, 0)
        for client in range(40):
            own = listing(relations, client)
            expected = ranked(np.where(rebuilt > 1e-7, rebuilt, 0)[client].tolist(), client, 12)
            np.testing.assert_allclose(rebuilt[client, own], rebuilt[client, expected], atol=1e-6)
            assert len(set(own)) == len(own)
            assert client not in own


@pytest.mark.parametrize("topics", [[[0, 2, 3, 5]], [[0, 2, 3], [4, 5]]])
def test_one_or_two_topics_can_be_scored_by_factors(
    monkeypatch: pytest.MonkeyPatch, topics: list[list[int]]
) -> None:
    monkeypatch.setattr(module, "_MOST_FACTORISED_RANK", 0)
    scenario = with_members(topics, 6)
    kept = dataclasses.replace(
        scenario,
        topics=dataclasses.replace(scenario.topics, spool=scenario.topics.spool[: len(topics)]),
    )
    relations = relate_clients(kept, 4, RelationKind.FACTORISED)
    for client in topics[0]:
        assert listing(relations, client) == [other for other in topics[0] if other != client]
    assert listing(relations, 1) == []


def test_als_is_left_to_the_pipeline() -> None:
    scenario = generate_reloc2021(Reloc2021(topics=5), 0)
    with pytest.raises(PlanningError, match="kind als need Spark"):
        relate_clients(scenario, 5, RelationKind.ALS)
