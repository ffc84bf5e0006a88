"""Vehicles past simulated servers: the figures are those of plain loops, and faults are seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shapely.geometry import Point

from cli.conftest import Run, run  # noqa: F401
from nearcast.errors import ConfigError
from nearcast.experiments.vehicles.audit import AlertRecord, Audit
from nearcast.experiments.vehicles.brute_force import brute_force, by_loops
from nearcast.experiments.vehicles.driving import edge_places
from nearcast.experiments.vehicles.incidents import Collision, Incident
from nearcast.experiments.vehicles.run import DriveSettings, _is_filmed, drive_simulated
from nearcast.geo.bounds import Bounds
from nearcast.mobility.moment import Moment
from nearcast.mobility.sumo_tools import make_city
from nearcast.mobility.synthetic import SyntheticMover, SyntheticParams
from nearcast.mobility.trace import write_trace

ALERT = {"alert": "collision", "position": [5.0, 2.0], "radius_km": 2.0}
KEY = ("car", 1, 1, "collision")
PLACES = {"in": (5.0, 3.9), "edge": (7.0, 2.0), "out": (7.01, 2.0)}


def audit_of(*heard: str) -> dict[str, Any]:
    audit = Audit()
    for name in heard:
        audit.note(KEY, ALERT, "emergency", name, 40.0, 5, PLACES)
    return audit.summary()


def test_who_is_in_the_circle_is_expected_and_nobody_else() -> None:
    found = audit_of("in", "edge")
    assert [found[name] for name in ("alerts", "expected", "delivered", "false", "missed")] == [
        *(1, 2, 2, 0, 0)
    ]
    assert found["in_deadline"] == {"emergency": 1.0}
    assert (found["precision"], found["recall"]) == (1.0, 1.0)


def test_both_ways_to_look_at_all_vehicles_find_the_same() -> None:
    rng = np.random.default_rng(5)
    places = {f"v{number}": tuple(rng.uniform(0, 10, 2).tolist()) for number in range(2000)}
    places["edge"] = (7.0, 2.0)
    name, inside = brute_force()
    assert name == "shapely"
    found = inside(places, 5.0, 2.0, 2.0)
    assert "edge" in found
    assert found == by_loops(places, 5.0, 2.0, 2.0)
    assert 100 < len(found) < 500
    assert inside({}, 5.0, 2.0, 2.0) == by_loops({}, 5.0, 2.0, 2.0) == frozenset()


def test_each_kind_of_fault_is_counted() -> None:
    found = audit_of("in", "in", "out")
    assert [found[name] for name in ("false", "missed", "doubled")] == [1, 1, 1]
    assert (found["precision"], found["recall"]) == (0.5, 0.5)


def test_who_comes_into_a_valid_area_later_may_be_told_then() -> None:
    audit = Audit()
    audit.note(KEY, ALERT, "emergency", "in", 40.0, 5, PLACES)
    audit.note(KEY, ALERT, "emergency", "out", 9_000.0, 14, {"out": (5.0, 2.0)})
    audit.note(KEY, ALERT, "emergency", "late", 600.0, 6, {"late": (5.0, 3.0)})
    found = audit.summary()
    assert (found["entered"], found["false"]) == (2, 0)
    audit.note(KEY, ALERT, "emergency", "away", 9_000.0, 14, {"away": (9.0, 2.0)})
    audit.note(KEY, ALERT, "emergency", "gone", 9_000.0, 14, {})
    found = audit.summary()
    assert [one["place"] for one in found["false_cases"]] == [(9.0, 2.0), None]
    assert found["false"] == 2


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
        DriveSettings(**bad)  # type: ignore[arg-type]


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


class Field:
    """Vehicles in a field of 10 km x 10 km that drive north; some of them at (5, 2)."""

    def __init__(self, vehicles: int) -> None:
        self.field = Bounds(0, 0, 10, 10)
        self.names: Sequence[str] = [f"v{number}" for number in range(vehicles)]
        rng = np.random.default_rng(3)
        self._x_km, self._y_km = rng.uniform(0.5, 9.5, (2, vehicles))
        self._x_km[:5], self._y_km[:5] = rng.uniform(4.8, 5.2, 5), rng.uniform(1.7, 1.9, 5)

    def moments(self) -> Iterator[Moment]:
        speed_mps = np.full(len(self.names), 15.0)
        for second in range(20):
            y_km = self._y_km + 0.015 * second
            yield Moment(
                float(second), self.names, self._x_km, y_km, speed_mps, np.zeros(len(self.names))
            )


def test_all_in_the_area_of_a_collision_are_told_and_nobody_else() -> None:
    """Seed 003's case: collision at (5, 2), radius 2; shapely says who is inside."""
    found: list[tuple[AlertRecord, set[str]]] = []

    def check(alert: AlertRecord, places: Mapping[str, tuple[float, float]]) -> None:
        area = Point(5, 2)
        inside = {name for name, place in places.items() if area.distance(Point(place)) <= 2}
        found.append((alert, inside))

    settings = DriveSettings(4, 20, 2, 4, Collision(5.0, 2.0, 2.0))
    drive = drive_simulated(Field(60), settings, lambda done, total: None, check)
    ((alert, inside),) = found
    assert (alert.x_km, alert.y_km, alert.radius_km) == pytest.approx((5, 2, 2))
    assert len(inside) > 3
    assert alert.heard.keys() - alert.entered == inside
    assert not drive.has_failed


