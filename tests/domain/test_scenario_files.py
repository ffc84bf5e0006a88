"""Scenarios read with their defaults, and written and read again."""

import csv
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.small_scenario import SMALL, put, put_parquet
from nearcast.domain.scenario import Clients, Members, Scenario, ScenarioSettings, Servers, Topics
from nearcast.domain.scenario_files import read_scenario, write_scenario
from nearcast.domain.tables import TableFormat
from nearcast.errors import ScenarioError

FORMATS = ["csv", "parquet"]


def assert_same(first: Scenario, second: Scenario) -> None:
    assert first.settings == second.settings
    for name in ("servers", "clients", "topics", "members"):
        left, right = getattr(first, name), getattr(second, name)
        for field in left.__slots__:
            a, b = getattr(left, field), getattr(right, field)
            if isinstance(a, pa.Array):
                assert a.equals(b), field
            else:
                assert a.dtype == b.dtype, field
                np.testing.assert_array_equal(a, b)
    for name in ("client_server_ms", "server_server_ms"):
        a, b = getattr(first, name), getattr(second, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)


def test_a_hand_written_scenario_is_read_with_defaults(tmp_path: Path) -> None:
    scenario = read_scenario(put(tmp_path / "s"))
    assert scenario.settings == ScenarioSettings(
        "small", 10.0, 8.0, 0.1, 5.0, 1.0, None, None, {"note": [1, "two"]}
    )
    assert scenario.servers.ids.to_pylist() == ["s1", "s2"]
    assert scenario.servers.storage.tolist() == [10.0, np.inf]
    assert scenario.servers.compute.tolist() == [np.inf, np.inf]
    assert scenario.servers.client_limit.tolist() == [np.inf, np.inf]
    assert scenario.servers.net_id.to_pylist() == ["net0", "net0"]
    assert scenario.clients.ids.to_pylist() == [1, 2, 3]
    assert scenario.topics.spool.tolist() == [8.0, 6.0]
    assert scenario.topics.permissible_ms.tolist() == [np.inf, np.inf]
    assert scenario.topics.process_ms.tolist() == [0.0, 0.0]
    # Sorted by topic, within a topic as in the file.
    assert scenario.members.topic.tolist() == [0, 0, 1, 1]
    assert scenario.members.client.tolist() == [0, 1, 2, 0]
    assert scenario.members.publishes.tolist() == [True, False, True, True]
    assert scenario.members.subscribes.tolist() == [True, True, False, True]
    assert scenario.members.rate_hz.tolist() == [1.0] * 4
    assert scenario.client_server_ms is None
    assert scenario.server_server_ms is None


def test_name_and_field_default_to_the_folder_and_the_extent(tmp_path: Path) -> None:
    scenario = read_scenario(put(tmp_path / "harbour", {"scenario.json": "{}"}))
    assert scenario.settings == ScenarioSettings("harbour", 9.5, 7.0)


def test_only_the_required_columns_are_needed(tmp_path: Path) -> None:
    scenario = read_scenario(
        put(
            tmp_path / "s",
            {"topics.csv": "topic_id\nt1\nt2\n", "members.csv": "client_id,topic_id\n1,t1\n1,t2\n"},
        )
    )
    assert scenario.topics.spool.tolist() == [1.0, 1.0]
    assert scenario.members.publishes.all()
    assert scenario.members.subscribes.all()


def test_a_byte_order_mark_changes_nothing(tmp_path: Path) -> None:
    plain = read_scenario(put(tmp_path / "plain"))
    files: dict[str, Any] = {name: "\ufeff" + text for name, text in SMALL.items()}
    assert_same(plain, read_scenario(put(tmp_path / "changed", files)))


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    plain = read_scenario(put(tmp_path / "plain"))
    files: dict[str, Any] = {name: text.replace("\n", "\r\n") for name, text in SMALL.items()}
    assert_same(plain, read_scenario(put(tmp_path / "changed", files)))


def test_unknown_columns_and_files_are_ignored(tmp_path: Path) -> None:
    plain = read_scenario(put(tmp_path / "plain"))
    files: dict[str, Any] = {
        "topics.csv": "colour,topic_id,spool\nred,t1,8\n\xff,t2,6\n".encode("latin-1"),
        "notes.txt": "hello",
    }
    assert_same(plain, read_scenario(put(tmp_path / "more", files)))


@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        (["7", "-3", "0"], [7, -3, 0]),
        (["007", "7", "8"], ["007", "7", "8"]),
        (["9223372036854775807", "-9223372036854775808", "1"], [2**63 - 1, -(2**63), 1]),
        (["9223372036854775808", "1", "2"], ["9223372036854775808", "1", "2"]),
        (["-0", "1", "2"], ["-0", "1", "2"]),
        (["1.0", "NA", "nan"], ["1.0", "NA", "nan"]),
        ([" a", "b ", "c d"], [" a", "b ", "c d"]),
    ],
)
def test_ids_of_csv_are_integers_only_if_all_are_plain_ones(
    tmp_path: Path, cells: list[str], ids: list[Any]
) -> None:
    clients = "client_id,x_km,y_km\n" + "".join(f"{cell},0,0\n" for cell in cells)
    members = "topic_id,client_id\n" + "".join(f"t1,{c}\nt2,{c}\n" for c in cells)
    folder = put(tmp_path / "s", {"clients.csv": clients, "members.csv": members})
    assert read_scenario(folder).clients.ids.to_pylist() == ids


