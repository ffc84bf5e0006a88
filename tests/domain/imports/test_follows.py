import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.imports.follows import FollowsParams, import_follows
from nearcast.domain.scenario import Scenario
from nearcast.domain.validation import validate_scenario
from nearcast.errors import ConfigError, ScenarioError

ANY_SIZE = FollowsParams(min_members=2, max_members=99, max_topics_per_client=None)

Topics = list[tuple[object, list[object]]]


def topics_of(scenario: Scenario) -> Topics:
    """Return (topic id, client ids) in the order of the scenario."""
    members = scenario.members
    found: Topics = [(topic, []) for topic in scenario.topics.ids.to_pylist()]
    for topic, client in zip(members.topic.tolist(), members.client.tolist(), strict=True):
        found[topic][1].append(scenario.clients.ids[client].as_py())
    return found


def plain_topics(
    edges: list[tuple[int, int]], fewest: int, most: int, limit: int | None, count: int | None
) -> Topics:
    """Return what the import should give, by plain loops."""
    followees: dict[int, list[int]] = {}
    for follower, followee in edges:
        known = followees.setdefault(follower, []) if follower != followee else []
        if follower != followee and followee not in known:
            known.append(followee)
    used: Counter[int] = Counter()
    topics: Topics = []
    for follower, known in followees.items():
        members = [follower, *known]
        if not fewest <= len(members) <= most or len(topics) == count:
            continue
        if limit is not None and any(used[client] >= limit for client in members):
            continue
        used.update(members)
        topics.append((follower, list(members)))
    return topics


def random_edges(seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 40, (600, 2)) ** 2
    return [(int(a), int(b)) for a, b in pairs]


def write_edges(path: Path, edges: list[tuple[int, int]]) -> Path:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in edges))
    return path


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("fewest", "most", "limit", "count"),
    [(2, 99, None, None), (10, 21, 4, None), (5, 15, None, 7), (5, 30, 6, 10)],
)
def test_topics_are_those_of_plain_loops(
    seed: int, fewest: int, most: int, limit: int | None, count: int | None, tmp_path: Path
) -> None:
    edges = random_edges(seed)
    parameters = FollowsParams(fewest, most, count, max_topics_per_client=limit)
    wanted = plain_topics(edges, fewest, most, limit, count)
    scenario = import_follows(write_edges(tmp_path / "g.txt", edges), parameters, 1)
    assert topics_of(scenario) == wanted
    order = dict.fromkeys(client for _, members in wanted for client in members)
    assert scenario.clients.ids.to_pylist() == list(order)
    validate_scenario(scenario)


