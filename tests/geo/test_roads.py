"""Roads: a motorway with exits, read from a SUMO network."""

from __future__ import annotations

import io

import numpy as np
import pytest

from nearcast.errors import AreaError
from nearcast.geo.area_text import read_area
from nearcast.geo.corridor_text import write_corridors
from nearcast.geo.roads import Road, RoadGraph
from nearcast.geo.shapes import Circle, Union
from nearcast.geo.sumo_net import read_sumo_net

NET = b"""<?xml version="1.0"?>
<net version="1.20">
  <location netOffset="0.00,0.00" convBoundary="0,0,9000,0"/>
  <edge id=":j1_0" function="internal"><lane id=":j1_0_0" index="0" shape="0,0 1,0"/></edge>
  <edge id="a" from="j0" to="j1">
    <lane id="a_0" index="0" shape="0,0 3000,0"/><lane id="a_1" index="1" shape="0,4 3000,4"/>
  </edge>
  <edge id="b" from="j1" to="j2"><lane id="b_0" index="0" shape="3000,0 5000,0"/></edge>
  <edge id="c" from="j2" to="j3" shape="5000,0 6000,0 9000,0"><lane id="c_0" index="0"/></edge>
  <edge id="exit" from="j1" to="x"><lane id="exit_0" index="0" shape="3000,0 4000,-1000"/></edge>
  <edge id="ramp" from="r" to="j2"><lane id="ramp_0" index="0" shape="4000,1000 5000,0"/></edge>
  <connection from="a" to="b" fromLane="0" toLane="0"/>
  <connection from="a" to="exit" fromLane="0" toLane="0"/>
  <connection from="b" to="c" fromLane="0" toLane="0" via=":j1_0"/>
  <connection from="ramp" to="c" fromLane="0" toLane="0"/>
  <connection from=":j1_0" to="c" fromLane="0" toLane="0"/>
</net>"""


@pytest.fixture
def motorway() -> RoadGraph:
    """a -> b -> c, an exit after a, a ramp onto c; 9 km."""
    return read_sumo_net(io.BytesIO(NET))


def inside(area: Union, x_km: float, y_km: float = 0.0, heading_deg: float = 90.0) -> bool:
    place = np.array([x_km]), np.array([y_km]), np.array([heading_deg])
    return bool(area.contains_along(*place, 45)[0])


def test_a_network_of_sumo_is_read(motorway: RoadGraph) -> None:
    assert sorted(motorway.roads) == ["a", "b", "c", "exit", "ramp"]
    assert motorway.road("a").line == ((0.0, 0.004), (3.0, 0.004))
    assert motorway.road("c").length_km == pytest.approx(4)


def test_paths_and_rails_of_a_network_are_no_roads() -> None:
    path = b"""
      <edge id="path"><lane id="path_0" allow="pedestrian bicycle" shape="3000,0 3000,9"/></edge>
      <edge id="rail"><lane id="rail_0" disallow="all" shape="5000,0 5000,9"/></edge>
      <edge id="mixed">
        <lane id="mixed_0" allow="pedestrian" shape="9000,1 9900,1"/>
        <lane id="mixed_1" disallow="pedestrian tram" shape="9000,0 9900,0"/>
      </edge>
      <connection from="a" to="path"/><connection from="rail" to="c"/>
      <connection from="c" to="mixed"/></net>"""
    roads = read_sumo_net(io.BytesIO(NET.replace(b"</net>", path)))
    assert sorted(roads.roads) == ["a", "b", "c", "exit", "mixed", "ramp"]
    assert (roads.after("a"), roads.after("c")) == (["b", "exit"], ["mixed"])


def test_upstream_goes_back_past_the_last_exit_and_no_farther(motorway: RoadGraph) -> None:
    area = motorway.upstream("c", 2.0, before_exit_km=0.5)
    assert inside(area, 6.9)
    assert not inside(area, 7.1)  # has passed the place
    assert inside(area, 4.0)  # can no longer leave
    assert inside(area, 4.5, 0.5, 135)  # comes from the ramp
    assert inside(area, 2.8)  # hears of it before the exit
    assert not inside(area, 2.2)
    assert not inside(area, 3.5, -0.5, 135)  # has left
    assert not inside(area, 6.0, 0.0, 270)  # on the other carriageway


def test_two_ways_that_join_again_before_the_place_are_no_exit() -> None:
    roads = [
        Road("before", ((0.0, 0.0), (2.0, 0.0))),
        Road("around", ((2.0, 0.0), (3.0, 1.0))),
        Road("back", ((3.0, 1.0), (2.0, 0.0))),
        Road("place", ((2.0, 0.0), (5.0, 0.0))),
    ]
    turns = [("before", "place"), ("before", "around"), ("around", "back"), ("back", "place")]
    area = RoadGraph(roads, turns).upstream("place", 0.5)
    for place in ((0.1, 0.0, 90.0), (2.5, 0.5, 45.0), (2.5, 0.5, 225.0)):
        assert inside(area, *place)


