"""Every injected bad row is in the quarantine under its reason, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.errors import ConfigError, ScenarioError
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages.ingest import ingest_publications
from nearcast.pipeline.stages.members import MembersSettings, find_members
from nearcast.pipeline.stages.plausible import Plausibility, StrayLimits
from nearcast.pipeline.stages.scenario import build_scenario
from nearcast.pipeline.workspace import Workspace
from pipeline.log_rows import Row, random_rows, write_rows
from pipeline.nasty_logs import NOT_TEXT, NOW_S, START_S, write_nasty_log


def ingest(workspace: Workspace, path: Path, plausible: Plausibility | None = None) -> StageRecord:
    record = StageRecord("ingest")
    ingest_publications(workspace, [path], record, plausible, NOW_S)
    return record


@pytest.mark.parametrize("in_degrees", [False, True])
def test_the_quarantine_reproduces_what_was_injected_in_every_format(
    workspace: Workspace, tmp_path: Path, in_degrees: bool
) -> None:
    fingerprints = set()
    for name in ("log.jsonl", "log.csv.gz", "log.parquet"):
        path = tmp_path / name
        log = write_nasty_log(path, good=300, seed=4, in_degrees=in_degrees)
        record = ingest(workspace, path)
        assert record.notes["reasons"] == log.bad, name
        assert record.rows_out == len(log.good) == 300
        assert record.rows_in == 300 + log.bad.total()
        aside = workspace.load("quarantine").where("bytes is not null").toArrow().to_pylist()
        kind = path.suffixes[0].replace(".jsonl", ".json")[1:]
        assert [row["bytes"] for row in aside] == ([NOT_TEXT[kind]] if kind in NOT_TEXT else [])
        found = workspace.load("publications").orderBy("row").toArrow().to_pylist()
        assert [(row["client"], row["topic"], row["time_s"]) for row in found] == [
            (row["client"], row["topic"], float(row["time"])) for row in log.good
        ]
        find_members(workspace, MembersSettings(), StageRecord("members"))
        scenario = build_scenario(workspace, MembersSettings(), "log", 0)
        fingerprints.add(scenario_fingerprint(scenario))
    assert len(fingerprints) == 1


def rows_with(count: int, column: str, value: object) -> list[Row]:
    """Return good rows, the first few of which have another value."""
    rows = [row | {"time": START_S + row["time"]} for row in random_rows(200)]  # type: ignore[operator]
    return [row | {column: value} for row in rows[:count]] + rows[count:]


def test_plausibility_is_what_the_user_says(workspace: Workspace, tmp_path: Path) -> None:
    rows = rows_with(2, "size", 5e9)
    rows[2] |= {"time": START_S - 10}
    rows[3] |= {"x_km": 200.0}
    path = write_rows(tmp_path / "log.csv", rows)
    assert ingest(workspace, path).notes["reasons"] == {"size is out of range": 2}
    limits = Plausibility(largest_size=1e10, largest_km=100, earliest=START_S, latest=NOW_S)
    record = ingest(workspace, path, limits)
    assert record.notes["reasons"] == {"position is out of range": 1, "time is out of range": 1}
    assert record.notes["plausible"]["earliest_s"] == START_S
    everything = Plausibility(1e300, 1e300, latest=1e300)
    assert ingest(workspace, path, everything).quarantined == 0


def test_zero_degrees_are_a_place_if_the_user_says_so(workspace: Workspace, tmp_path: Path) -> None:
    rows = random_rows(20, in_degrees=True)
    rows[0] |= {"latitude": 0, "longitude": 0}
    path = write_rows(tmp_path / "log.jsonl", rows)
    assert ingest(workspace, path).notes["reasons"] == {"position is 0, 0": 1}
    assert ingest(workspace, path, Plausibility(zero_degrees=True)).quarantined == 0


def test_a_log_in_milliseconds_is_told_so(workspace: Workspace, tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "log.csv", [row | {"time": START_S * 1000} for row in random_rows(5)]
    )
    with pytest.raises(ScenarioError, match=r"as if it were in milliseconds \(5\)"):
        ingest(workspace, path)


@pytest.mark.parametrize(
    "limits",
    [
        {"largest_size": 0},
        {"largest_km": float("nan")},
        {"earliest": "soon"},
        {"latest": float("inf")},
        {"earliest": 2, "latest": 1},
    ],
)
def test_limits_that_cannot_be_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Plausibility(**limits)  # type: ignore[arg-type]


def members_of(
    workspace: Workspace, rows: list[Row], strays: StrayLimits | None = None
) -> StageRecord:
    """Return the record of stage members for a log of these rows."""
    ingest(workspace, write_rows(workspace.folder.with_name("log.csv"), rows))
    record = StageRecord("members")
    find_members(workspace, MembersSettings(strays=strays or StrayLimits()), record)
    return record


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("time", 0, "time is far from all others"),
        ("x_km", 30_000.0, "position is far from all others"),
        ("size", 1e9, "size is far from all others"),
    ],
)
@pytest.mark.parametrize("strays", [2, 3])
def test_few_rows_far_from_all_others_do_not_stretch_the_log(
    workspace: Workspace, column: str, value: object, reason: str, strays: int
) -> None:
    record = members_of(workspace, rows_with(strays, column, value))
    aside = workspace.load("quarantine").toArrow().to_pylist()
    # Three of 200 rows are more than a hundredth: a part of the log.
    assert [row["reason"] for row in aside] == [reason] * (strays if strays == 2 else 0)
    assert record.quarantined == len(aside)
    for row in aside:
        name = "time_s" if column == "time" else column
        assert json.loads(row["text"])[name] == value
        assert row["file"].endswith("log.csv")
    assert (record.notes["span_s"] <= 600) == (column != "time" or strays == 2)


@pytest.mark.parametrize(("count", "is_stray"), [(19, False), (20, True), (99, True)])
def test_one_row_may_be_a_stray_from_twenty_on(
    workspace: Workspace, count: int, is_stray: bool
) -> None:
    record = members_of(workspace, rows_with(1, "time", 0)[:count])
    assert record.quarantined == int(is_stray)
    assert (record.notes["span_s"] <= 600) == is_stray
    # Once more, as a run that goes on does: what was added before is replaced.
    find_members(workspace, MembersSettings(), record)
    assert workspace.count("quarantine") == int(is_stray)


def test_which_rows_are_strays_is_what_the_user_says(workspace: Workspace) -> None:
    assert members_of(workspace, rows_with(5, "time", 0), StrayLimits(0.03)).quarantined == 5
    assert members_of(workspace, rows_with(1, "time", 0), StrayLimits(0.0)).quarantined == 0
    rows = rows_with(1, "size", 50.0)
    assert members_of(workspace, rows, StrayLimits(widths=3.0)).quarantined == 1
    assert members_of(workspace, rows).quarantined == 0


@pytest.mark.parametrize(
    ("middle", "odd", "is_stray"),
    [(11.5, -60.0, True), (11.5, 12.5, False), (179.95, -179.95, False)],
)
def test_strays_in_degrees_are_those_far_on_the_globe(
    workspace: Workspace, middle: float, odd: float, is_stray: bool
) -> None:
    rows = [row | {"longitude": middle} for row in random_rows(120, in_degrees=True)]
    rows[7] |= {"longitude": odd}
    members_of(workspace, rows)
    reasons = [row["reason"] for row in workspace.load("quarantine").toArrow().to_pylist()]
    assert reasons == (["position is far from all others"] if is_stray else [])


@pytest.mark.parametrize("limits", [{"share": -0.1}, {"share": 0.5}, {"widths": 0.0}])
def test_stray_limits_that_cannot_be_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        StrayLimits(**limits)
