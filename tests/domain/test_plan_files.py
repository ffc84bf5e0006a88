"""Plans written and read again, plans written by hand, and the error for a plan that does not fit."""

import csv
import json
import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.domain.plan import Brokers, Model, Objective, Plan, PlanReport, PlanStatus
from nearcast.domain.plan_files import read_plan, report_to_json, write_plan
from nearcast.domain.scenario import Clients, Members, Scenario, ScenarioSettings, Servers, Topics
from nearcast.errors import OutputError, PlanError

FORMATS = ["csv", "parquet"]


def small_scenario(server_ids: tuple[Any, ...] = ("s1", "s,2")) -> Scenario:
    """Clients 1, 2, 3; topic 007: 1 and 2 publish, topic b: 1 subscribes and 3 publishes."""
    free = np.full(2, np.inf)
    return Scenario(
        ScenarioSettings("small", 10.0, 10.0),
        Servers(
            pa.array(server_ids), *(np.zeros(2), np.ones(2)), free, free, free, pa.array(["n"] * 2)
        ),
        Clients(pa.array([1, 2, 3]), np.zeros(3), np.zeros(3)),
        Topics(pa.array(["007", "b"]), np.ones(2), free, np.zeros(2)),
        Members(
            topic=np.array([0, 0, 1, 1], dtype=np.int32),
            client=np.array([0, 1, 0, 2], dtype=np.int32),
            publishes=np.array([True, True, False, True]),
            subscribes=np.ones(4, dtype=np.bool_),
            rate_hz=np.ones(4),
        ),
    )


def small_plan() -> Plan:
    return Plan(
        homes=np.array([0, 1, 1], dtype=np.int32),
        publish=np.array([0, 0, -1, 1], dtype=np.int32),
        brokers=Brokers(
            topic=np.array([0, 1, 1], dtype=np.int32),
            server=np.array([0, 1, 1], dtype=np.int32),
            on_edge=np.array([True, True, False]),
            share=np.array([1.0, 0.7, 0.3]),
        ),
    )


def small_report() -> PlanReport:
    return PlanReport(
        model=Model.PLACEMENT,
        method="exact",
        objective=Objective.D3,
        parameters={"regions": np.int64(4), "weights": (1.5, np.float64(2))},
        seed=3,
        status=PlanStatus.OPTIMAL,
        cost=1.25,
        bound=None,
        gap=math.inf,
        metrics={"D1": 1.0, "D2": math.nan},
        limits={"speed_ms": 0.5, "one_server_ms": None},
        seconds=0.1,
        version="0.1.0",
        scenario_fingerprint="00ff",
        search={"trace": np.array([2.0, np.inf])},
    )


HAND = {
    "homes.csv": 'client_id,server_id\n3,"s,2"\n1,s1\n2,"s,2"\n',
    "publish.csv": 'topic_id,client_id,server_id\nb,3,"s,2"\n007,2,s1\n007,1,s1\n',
    "brokers.csv": 'topic_id,server_id,hosted,share\n007,s1,edge,1\nb,"s,2",edge,0.7\nb,"s,2",cloud,0.3\n',
}


def put(folder: Path, changes: dict[str, str | None] | None = None) -> Path:
    """Write the plan above by hand with some files replaced, or left out with None."""
    folder.mkdir()
    for name, content in {**HAND, **(changes or {})}.items():
        if content is not None:
            (folder / name).write_text(content)
    return folder


def assert_same(first: Plan, second: Plan) -> None:
    np.testing.assert_array_equal(first.homes, second.homes)
    np.testing.assert_array_equal(first.publish, second.publish)
    for field in ("topic", "server", "on_edge", "share"):
        a, b = getattr(first.brokers, field), getattr(second.brokers, field)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("server_ids", [("s1", "s,2"), (5, -6), ("07", 'é "x" y')])
def test_a_plan_comes_back_as_it_was_written(
    tmp_path: Path, form: Any, server_ids: tuple[Any, ...]
) -> None:
    scenario = small_scenario(server_ids)
    write_plan(small_plan(), small_report(), scenario, tmp_path / "p", table_format=form)
    plan, content = read_plan(tmp_path / "p", scenario)
    assert_same(small_plan(), plan)
    assert content == report_to_json(small_report())
    assert os.listdir(tmp_path) == ["p"]


