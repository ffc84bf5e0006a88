"""Bad input: one clear error that names what and where, exit code 2, nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run

SCENARIO = ["city", "--clients", 30, "--servers", 3, "--topics", 5, "--seed", 1, "--out", "s"]


def edit(path: Path, change: Callable[[list[list[str]]], list[list[str]]]) -> None:
    """Change the rows of a CSV file, the header included."""
    rows = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("".join(",".join(row) + "\n" for row in change(rows)))


def cell(row: int, column: str, value: str) -> Callable[[list[list[str]]], list[list[str]]]:
    """Set one cell; rows of data count from 1."""

    def change(rows: list[list[str]]) -> list[list[str]]:
        rows[row][rows[0].index(column)] = value
        return rows

    return change


def without_column(column: str) -> Callable[[list[list[str]]], list[list[str]]]:
    def change(rows: list[list[str]]) -> list[list[str]]:
        index = rows[0].index(column)
        return [row[:index] + row[index + 1 :] for row in rows]

    return change


def nobody_publishes_the_first_topic(rows: list[list[str]]) -> list[list[str]]:
    topic, publishes = rows[0].index("topic_id"), rows[0].index("publishes")
    subscribes = rows[0].index("subscribes")
    for row in rows[1:]:
        if row[topic] == rows[1][topic]:
            row[publishes], row[subscribes] = "0", "1"
    return rows


CASES = {
    "wrong column": ("clients.csv", without_column("x_km"), ["clients.csv", "x_km"]),
    "unknown id": (
        "members.csv",
        cell(2, "client_id", "nobody"),
        ["members.csv", "row 2", "nobody"],
    ),
    "duplicate member": ("members.csv", lambda rows: [*rows, rows[1]], ["members.csv", "row"]),
    "negative number": (
        "servers.csv",
        cell(1, "storage", "-4"),
        ["servers.csv", "row 1", "storage"],
    ),
    "NaN": ("clients.csv", cell(3, "y_km", "nan"), ["clients.csv", "row 3", "y_km"]),
    "not a number": ("topics.csv", cell(2, "spool", "many"), ["topics.csv", "row 2", "many"]),
    "zero servers": ("servers.csv", lambda rows: rows[:1], ["servers.csv"]),
    "no publisher": ("members.csv", nobody_publishes_the_first_topic, ["topics.csv", "publish"]),
    "empty topic": ("topics.csv", lambda rows: [*rows, ["999", *rows[1][1:]]], ["999"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_scenario_is_refused_with_its_place(run: Run, tmp_path: Path, name: str) -> None:
    run("scenario", "generate", *SCENARIO)
    file, change, said = CASES[name]
    edit(tmp_path / "s" / file, change)
    answer = run("plan", "s", "--method", "nearest", "--out", "p")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    for word in said:
        assert word in answer.err
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("file", ["servers.csv", "members.csv", "scenario.json"])
def test_a_missing_file_is_named(run: Run, tmp_path: Path, file: str) -> None:
    run("scenario", "generate", *SCENARIO)
    (tmp_path / "s" / file).unlink()
    answer = run("evaluate", "s", "p")
    assert answer.code == 2
    assert file in answer.err


@pytest.mark.parametrize("model", ["connections", "ratio", "placement"])
@pytest.mark.parametrize("storage", ["0", "0.5"])
def test_storage_below_any_spool_gives_a_plan_through_the_cloud_and_a_warning(
    run: Run, tmp_path: Path, model: str, storage: str
) -> None:
    run("scenario", "generate", *SCENARIO)
    for row in (1, 2, 3):
        edit(tmp_path / "s" / "servers.csv", cell(row, "storage", storage))
    options = ["--model", model, "--iterations", 5000, "--out", "p", "--json"]
    answer = run("plan", "s", *options)
    assert answer.code == 0, answer.err
    assert "cloud" in answer.err
    assert answer.json["warnings"]
    assert answer.json["bound"] <= answer.json["cost"]
    edge = [
        line for line in (tmp_path / "p" / "brokers.csv").read_text().splitlines() if "edge" in line
    ]
    if model == "placement" or storage == "0":
        assert not edge


def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    run: Run, tmp_path: Path
) -> None:
    run("scenario", "generate", *SCENARIO)
    (tmp_path / "file").write_text("in the way")
    for out in ("file", "file/below", "no/such/parent/p"):
        answer = run("plan", "s", "--method", "nearest", "--out", out)
        assert answer.code == 2
        assert "Traceback" not in answer.err
    assert (tmp_path / "file").read_text() == "in the way"
    assert run("compare", "s", "--out", "file").code == 2
    assert run("bench", "placement", "--seeds", 1, "--out", "file").code == 2
    assert sorted(os.listdir(tmp_path)) == ["file", "s"]


def test_a_broken_plan_is_refused_with_its_place(run: Run, tmp_path: Path) -> None:
    run("scenario", "generate", *SCENARIO)
    run("plan", "s", "--method", "nearest", "--out", "p")
    edit(tmp_path / "p" / "homes.csv", cell(4, "server_id", "nowhere"))
    answer = run("evaluate", "s", "p")
    assert answer.code == 2
    assert "homes.csv, row 4" in answer.err
    assert run("plan", "s", "--from", "missing", "--out", "q").code == 2


def test_options_that_do_not_go_together_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("1\t2\n")
    answer = run(
        "scenario", "import", "edges.txt", "--format", "follows", "--locality", 0.5, "--out", "s"
    )
    assert answer.code == 2
    assert "--locality does not go with --format follows" in answer.err