@pytest.mark.slow
def test_of_vehicles_that_sumo_drives_exactly_those_in_the_area_are_told(
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    net = tmp_path / "city.net.xml"
    make_city(net, blocks=8, seed=1)
    options = ("--net", net, "--vehicles", "120", "--edges", "4", "--minutes", "0.5")
    done = run(
        *("demo", "vehicles", *options, "--collision", "0.8,0.8,0.5", "--report-s", "2"),
        *("--out", tmp_path / "out", "--json"),
    )
    assert done.code == 0, done.err
    found = done.json
    assert (found["driven_by"], found["vehicles"], found["alerts"]) == ("SUMO", 120, 1)
    assert found["checked_by"] == "shapely"
    assert 10 < found["expected"] == found["delivered"] < 100
    assert (found["precision"], found["recall"]) == (1.0, 1.0)
    assert found["in_deadline"] == {"emergency": 1.0}


@pytest.mark.parametrize(
    ("seconds", "collision", "first", "last", "count"),
    [
        (600, None, 270, 328, 30),
        (600, Collision(5, 2, 2), 0, 58, 30),
        (30, None, 0, 29, 30),
        (20, None, 0, 19, 20),
    ],
)
def test_a_film_shows_a_minute_in_small_steps(
    seconds: int, collision: Collision | None, first: int, last: int, count: int
) -> None:
    settings = DriveSettings(seconds=seconds, collision=collision)
    filmed = [number for number in range(seconds) if _is_filmed(number, settings)][-30:]
    assert (filmed[0], filmed[-1], len(filmed)) == (first, last, count)


def test_there_is_a_film_of_a_trace_that_ends_early() -> None:
    drive = drive_simulated(Field(6), DriveSettings(4, 600, 5), lambda done, total: None)
    assert [one.second for one in drive.frames] == list(range(0, 20, 2))


def test_there_is_a_picture_of_vehicles_that_come_late() -> None:
    class Late(Field):
        def moments(self) -> Iterator[Moment]:
            nobody = np.empty(0)
            for second in range(340):
                yield Moment(float(second), [], nobody, nobody, nobody, nobody)
            for one in super().moments():
                yield replace(one, time_s=340.0 + one.time_s)

    drive = drive_simulated(Late(6), DriveSettings(4, 600, 5), lambda done, total: None)
    assert [one.second for one in drive.frames] == [359]


def test_a_collision_that_nobody_senses_shows_nothing_and_is_refused() -> None:
    settings = DriveSettings(4, 20, 2, 4, Collision(50.0, 2.0, 2.0))
    with pytest.raises(ConfigError, match="0 vehicles are within"):
        drive_simulated(Field(10), settings, lambda done, total: None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--synthetic", "--net", "x"), "one of them at most"),
        (("--synthetic", "--edges", "0"), "1 to 400 are possible"),
        (("--synthetic", "--collision", "5,2"), "X,Y,RADIUS"),
        (("--synthetic", "--collision", "5,2,-1"), "X,Y,RADIUS"),
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
