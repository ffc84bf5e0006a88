"""SUMO drives vehicles along the roads of its network; it is installed by `make test` only."""

from __future__ import annotations

import itertools
import re
from math import hypot
from pathlib import Path

import pytest
from shapely import LineString, MultiLineString, Point

from nearcast.errors import ConfigError
from nearcast.geo.roads import Road, RoadGraph
from nearcast.mobility.sumo import SumoMover
from nearcast.mobility.sumo_tools import make_city, read_net, write_routes


def test_a_route_is_long_enough_for_the_fastest_wherever_it_begins(tmp_path: Path) -> None:
    names = [f"r{number}" for number in range(4)]  # round and round
    roads = [
        Road(name, ((0.2 * row, 0.0), (0.2 * row + 0.2, 0.0))) for row, name in enumerate(names)
    ]
    graph = RoadGraph(roads, zip(names, [*names[1:], names[0]], strict=True))
    write_routes(tmp_path / "r.xml", graph, ["a", "b"], 30, 1)
    for found in re.findall('edges="(.*?)"', (tmp_path / "r.xml").read_text()):
        first, *others = found.split()
        assert first in names
        assert len(others) * 0.2 >= 30 * 0.017  # km


@pytest.mark.slow
def test_vehicles_drive_on_roads_and_never_jump(tmp_path: Path) -> None:
    net = tmp_path / "city.net.xml"
    make_city(net, blocks=3, seed=2)
    lines = MultiLineString([LineString(one.line) for one in read_net(net).roads.values()])
    mover = SumoMover(60, 30, net, seed=2)
    moments = list(mover.moments())
    assert [one.time_s for one in moments] == [float(second) for second in range(30)]
    assert len(moments[-1].vehicles) == 60
    for x_km, y_km in zip(moments[-1].x_km, moments[-1].y_km, strict=True):
        assert lines.distance(Point(x_km, y_km)) < 0.02  # lanes and junctions are wide
    places = [
        dict(zip(one.vehicles, zip(one.x_km, one.y_km, strict=True), strict=True))
        for one in moments
    ]
    for before, after in itertools.pairwise(places):
        for name, (x_km, y_km) in before.items():
            assert hypot(after[name][0] - x_km, after[name][1] - y_km) < 0.03
    assert any(places[0][name] != places[-1][name] for name in places[0])


@pytest.mark.slow
def test_a_network_that_is_none_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "bad.net.xml").write_text("<net>")
    (tmp_path / "empty.net.xml").write_text("<net></net>")
    for name, message in (
        ("bad.net.xml", "not XML"),
        ("empty.net.xml", "no roads"),
        ("none.net.xml", "No such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            SumoMover(1, 1, tmp_path / name)