@pytest.mark.parametrize(
    "text",
    [
        "1\t2\n1\t3\n2\t1\n",
        "1 2\n1   3\n 2 1",
        "1,2\n1, 3\n2,1\n",
        "# a comment\r\n# Nodes: 3\r\n1\t2\r\n\r\n1\t3\r\n2\t1\r\n",
        "1\t2\t0.5\n1\t3\t0.7\n2\t1\t1\textra\n",
        "\ufeff1 2\n1 3\n2 1\n",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_layout_of_an_edge_list_is_read(text: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert topics_of(import_follows(path, ANY_SIZE, 1)) == [(1, [1, 2, 3]), (2, [2, 1])]


def test_ids_may_be_names(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("ann bob\nann 7\nJosé ann\n", encoding="utf-8")
    wanted = [("ann", ["ann", "bob", "7"]), ("José", ["José", "ann"])]
    assert topics_of(import_follows(path, ANY_SIZE, 1)) == wanted


def test_self_loops_and_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    edges = [(1, 2), (1, 1), (1, 2), (3, 3), (1, 4), (1, 2), (2, 1)]
    scenario = import_follows(write_edges(tmp_path / "g.txt", edges), ANY_SIZE, 1)
    assert topics_of(scenario) == [(1, [1, 2, 4]), (2, [2, 1])]
    counts = scenario.settings.extra["import"]
    assert counts == {
        "rows": 7,
        "self_loops": 2,
        "duplicates": 2,
        "edges": 3,
        "followers": 2,
        "topics_skipped": 0,
    }


def test_a_sample_differs_by_seed_and_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    path = write_edges(tmp_path / "g.txt", random_edges(1))
    parameters = FollowsParams(5, 30, topics=6, sample=True, max_topics_per_client=5)
    first, again, other = (import_follows(path, parameters, seed) for seed in (1, 1, 2))
    assert topics_of(first) == topics_of(again)
    assert first.clients.x_km.tolist() == again.clients.x_km.tolist()
    assert first.topics.ids.to_pylist() != other.topics.ids.to_pylist()
    everything = dict(plain_topics(random_edges(1), 5, 30, None, None))
    assert all(everything[topic] == members for topic, members in topics_of(other))
    counts = Counter(client for _, members in topics_of(other) for client in members)
    assert max(counts.values()) <= 5


def test_the_setting_is_that_of_2021(tmp_path: Path) -> None:
    scenario = import_follows(write_edges(tmp_path / "g.txt", random_edges(1)), ANY_SIZE, 1)
    servers, settings = scenario.servers, scenario.settings
    places = zip(servers.x_km.tolist(), servers.y_km.tolist(), strict=True)
    assert sorted(places) == [(x, y) for x in (5, 10, 15, 20) for y in (5, 10, 15, 20)]
    assert (settings.width_km, settings.height_km, settings.seed) == (25, 25, 1)
    assert (servers.storage[0], servers.compute[0]) == (640, 3200)
    sizes = [len(members) for _, members in topics_of(scenario)]
    assert scenario.topics.spool.tolist() == [2 * size for size in sizes]
    assert ((scenario.clients.x_km >= 0) & (scenario.clients.x_km <= 25)).all()


def test_members_stand_around_the_point_of_their_first_topic(tmp_path: Path) -> None:
    edges = [(1, followee) for followee in range(2, 60)] + [(70, 71), (70, 1)]
    parameters = FollowsParams(2, 99, sigma_km=0.1)
    scenario = import_follows(write_edges(tmp_path / "g.txt", edges), parameters, 3)
    first = np.column_stack([scenario.clients.x_km, scenario.clients.y_km])[:59]
    assert np.linalg.norm(first - np.median(first, axis=0), axis=1).max() < 0.6


def test_limits_grow_with_the_topics_unless_they_are_given(tmp_path: Path) -> None:
    edges = [(follower, 1000 + follower) for follower in range(128)]
    path = write_edges(tmp_path / "g.txt", edges)
    grown = import_follows(path, ANY_SIZE, 1).servers
    assert (grown.storage[0], grown.compute[0]) == (1280, 6400)
    given = FollowsParams(2, 9, storage=10, compute=20, servers_per_side=2, field_km=9)
    servers = import_follows(path, given, 1).servers
    assert (servers.storage.tolist(), servers.compute.tolist()) == ([10] * 4, [20] * 4)
    assert sorted(set(servers.x_km.tolist())) == pytest.approx([3, 6])


def test_the_setting_of_2020_has_100_servers_on_10_km(tmp_path: Path) -> None:
    path = write_edges(tmp_path / "g.txt", random_edges(2))
    scenario = import_follows(path, FollowsParams.reloc2020(topics=5), 1)
    assert (len(scenario.servers), len(scenario.topics)) == (100, 5)
    assert scenario.settings.width_km == 10
    assert set(scenario.servers.storage.tolist()) == {160}
    assert set(scenario.servers.client_limit.tolist()) == {100}
    assert set(scenario.topics.spool.tolist()) == {1}
    validate_scenario(scenario)


@pytest.mark.parametrize(
    ("content", "parameters", "message"),
    [
        (b"", ANY_SIZE, "is empty"),
        (b"# only\n#comments\n\n", ANY_SIZE, "holds no edges"),
        (b"# c\n1 2\n3\n4 5\n", ANY_SIZE, "row 3: has one column, not follower and followee"),
        (b"1 2\n\0\1\2\n", ANY_SIZE, "is not text"),
        (b"1 2\n\xff\xfe 3\n", ANY_SIZE, "is not text in UTF-8"),
        (b"1 1\n2 2\n", ANY_SIZE, "every edge goes from a client to itself"),
        (b"1 2\n1 3\n4 5\n", FollowsParams(), "they have 2 to 3, .* change min members"),
        (b"1 2\n1 3\n1 4\n", FollowsParams(2, 3), "they have 4 to 4, .* change max members"),
        (b"1 2\n3 4\n", FollowsParams(2, 9, topics=3), "only 2 followers pass, not 3"),
        (
            b"1 2\n3 2\n",
            FollowsParams(2, 9, topics=2, max_topics_per_client=1),
            "only 1 followers pass, not 2: 2 have .* and 1 of them would put a client into more",
        ),
    ],
)
def test_a_graph_that_gives_no_topics_is_refused(
    content: bytes, parameters: FollowsParams, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "graph.txt"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=message) as error:
        import_follows(path, parameters, 1)
    assert error.value.file == str(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.txt: no such file"):
        import_follows(tmp_path / "none.txt", ANY_SIZE, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_members": 1}, "members of a topic"),
        ({"min_members": 30}, "members of a topic"),
        ({"topics": 0}, "topics must be 1 or more"),
        ({"max_topics_per_client": 0}, "topics per client"),
        ({"servers_per_side": 0}, "servers per side"),
        ({"sigma_km": 0}, "must be positive"),
        ({"spool": 0}, "must be positive"),
        ({"storage": -1}, "must be positive"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FollowsParams(**wrong)  # type: ignore[arg-type]