def test_integers_in_one_table_match_the_same_text_in_another(tmp_path: Path) -> None:
    folder = put_parquet(
        tmp_path / "s", "clients", {"client_id": ["1", "2", "3"], "x_km": [0] * 3, "y_km": [0] * 3}
    )
    scenario = read_scenario(folder)
    assert scenario.clients.ids.to_pylist() == ["1", "2", "3"]
    assert scenario.members.client.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("cells", "flags"),
    [
        (pa.array([True, False, None]), [True, False, True]),
        (pa.array([1, 0, None], pa.uint8()), [True, False, True]),
        (pa.array(["True", "0", ""]), [True, False, True]),
        (pa.array(["true", "false", "1"]).dictionary_encode(), [True, False, True]),
    ],
)
def test_flags_of_parquet_may_be_of_several_types(
    tmp_path: Path, cells: pa.Array, flags: list[bool]
) -> None:
    columns = {"topic_id": ["t1", "t1", "t2"], "client_id": [1, 2, 3], "publishes": cells}
    scenario = read_scenario(put_parquet(tmp_path / "s", "members", columns))
    assert scenario.members.publishes.tolist() == flags


def test_measured_delays_replace_distances_where_they_are_given(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "client_server_ms.csv": "client_id,server_id,ms\n2,s2,7.5\n1,s1,0\n",
        "server_server_ms.csv": "from_id,to_id,ms\ns1,s2,3\ns1,s1,0\n",
    }
    scenario = read_scenario(put(tmp_path / "s", files))
    clients, servers = [(0, 0), (3, 4), (9.5, 7)], [(1, 1), (9, 7)]
    wanted = [[0.1 * math.dist(client, server) for server in servers] for client in clients]
    wanted[1][1], wanted[0][0] = 7.5, 0.0
    assert scenario.client_server_ms is not None
    np.testing.assert_allclose(scenario.client_server_ms, wanted, rtol=1e-15)
    assert scenario.server_server_ms is not None
    np.testing.assert_allclose(scenario.server_server_ms, [[0, 3], [1, 0]], rtol=1e-15)


def test_a_table_of_delays_without_rows_says_nothing(tmp_path: Path) -> None:
    folder = put(tmp_path / "s", {"server_server_ms.csv": "from_id,to_id,ms\n"})
    assert read_scenario(folder).server_server_ms is None


def test_too_many_pairs_for_measured_delays_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.domain.delay_tables._MOST_PAIRS", 5)
    folder = put(tmp_path / "s", {"client_server_ms.csv": "client_id,server_id,ms\n2,s2,7.5\n"})
    with pytest.raises(ScenarioError, match=r"client_server_ms\.csv: 6 pairs are too many"):
        read_scenario(folder)


def _some_ids(count: int) -> st.SearchStrategy[pa.Array]:
    texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
    special = st.sampled_from(
        ["007", "a,b", 'say "hi"', "naïve 東京", " x ", "l1\nl2", "\r", "nan"]
    )
    names = st.lists(texts | special, min_size=count, max_size=count, unique=True)
    integers = st.integers(-(2**63), 2**63 - 1)
    whole = st.lists(integers, min_size=count, max_size=count, unique=True)
    return (
        whole.map(lambda v: pa.array(v, pa.int64()))
        | names.map(
            lambda v: (
                pa.array([*v[:-1], f"x{v[-1]}x"], pa.string())  # not all plain integers
                if len({*v[:-1], f"x{v[-1]}x"}) == count
                else pa.array([f"{i}_{name}" for i, name in enumerate(v)], pa.string())
            )
        )
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    servers, clients, topics = (draw(st.integers(1, 4)) for _ in range(3))
    positions = st.floats(allow_nan=False, allow_infinity=False)
    amounts = st.floats(0, allow_nan=False, allow_infinity=False)
    limits = st.floats(0, allow_nan=False)

    def numbers(values: st.SearchStrategy[float], count: int) -> Any:
        return np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype=np.float64)

    joined = rng.random((topics, clients)) < 0.5
    joined[:, 0] = True
    topic, client = (axis.astype(np.int32) for axis in np.nonzero(joined))
    publishes = (rng.random(len(topic)) < 0.5) | (client == 0)
    subscribes = (rng.random(len(topic)) < 0.5) | ~publishes
    between = rng.exponential(size=(servers, servers)) * (1 - np.eye(servers))
    measured = draw(st.booleans())
    return Scenario(
        ScenarioSettings(
            name=draw(st.text(st.characters(codec="utf-8"), min_size=1)),
            width_km=draw(st.floats(0, 1e9)),
            height_km=draw(st.floats(0, 1e9)),
            ms_per_km=draw(st.floats(0, 10)),
            seed=draw(st.none() | st.integers(0, 2**63)),
            extra=draw(st.dictionaries(st.sampled_from(["a", "ü"]), st.integers() | st.text("xy"))),
        ),
        Servers(
            draw(_some_ids(servers)),
            numbers(positions, servers),
            numbers(positions, servers),
            numbers(limits, servers),
            numbers(limits, servers),
            numbers(limits, servers),
            draw(_some_ids(servers)),
        ),
        Clients(draw(_some_ids(clients)), numbers(positions, clients), numbers(positions, clients)),
        Topics(
            draw(_some_ids(topics)),
            numbers(amounts, topics),
            numbers(limits, topics),
            numbers(amounts, topics),
        ),
        Members(topic, client, publishes, subscribes, numbers(amounts, len(topic))),
        client_server_ms=rng.exponential(size=(clients, servers)) if measured else None,
        server_server_ms=between if measured else None,
    )


