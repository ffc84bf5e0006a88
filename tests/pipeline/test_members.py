from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.imports.publications import PublicationsParams
from nearcast.errors import ConfigError, ScenarioError
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages import coded_rows, members
from nearcast.pipeline.stages.ingest import ingest_publications
from nearcast.pipeline.stages.members import MembersSettings, find_members
from nearcast.pipeline.workspace import Workspace
from pipeline.log_rows import Row, random_rows, write_rows


def found_members(workspace: Workspace, log: Path, settings: MembersSettings) -> StageRecord:
    ingest_publications(workspace, [log], StageRecord("ingest"))
    record = StageRecord("members")
    find_members(workspace, settings, record)
    return record


def table(workspace: Workspace, name: str) -> list[Row]:
    frame = workspace.load(name)
    rows: list[Row] = frame.toArrow().sort_by(frame.columns[0]).to_pylist()
    return rows


def random_actions(count: int) -> list[Row]:
    """Return rows of all actions, many of a client and a topic at the same moment."""
    rng = np.random.default_rng(4)
    actions = ["publish", "subscribe", "unsubscribe", "report"]
    return [
        {
            "topic": f"t{rng.integers(9)}",
            "client": f"c{rng.integers(12)}",
            "time": float(rng.integers(0, 20)),
            "x_km": float(rng.uniform(0, 9)),
            "y_km": float(rng.uniform(0, 9)),
            "size": float(rng.integers(1, 5)),
            "action": actions[rng.choice(4, p=[0.2, 0.3, 0.4, 0.1])],
        }
        for _ in range(count)
    ]


@pytest.mark.usefixtures("either_way")
def test_members_of_a_window_are_those_of_plain_loops(workspace: Workspace, tmp_path: Path) -> None:
    rows = random_actions(300)
    log = write_rows(tmp_path / "log.jsonl", rows)
    record = found_members(workspace, log, MembersSettings(since=3, until="1970-01-01T00:00:15Z"))
    inside = [row for row in rows if 3 <= row["time"] <= 15]  # type: ignore[operator]
    assert record.notes["rows_outside_window"] == len(rows) - len(inside)

    messages: dict[tuple[object, object], int] = {}
    last: dict[tuple[object, object], tuple[float, bool]] = {}
    for row in inside:
        key = row["topic"], row["client"]
        if row["action"] == "publish":
            messages[key] = messages.get(key, 0) + 1
        elif row["action"] != "report":
            moment = row["time"]
            assert isinstance(moment, float)
            if key not in last or moment >= last[key][0]:
                last[key] = moment, row["action"] == "subscribe"
    topics = {topic for topic, _ in messages}
    subscribed = {key for key, (_, subscribes) in last.items() if subscribes and key[0] in topics}
    wanted = {
        key: (key in messages, key in subscribed, messages.get(key, 0), messages.get(key, 0) / 12)
        for key in messages.keys() | subscribed
    }
    clients, topic_rows = table(workspace, "clients"), table(workspace, "topics")
    found = {
        (
            topic_rows[row["topic_index"]]["topic_id"],  # type: ignore[call-overload]
            clients[row["client_index"]]["client_id"],  # type: ignore[call-overload]
        ): (row["publishes"], row["subscribes"], row["messages"], row["rate_hz"])
        for row in table(workspace, "members")
    }
    assert found == wanted

    order = list(dict.fromkeys(row["client"] for row in inside))
    assert [client["client_id"] for client in clients] == order
    assert [client["client_index"] for client in clients] == list(range(len(order)))
    for client in clients:
        own = [row for row in inside if row["client"] == client["client_id"]]
        assert client["reports"] == len(own)
        for axis in ("x_km", "y_km"):
            assert client[axis] == pytest.approx(statistics.median(row[axis] for row in own))  # type: ignore[type-var]
    for topic in topic_rows:
        name = topic["topic_id"]
        sent = [row for row in inside if row["topic"] == name and row["action"] == "publish"]
        assert topic["messages"] == len(sent)
        assert topic["publishers"] == sum(key[0] == name for key in messages)
        assert topic["subscribers"] == sum(key[0] == name for key in subscribed)
        assert topic["mean_size"] == pytest.approx(np.mean([row["size"] for row in sent]))
    assert {topic["topic_id"] for topic in topic_rows} == topics
    assert not workspace.path("coded").exists()


@pytest.mark.usefixtures("either_way")
def test_positions_that_no_plane_holds_are_left_out(workspace: Workspace, tmp_path: Path) -> None:
    rows = random_rows(60, in_degrees=True)
    lost = [
        rows[0] | {"latitude": 0.0, "longitude": 1.0},
        rows[1] | {"client": "lost", "latitude": -48.0},
    ]
    log = write_rows(tmp_path / "log.csv", rows + lost)
    record = found_members(workspace, log, MembersSettings())
    assert record.quarantined == 2
    aside = workspace.load("quarantine").orderBy("row").toArrow().to_pylist()
    assert {row["reason"] for row in aside} == {"position is too far from the others"}
    assert json.loads(aside[1]["text"])["client"] == "lost"
    assert "lost" not in {client["client_id"] for client in table(workspace, "clients")}
    assert sum(int(str(row["messages"])) for row in table(workspace, "members")) == 60


def test_errors_say_what_to_change(workspace: Workspace, tmp_path: Path) -> None:
    log = write_rows(tmp_path / "log.csv", [row | {"action": "report"} for row in random_rows(5)])
    with pytest.raises(ScenarioError, match="nobody publishes"):
        found_members(workspace, log, MembersSettings())
    with pytest.raises(ScenarioError, match=r"no row of the log is in the window; it goes from 1"):
        find_members(workspace, MembersSettings(until=5), StageRecord("members"))
    with pytest.raises(ConfigError, match="since 5 is after until 4"):
        MembersSettings(since=5, until=4)
    with pytest.raises(ConfigError, match="'noon' is neither seconds nor an ISO date"):
        MembersSettings(since="noon")
    (tmp_path / "sites.csv").write_text("id,latitude,longitude\n1,48,11\n")
    with pytest.raises(ScenarioError, match=r"sites.csv: no column x_km"):
        find_members(
            workspace, MembersSettings(sites=tmp_path / "sites.csv"), StageRecord("members")
        )


@pytest.mark.usefixtures("either_way")
def test_nobody_subscribes_if_publishers_do_not(workspace: Workspace, tmp_path: Path) -> None:
    log = write_rows(tmp_path / "log.parquet", random_rows(50))
    parameters = PublicationsParams(subscribe=False)
    found_members(workspace, log, MembersSettings(parameters=parameters))
    found = table(workspace, "members")
    assert all(row["publishes"] and not row["subscribes"] for row in found)


def test_a_busy_client_is_placed_as_all_others(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "ROWS_OF_ONE_TASK", 0)
    monkeypatch.setattr(coded_rows, "BUSY_ROWS", 20)
    rows = [row | {"x_km": 5 + row["x_km"]} for row in random_rows(120)]  # type: ignore[operator]
    # Three in four rows are of one client, which stays where it is most of the time.
    rows += [rows[0] | {"x_km": 3.0 + (n % 5 == 0) * n} for n in range(361)]
    log = write_rows(tmp_path / "log.jsonl", rows)
    found_members(workspace, log, MembersSettings())
    places = {row["client_id"]: row for row in table(workspace, "clients")}
    for client, place in places.items():
        for axis in ("x_km", "y_km"):
            own = [float(str(row[axis])) for row in rows if str(row["client"]) == client]
            assert place[axis] == statistics.median(own)
