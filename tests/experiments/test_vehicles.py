"""Vehicles past simulated servers: the figures are those of plain loops, and faults are seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.errors import ConfigError
from nearcast.experiments.vehicles.audit import Audit
from nearcast.experiments.vehicles.driving import edge_places
from nearcast.experiments.vehicles.incidents import Incident
from nearcast.experiments.vehicles.run import DriveSettings
from nearcast.geo.bounds import Bounds
from nearcast.mobility.moment import Moment
from nearcast.mobility.synthetic import SyntheticMover, SyntheticParams
from nearcast.mobility.trace import write_trace

ALERT = {"alert": "collision", "position": [5.0, 2.0], "radius_km": 2.0}
KEY = ("car", 1, 1, "collision")
PLACES = {"in": (5.0, 3.9), "edge": (7.0, 2.0), "out": (7.01, 2.0)}


def audit_of(*heard: str) -> dict[str, Any]:
    audit = Audit()
    for name in heard:
        audit.note(KEY, ALERT, name, 40.0, 5, PLACES)
    return audit.summary()


def test_who_is_in_the_circle_is_expected_and_nobody_else() -> None:
    found = audit_of("in", "edge")
    assert [found[name] for name in ("alerts", "expected", "delivered", "false", "missed")] == [
        *(1, 2, 2, 0, 0)
    ]
    assert found["in_deadline"] == {"emergency": 1.0}


def test_each_kind_of_fault_is_counted() -> None:
    found = audit_of("in", "in", "out")
    assert [found[name] for name in ("false", "missed", "doubled")] == [1, 1, 1]


def test_who_comes_into_a_valid_area_later_may_be_told_then() -> None:
    audit = Audit()
    audit.note(KEY, ALERT, "in", 40.0, 5, PLACES)
    audit.note(KEY, ALERT, "out", 9_000.0, 14, {"out": (5.0, 2.0)})
    found = audit.summary()
    assert (found["entered"], found["false"]) == (1, 0)


def test_a_lone_alarm_comes_from_the_nearest_vehicle() -> None:
    x_km = np.array([0.0, 0.2, 5.0])
    moment = Moment(0.0, ["a", "b", "c"], x_km, np.zeros(3), np.zeros(3), np.zeros(3))
    assert Incident(0, "collision", 0.15, 0.0).sensed_by(moment) == [1, 0]
    assert Incident(0, "emergency", 0.15, 0.0).sensed_by(moment) == [1]


def test_edge_servers_are_spread_over_the_field() -> None:
    places = edge_places(Bounds(0, 0, 4, 4), 16)
    assert len(set(places.values())) == 16
    assert places["e1"] == (0.5, 0.5)
    assert places["e16"] == (3.5, 3.5)


@pytest.mark.parametrize("bad", [{"edges": 0}, {"seconds": 5}, {"report_s": 0}])
def test_what_cannot_be_run_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        DriveSettings(**bad)


@pytest.mark.slow
def test_the_demo_runs_from_a_trace_and_finds_no_fault(run: Run, tmp_path: Path) -> None:  # noqa: F811
    params = SyntheticParams(25, blocks=5, fastest_mps=30.0, seconds=32, seed=2)
    write_trace(tmp_path / "city.parquet", SyntheticMover(params).moments())
    options = ("--edges", "4", "--minutes", "0.5", "--report-s", "2", "--json")
    out = tmp_path / "out"
    trace = str(tmp_path / "city.parquet")
    done = run("demo", "vehicles", "--trace", trace, *options, "--out", str(out))
    assert done.code == 0, done.err
    found = done.json
    assert found["vehicles"] == 25
    assert found["handovers"] > 0
    assert found["alerts"] > 0
    assert found["expected"] == found["delivered"] > 0
    faults = ("false", "missed", "lost", "doubled", "unalerted")
    assert {name: found[name] for name in faults} == dict.fromkeys(faults, 0)
    assert all(0 <= share <= 1 for share in found["in_deadline"].values())
    page = (out / "report.html").read_text()
    assert "data:image/gif" in page
    assert (out / "vehicles.gif").read_bytes()[:6] == b"GIF89a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--synthetic", "--net", "x"), "one of them at most"),
        (("--synthetic", "--edges", "0"), "1 to 400 are possible"),
        (("--synthetic", "--vehicles", "0"), "at least 1"),
        (("--trace", "none.parquet"), "not a Parquet file"),
    ],
)
def test_a_mistake_is_one_error(
    run: Run,  # noqa: F811
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    done = run("demo", "vehicles", *options, "--out", str(out))
    assert done.code == 2
    assert message in done.err
    assert not out.exists()