@settings(deadline=None, max_examples=50)
@given(scenarios(), st.sampled_from(FORMATS))
def test_a_scenario_comes_back_as_it_was_written(scenario: Scenario, form: Any) -> None:
    with tempfile.TemporaryDirectory() as base:
        write_scenario(scenario, Path(base) / "s", table_format=form)
        assert_same(scenario, read_scenario(Path(base) / "s"))
        assert os.listdir(base) == ["s"]


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_scenario_is_written_with_the_same_bytes(tmp_path: Path, form: Any) -> None:
    scenario = read_scenario(put(tmp_path / "s"))
    write_scenario(scenario, tmp_path / "a", table_format=form)
    write_scenario(scenario, tmp_path / "b", table_format=form)
    assert _files(tmp_path / "a") == _files(tmp_path / "b")
    assert len(_files(tmp_path / "a")) == 5


def test_csv_is_what_other_programs_read(tmp_path: Path) -> None:
    files: dict[str, Any] = {"topics.csv": 'topic_id,spool\nt1,8\n"t,""2""",6\n'}
    files["members.csv"] = 'topic_id,client_id\nt1,1\n"t,""2""",3\n'
    write_scenario(read_scenario(put(tmp_path / "s", files)), tmp_path / "o", table_format="csv")
    with (tmp_path / "o" / "topics.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["topic_id", "spool", "permissible_ms", "process_ms"],
            ["t1", "8", "", "0"],
            ['t,"2"', "6", "", "0"],
        ]
    assert (tmp_path / "o" / "servers.csv").read_text().splitlines()[1] == "s1,1,1,10,,,net0"
    content = json.loads((tmp_path / "o" / "scenario.json").read_text())
    assert content == {
        "name": "small",
        "width_km": 10.0,
        "height_km": 8.0,
        "ms_per_km": 0.1,
        "cloud_ms": 5.0,
        "beta_ms": 1.0,
        "note": [1, "two"],
    }


def test_the_automatic_format_depends_on_the_largest_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = read_scenario(put(tmp_path / "s"))
    write_scenario(scenario, tmp_path / "few")
    assert (tmp_path / "few" / "members.csv").exists()
    monkeypatch.setattr("nearcast.domain.tables._LARGEST_CSV_ROWS", 3)
    write_scenario(scenario, tmp_path / "many", table_format="auto")
    assert (tmp_path / "many" / "members.parquet").exists()
    assert set(get_args(TableFormat)) == {"csv", "parquet", "auto"}


def test_a_failure_while_writing_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = read_scenario(put(tmp_path / "s"))

    def fail(path: Path, columns: Any) -> None:
        if path.stem == "members":
            raise KeyboardInterrupt
        path.write_text("half")

    monkeypatch.setattr("nearcast.domain.scenario_files.write_table", fail)
    with pytest.raises(KeyboardInterrupt):
        write_scenario(scenario, tmp_path / "o", table_format="csv")
    assert os.listdir(tmp_path) == ["s"]
    before = _files(tmp_path / "s")
    with pytest.raises(KeyboardInterrupt):
        write_scenario(scenario, tmp_path / "s", table_format="csv", overwrite=True)
    assert os.listdir(tmp_path) == ["s"]
    assert _files(tmp_path / "s") == before


def test_a_scenario_that_contradicts_itself_is_not_written(tmp_path: Path) -> None:
    good = read_scenario(put(tmp_path / "s"))
    good.servers.storage[1] = -1.0
    with pytest.raises(ScenarioError, match="servers, row 2, column 'storage': -1 is negative"):
        write_scenario(good, tmp_path / "o", table_format="csv")
    assert os.listdir(tmp_path) == ["s"]


def test_overwriting_replaces_the_tables_of_the_other_format(tmp_path: Path) -> None:
    scenario = read_scenario(put(tmp_path / "s"))
    write_scenario(scenario, tmp_path / "s", table_format="parquet", overwrite=True)
    assert sorted(_files(tmp_path / "s")) == [
        *("clients.parquet", "members.parquet", "scenario.json"),
        *("servers.parquet", "topics.parquet"),
    ]
    assert_same(scenario, read_scenario(tmp_path / "s"))
