from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from cli.conftest import Run

SMALL = ("--clients", 24, "--servers", 3, "--topics", 5, "--time-limit", 0.3, "--rate", 20)


@pytest.mark.slow
def test_the_demo_learns_plans_runs_and_reports(run: Run, tmp_path: Path) -> None:
    answer = run(
        "demo", *SMALL, "--methods", "nearest,optimised", "--delay-factor", 5,
        "--out", "demo", "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    found = answer.json
    assert [one["method"] for one in found["methods"]] == ["nearest", "optimised"]
    assert found["learned"]["clients"] == found["learned"]["all_clients"] == 24
    assert found["learned"]["memberships"] == found["learned"]["all_memberships"]
    loop = found["replanned"]
    assert loop["moved_clients"] > 0
    assert loop["acknowledged"] == loop["published"] > 0
    assert (loop["lost"], loop["doubled"], loop["round"]["failed"]) == (0, 0, False)
    drive = answer.json["vehicles"]
    assert drive["expected"] == drive["delivered"] > 0
    assert {drive[one] for one in ("false", "missed", "lost", "doubled", "unalerted")} == {0}
    folder = tmp_path / "demo"
    times = parquet.read_table(folder / "notifications.parquet")
    for one in found["methods"]:
        own = times.filter([method == one["method"] for method in times["method"].to_pylist()])
        assert one["missing"] == 0
        assert one["notifications"] == len(own) > 0
        assert one["acknowledged"] == one["published"] > 0
        # the emulated network alone takes this long: nothing can arrive sooner on the whole
        assert one["measured_ms"] >= 0.99 * one["predicted_ms"] > 0
    assert (folder / "report.html").stat().st_size > 100_000
    assert run("evaluate", "demo/run/scenario", "demo/run/plan").code == 0
    assert run("evaluate", "demo/run/scenario", "demo/plan-nearest").code == 0


def test_the_demo_refuses_an_unknown_method_before_any_work(run: Run, tmp_path: Path) -> None:
    answer = run("demo", "--methods", "nearest,magic", "--out", "demo")
    assert answer.code == 2
    assert re.search(r"magic", answer.err)
    assert not (tmp_path / "demo").exists()


def test_the_demo_refuses_an_impossible_city(run: Run, tmp_path: Path) -> None:
    answer = run("demo", "--clients", 1, "--out", "demo")
    assert answer.code == 2
    assert "2 clients or more" in answer.err
    assert not (tmp_path / "demo").exists()