def test_upstream_measures_the_shortest_way_not_the_one_with_the_fewest_roads() -> None:
    roads = [
        Road("far", ((-1.0, 0.0), (0.0, 0.0))),
        Road("long", ((0.0, 0.0), (1.5, 0.9), (3.0, 0.0))),
        Road("a", ((0.0, 0.0), (1.5, 0.0))),
        Road("b", ((1.5, 0.0), (3.0, 0.0))),
        Road("place", ((3.0, 0.0), (4.0, 0.0))),
    ]
    turns = [("far", "long"), ("far", "a"), ("a", "b"), ("b", "place"), ("long", "place")]
    area = RoadGraph(roads, turns).upstream("place", 1.0, most_km=5.0)
    assert inside(area, -0.9)  # 4.9 km before the place by a and b, 5.4 by the long road


def test_upstream_goes_into_a_message_as_text(motorway: RoadGraph) -> None:
    found = motorway.upstream("c", 2.0, before_exit_km=0.5)
    area = read_area(write_corridors(found))
    assert isinstance(area.shape, Union)
    rng = np.random.default_rng(1)
    x_km, y_km = rng.uniform(2, 8, 4000), rng.uniform(-0.03, 0.03, 4000)
    near_end = np.isclose(np.abs(y_km - 0.004), 0.015, atol=2e-4) | np.isclose(
        np.abs(y_km), 0.015, atol=2e-4
    )
    same = area.shape.contains(x_km, y_km) == found.contains(x_km, y_km)
    assert same[~near_end].all()
    assert found.contains(x_km, y_km).any()
    assert area.selects(6.9, 0.0, 90.0, 0.0)
    assert not area.selects(6.9, 0.0, 270.0, 0.0)
    assert read_area(write_corridors(found, along=False)).selects(6.9, 0.0, None, 0.0)
    route = motorway.route(["b", "c"], 0.1)
    assert read_area(write_corridors(route)).shape == route
    for wrong in (Union((Circle(0, 0, 1),)), Union((route, motorway.route(["b", "c"], 0.2)))):
        with pytest.raises(AreaError, match="corridors of one width"):
            write_corridors(wrong)


def test_upstream_ends_after_the_most_kilometres(motorway: RoadGraph) -> None:
    area = motorway.upstream("c", 2.0, most_km=1.0)
    assert inside(area, 6.1)
    assert not inside(area, 5.9)
    area = motorway.upstream("c", 2.0, most_km=3.0)
    assert inside(area, 4.1)
    assert not inside(area, 3.9)


def test_a_route_is_a_corridor(motorway: RoadGraph) -> None:
    corridor = motorway.route(["b", "c"], 0.1)
    assert corridor.contains(np.array([8.0, 2.0]), np.array([0.0, 0.0])).tolist() == [True, False]


def test_a_ring_of_roads_ends() -> None:
    around = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]
    roads = [Road(f"r{n}", (around[n], around[n + 1])) for n in range(4)]
    graph = RoadGraph(roads, [(f"r{n}", f"r{(n + 1) % 4}") for n in range(4)])
    assert len(graph.upstream("r0", 0.5, most_km=100).parts) == 4


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda roads: roads.upstream("z", 1), "there is no road 'z'"),
        (lambda roads: roads.upstream("c", 4.5), "4.5 km is not on road 'c', which is 4 km"),
        (lambda roads: roads.upstream("c", float("nan")), "place on the road is nan"),
        (lambda roads: roads.upstream("c", 1, most_km=0), "most_km is 0"),
        (lambda roads: roads.route(["a", "q"], 1), "there is no road 'q'"),
        (lambda roads: roads.route(["a", "c"], 1), "cannot drive from road 'a' to 'c'"),
        (lambda roads: roads.route([], 1), "two different points"),
    ],
    ids=range(7),
)
def test_unknown_roads_and_places_are_refused(motorway: RoadGraph, act: object, error: str) -> None:
    with pytest.raises(AreaError, match=error):
        act(motorway)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("net", "error"),
    [
        (b"<net><edge", "not XML"),
        (b"<net/>", "has no roads"),
        (b'<net><edge id="a"/></net>', "road 'a' of the network has no shape"),
        (b'<net><edge id="a" shape="0,0 x,1"/></net>', "'x,1' is not a point"),
        (b'<net><edge id="a" shape="0,0 nan,1"/></net>', "x of a point of road 'a' is nan"),
        (b'<net><edge id="a" shape="0,0"/></net>', "road 'a' has no two different points"),
        (b'<net><edge shape="0,0 1,1"/></net>', "no id"),
        (b'<net><edge id="a" shape="0,0 1,1"/><edge id="a" shape="0,0 1,1"/></net>', "twice"),
        (
            b'<net><edge id="a" shape="0,0 1,1"/><connection from="a" to="b"/></net>',
            "there is no road 'b'",
        ),
    ],
    ids=range(9),
)
def test_a_bad_network_is_one_clear_error(net: bytes, error: str) -> None:
    with pytest.raises(AreaError, match=error):
        read_sumo_net(io.BytesIO(net))
