"""Generate, plan, evaluate, compare and size, end to end on small scenarios."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cli.conftest import Run

PLAN_KEYS = {
    "model",
    "method",
    "objective",
    "parameters",
    "seed",
    "status",
    "cost",
    "bound",
    "gap",
    "metrics",
    "limits",
    "seconds",
    "version",
    "scenario_fingerprint",
}
SMALL = ["city", "--clients", 60, "--servers", 4, "--topics", 10, "--seed", 3]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("reloc2020", ["--ratio", "0.07"]),
        ("reloc2021", ["--sigma", "5", "--spool-per-member", "2"]),
        ("placement2022", []),
        ("city", ["--clients", "300", "--servers", "9", "--topics", "40"]),
    ],
)
def test_generators_write_the_same_bytes_for_the_same_seed(
    run: Run, kind: str, options: list[str], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        answer = run("scenario", "generate", kind, *options, "--seed", 1, "--out", name, "--json")
        assert answer.code == 0, answer.err
        assert answer.json["clients"] > 0
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    assert run("scenario", "show", "one", "--json").json["servers"] > 0
    assert "servers" in run("scenario", "show", "one").out


@pytest.mark.parametrize("model", ["connections", "ratio", "placement"])
@pytest.mark.parametrize("method", ["random", "nearest", "reloc", "otos-centre", "optimised"])
def test_a_plan_says_what_evaluate_says(run: Run, model: str, method: str, tmp_path: Path) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    options = ["--model", model, "--method", method, "--iterations", 20000]
    answer = run("plan", "s", *options, "--out", "p", "--json")
    assert answer.code == 0, answer.err
    report = answer.json
    assert set(report) >= PLAN_KEYS
    assert report == json.loads((tmp_path / "p" / "plan.json").read_text())
    assert report["bound"] <= report["cost"] * (1 + 1e-9)
    value = run("evaluate", "s", "p", "--json").json
    assert value["cost"] == pytest.approx(report["cost"], rel=1e-9)
    assert value["model"] == model
    for name, number in report["metrics"].items():
        assert value["metrics"][name] == pytest.approx(number)
    assert set(value["servers"][0]) >= {"server_id", "storage_used", "compute_used", "local_share"}
    assert len(value["servers"]) == 4
    assert "local share" in run("evaluate", "s", "p").out


def test_a_plan_written_by_hand_is_evaluated(run: Run, tmp_path: Path) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    with (tmp_path / "s" / "clients.csv").open() as file:
        clients = [row["client_id"] for row in csv.DictReader(file)]
    with (tmp_path / "s" / "servers.csv").open() as file:
        server = next(csv.DictReader(file))["server_id"]
    (tmp_path / "mine").mkdir()
    lines = ["client_id,server_id", *(f"{client},{server}" for client in clients)]
    (tmp_path / "mine" / "homes.csv").write_text("\n".join(lines) + "\n")
    answer = run("evaluate", "s", "mine", "--json")
    assert answer.code == 0, answer.err
    assert [row["clients"] for row in answer.json["servers"]] == [60, 0, 0, 0]


def test_a_refused_plan_leaves_nothing(run: Run, tmp_path: Path) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    answer = run("plan", "s", "--method", "nonsense", "--out", "p")
    assert answer.code == 2
    assert "optimised" in answer.err
    assert not (tmp_path / "p").exists()
    run("plan", "s", "--method", "nearest", "--out", "p")
    before = (tmp_path / "p" / "plan.json").read_bytes()
    again = run("plan", "s", "--method", "random", "--out", "p")
    assert again.code == 2
    assert "exists" in again.err
    assert (tmp_path / "p" / "plan.json").read_bytes() == before
    assert run("plan", "s", "--method", "random", "--out", "p", "--overwrite").code == 0


def test_the_same_seed_and_iterations_give_the_same_plan(run: Run, tmp_path: Path) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    for name in ("one", "two"):
        run("plan", "s", "--iterations", 50000, "--seed", 5, "--out", name)
    one, two = (tmp_path / name / "homes.csv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_compare_ranks_the_methods_and_writes_a_report(run: Run, tmp_path: Path) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    answer = run("compare", "s", "--time-limit", 0.5, "--out", "report")
    assert answer.code == 0, answer.err
    assert "proven bound" in answer.out
    page = (tmp_path / "report" / "report.html").read_text()
    assert "optimised" in page
    for picture in ("comparison.png", "delays.png", "map-reloc.png", "servers-reloc.png"):
        assert (tmp_path / "report" / picture).stat().st_size > 1000
    numbers = run("compare", "s", "--time-limit", 0.5, "--no-pictures", "--json").json
    costs = [method["cost"] for method in numbers["methods"]]
    assert costs == sorted(costs)
    assert numbers["methods"][0]["method"] == "optimised"
    assert all(cost >= numbers["bound"] * (1 - 1e-9) for cost in costs)


def test_size_finds_a_factor_or_the_limit_that_forbids_it(run: Run) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    now = run("plan", "s", "--iterations", 20000, "--out", "p", "--json").json["cost"]
    options = ["--time-limit", 0.1, "--json"]
    small = run("size", "s", "--target-ms", now * 1.5, *options).json
    assert small["reachable"]
    assert small["factor"] <= 1
    assert small["reached_ms"] <= now * 1.5
    assert small["proved_insufficient_below"] <= small["factor"]
    never = run("size", "s", "--target-ms", 1e-6, *options).json
    assert not never["reachable"]
    assert never["limit_ms"] > 1e-6
    assert "not reachable" in run("size", "s", "--target-ms", 1e-6, "--time-limit", 0.1).out


def test_replanning_keeps_what_still_fits(run: Run, tmp_path: Path) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    run("plan", "s", "--iterations", 50000, "--out", "old")
    options = ["--from", "old", "--migration-price", 1e9, "--json"]
    same = run("plan", "s", *options, "--out", "same").json
    assert same["search"]["migrated_spools"] == 0
    path = tmp_path / "s" / "clients.csv"
    rows = path.read_text().splitlines()
    moved = [rows[1].split(",")[0], "0.0", "0.0"]
    path.write_text("\n".join([rows[0], ",".join(moved), *rows[2:]]) + "\n")
    after = run("plan", "s", *options, "--out", "after")
    assert after.code == 0, after.err
    assert after.json["search"]["migrated_spools"] == 0


def test_pictures_of_a_plan_are_drawn_beside_it(run: Run, tmp_path: Path) -> None:
    run("scenario", "generate", *SMALL, "--out", "s")
    assert run("plan", "s", "--method", "nearest", "--pictures", "--out", "p").code == 0
    for name in ("map.png", "servers.png", "delays.png"):
        assert (tmp_path / "p-pictures" / name).stat().st_size > 1000
    assert run("plan", "s", "--method", "nearest", "--out", "p", "--overwrite").code == 0