def test_a_plan_by_hand_is_the_same_plan(tmp_path: Path) -> None:
    plan, content = read_plan(put(tmp_path / "p"), small_scenario())
    assert_same(small_plan(), plan)
    assert content == {}


def test_without_publish_and_brokers_the_homes_decide(tmp_path: Path) -> None:
    folder = put(tmp_path / "p", {"publish.csv": None, "brokers.csv": None})
    plan, _ = read_plan(folder, small_scenario())
    assert plan.publish.tolist() == [0, 1, -1, 1]
    assert plan.publish.dtype == np.int32
    assert plan.brokers.topic.tolist() == [0, 0, 1]
    assert plan.brokers.server.tolist() == [0, 1, 1]
    assert plan.brokers.on_edge.tolist() == [True] * 3
    assert plan.brokers.share.tolist() == [1.0] * 3


def test_the_csv_tables_have_the_ids_of_the_scenario(tmp_path: Path) -> None:
    write_plan(small_plan(), small_report(), small_scenario(), tmp_path / "p", table_format="csv")
    rows = {}
    for name in ("homes", "publish", "brokers"):
        with (tmp_path / "p" / f"{name}.csv").open(newline="") as file:
            rows[name] = list(csv.reader(file))
    assert rows["homes"] == [["client_id", "server_id"], ["1", "s1"], ["2", "s,2"], ["3", "s,2"]]
    assert rows["publish"] == [
        ["topic_id", "client_id", "server_id"],
        ["007", "1", "s1"],
        ["007", "2", "s1"],
        ["b", "3", "s,2"],
    ]
    assert rows["brokers"] == [
        ["topic_id", "server_id", "hosted", "share"],
        ["007", "s1", "edge", "1"],
        ["b", "s,2", "edge", "0.7"],
        ["b", "s,2", "cloud", "0.3"],
    ]


def test_the_report_is_plain_json_without_infinities() -> None:
    content = report_to_json(small_report())
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content == {
        "model": "placement",
        "method": "exact",
        "objective": "d3",
        "parameters": {"regions": 4, "weights": [1.5, 2.0]},
        "seed": 3,
        "status": "optimal",
        "cost": 1.25,
        "bound": None,
        "gap": None,
        "metrics": {"D1": 1.0, "D2": None},
        "limits": {"speed_ms": 0.5, "one_server_ms": None},
        "seconds": 0.1,
        "version": "0.1.0",
        "scenario_fingerprint": "00ff",
        "warnings": [],
        "search": {"trace": [2.0, None]},
    }
    assert type(content["model"]) is str


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_plan_is_written_with_the_same_bytes(tmp_path: Path, form: Any) -> None:
    written = []
    for name in ("a", "b"):
        folder = tmp_path / name
        write_plan(small_plan(), small_report(), small_scenario(), folder, table_format=form)
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1]
    assert len(written[0]) == 4


WRONG: list[tuple[str, str | None, int | None, str | None, str]] = [
    ("homes.csv", None, None, None, "missing"),
    ("homes.csv", "client_id\n1\n", None, "server_id", "found are: client_id"),
    ("homes.csv", "client_id,server_id\n1,s1\n2,s1\n", None, "client_id", "client 3 has no home"),
    ("homes.csv", "client_id,server_id\n1,s1\n2,s1\n3,s1\n2,s1\n", 4, "client_id", "client 2 has two homes"),
    ("homes.csv", "client_id,server_id\n1,s1\n9,s1\n", 2, "client_id", "there is no client 9"),
    ("homes.csv", "client_id,server_id\n1,s1\n2,s7\n3,s1\n", 2, "server_id", "there is no server 's7'"),
    ("publish.csv", "topic_id,client_id,server_id\n007,1,s1\nb,3,s1\n", None, None, "no row for client 2, who publishes topic '007'"),
    ("publish.csv", "topic_id,client_id,server_id\n007,1,s1\nb,1,s1\n", 2, "client_id", "does not publish"),
    ("publish.csv", "topic_id,client_id,server_id\n007,1,s1\nb,2,s1\n", 2, "client_id", "does not publish"),
    ("publish.csv", "topic_id,client_id,server_id\n007,1,s1\n007,1,s1\n", 2, "client_id", "twice"),
    ("publish.csv", "topic_id,client_id,server_id\n7,1,s1\n", 1, "topic_id", "there is no topic 7"),
    ("publish.csv", "topic_id,client_id,server_id\n007,0,s1\n", 1, "client_id", "there is no client 0"),
    ("publish.csv", "topic_id,client_id,server_id\n007,1,x\n", 1, "server_id", "there is no server 'x'"),
    ("brokers.csv", "topic_id,server_id,hosted\n007,s1,edge\nb,s1,fog\n", 2, "hosted", "'fog' is neither edge nor cloud"),
    ("brokers.csv", "topic_id,server_id,hosted\n007,s1,1\n", 1, "hosted", "neither edge nor cloud"),
    ("brokers.csv", "topic_id,server_id,share\n007,s1,1\nb,s1,1.5\n", 2, "share", "1.5 is more than 1"),
    ("brokers.csv", "topic_id,server_id,share\n007,s1,-0.5\n", 1, "share", "-0.5 is negative"),
    ("brokers.csv", "topic_id,server_id,share\n007,s1,nan\n", 1, "share", "NaN"),
    ("brokers.csv", "topic_id,server_id\n007,s1\n007,s1\n", 2, "server_id", "twice"),
    ("brokers.csv", "topic_id,server_id\nc,s1\n", 1, "topic_id", "there is no topic 'c'"),
    ("brokers.csv", "topic_id,server_id\nb,s3\n", 1, "server_id", "there is no server 's3'"),
    ("plan.json", "{", None, None, "not valid JSON"),
    ("plan.json", '"x"', None, None, "must hold a JSON object"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "row", "column", "words"), WRONG)
def test_an_error_names_file_row_and_column(
    tmp_path: Path, file: str, content: str | None, row: int | None, column: str | None, words: str
) -> None:
    folder = put(tmp_path / "p", {file: content})
    with pytest.raises(PlanError) as caught:
        read_plan(folder, small_scenario())
    assert caught.value.file == f"p/{file}"
    assert (caught.value.row, caught.value.column) == (row, column)
    assert words in str(caught.value)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(list(HAND)), st.integers(0, 80), st.integers(0, 8), st.binary(max_size=6))
def test_whatever_bytes_are_in_a_file_nothing_but_a_plan_error_comes(
    name: str, at: int, cut: int, junk: bytes
) -> None:
    content = bytearray(HAND[name].encode())
    content[at : at + cut] = junk
    with tempfile.TemporaryDirectory() as base:
        folder = put(Path(base) / "p")
        (folder / name).write_bytes(content)
        try:
            clients = len(read_plan(folder, small_scenario())[0].homes)
        except PlanError:
            clients = 3
        assert clients == 3


def test_a_missing_plan_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="nowhere: there is no such plan folder"):
        read_plan(tmp_path / "nowhere", small_scenario())


def test_a_plan_does_not_replace_a_scenario(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "scenario.json").write_text("{}")
    with pytest.raises(OutputError, match="it is not a plan folder"):
        write_plan(small_plan(), small_report(), small_scenario(), folder, overwrite=True)
    assert (folder / "scenario.json").read_text() == "{}"


def test_a_failure_while_writing_keeps_the_plan_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "p"
    write_plan(small_plan(), small_report(), small_scenario(), folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full_disk(path: Path, columns: Any) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearcast.domain.plan_files.write_table", full_disk)
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        write_plan(small_plan(), small_report(), small_scenario(), folder, overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == ["p"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_plan_in_which_all_members_publish_is_read_as_it_was(tmp_path: Path, form: str) -> None:
    scenario, plan = small_scenario(), small_plan()
    members = replace(scenario.members, publishes=np.ones(4, dtype=np.bool_))
    scenario = replace(scenario, members=members)
    plan = replace(plan, publish=np.array([0, 0, 1, 1], dtype=np.int32))
    write_plan(plan, small_report(), scenario, tmp_path / "plan", table_format=form)  # type: ignore[arg-type]
    found, _ = read_plan(tmp_path / "plan", scenario)
    assert found.publish.tolist() == plan.publish.tolist()
