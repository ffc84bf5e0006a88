"""Areas of messages and of subscriptions on a site: checked against shapely, one by one."""

from __future__ import annotations

import json
from random import Random

import pytest
import shapely
from shapely.geometry import Point

from nearcast.errors import WireError
from nearcast.geo.corridor_text import write_corridors
from nearcast.geo.roads import Road, RoadGraph
from nearcast.server.mesh_messages import Notices
from nearcast.server.peers import Peers
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire import client_hearing
from nearcast.wire.actions import Confirmed, PublicationRefused
from nearcast.wire.messages import Report
from nearcast.wire.terms import Terms

EDGES = ("e1", "e2", "e3")
SQUARE = "POLYGON ((2 2, 6 2, 6 6, 2 6, 2 2))"
Places = dict[str, tuple[float, float]]


def circle(x_km: float, y_km: float, radius_km: float, **properties: object) -> str:
    geometry = {"type": "Point", "coordinates": [x_km, y_km]}
    properties = {"radius_km": radius_km, **properties}
    return json.dumps({"type": "Feature", "geometry": geometry, "properties": properties})


def site_with(places: Places, seed: int = 1) -> tuple[SimulatedSite, dict[str, SimulatedClient]]:
    """Return a site with clients at places, whose homes have nothing to do with them."""
    site = SimulatedSite(seed)
    for name in EDGES:
        site.add_server(name)
    homes = {name: EDGES[number % len(EDGES)] for number, name in enumerate(places)}
    people = {name: site.add_client(name, homes[name], *at) for name, at in places.items()}
    clients = tuple(ClientOrder(name, home) for name, home in homes.items())
    site.obey(Orders(1, 0, "", site.server_orders(), (), clients))
    site.connect(people.values())
    site.run(3.0)
    return site, people


def heard(people: dict[str, SimulatedClient]) -> dict[str, list[str]]:
    return {name: [note.text for note in one.notified] for name, one in people.items()}


def random_places(rng: Random, count: int) -> Places:
    return {f"c{n}": (rng.uniform(0, 10), rng.uniform(0, 10)) for n in range(count)}


def random_shape(rng: Random) -> tuple[str, shapely.Geometry]:
    """Return an area as text, and as shapely has it."""
    x, y, size = rng.uniform(0, 10), rng.uniform(0, 10), rng.uniform(0.5, 4)
    corners = [(x, y), (x + size, y), (x + size / 2, y + size)]
    match rng.randrange(3):
        case 0:
            polygon = shapely.Polygon(corners)
            return polygon.wkt, polygon
        case 1:
            return circle(x, y, size), Point(x, y).buffer(size, quad_segs=10_000)
        case _:
            line = shapely.LineString(corners)
            geometry = shapely.geometry.mapping(line)
            feature = {"type": "Feature", "geometry": geometry, "properties": {"width_km": 1.0}}
            return json.dumps(feature), line.buffer(0.5, quad_segs=10_000)


@pytest.mark.parametrize("seed", range(3))
def test_exactly_those_in_the_area_are_told_while_they_move(seed: int) -> None:
    rng = Random(seed)
    places = random_places(rng, 25)
    site, people = site_with({**places, "car": (0.0, 0.0)}, seed)
    for name in places:
        people[name].subscribe("alerts")
    site.run(3.0)
    expected: dict[str, list[str]] = {name: [] for name in (*places, "car")}
    for number in range(12):
        for name in rng.sample(sorted(places), 10):
            places[name] = (rng.uniform(0, 10), rng.uniform(0, 10))
            people[name].report(Report(*places[name]))
        site.run(1.0)
        area, shape = random_shape(rng)
        people["car"].publish("alerts", str(number).encode(), area=area)
        for name, place in places.items():
            if shape.contains(Point(place)):
                expected[name].append(str(number))
        site.run(1.0)
    assert heard(people) == expected
    assert any(expected.values())


@pytest.mark.parametrize("seed", range(3))
def test_subscriptions_hear_what_happens_in_their_area_fixed_or_moving(seed: int) -> None:
    rng = Random(seed)
    places = random_places(rng, 25)
    site, people = site_with({**places, "car": (0.0, 0.0)}, seed)
    fixed = {name: random_shape(rng) for name in sorted(places)[:12]}
    for name in places:
        if name in fixed:
            people[name].subscribe("offers", 'kind = "fuel"', fixed[name][0])
        else:
            people[name].subscribe("offers", 'kind = "fuel"', circle(0, 0, 2.0), follows=True)
    site.run(3.0)
    expected: dict[str, list[str]] = {name: [] for name in (*places, "car")}
    for number in range(15):
        for name in rng.sample(sorted(places), 10):
            places[name] = (rng.uniform(0, 10), rng.uniform(0, 10))
            people[name].report(Report(*places[name]))
        site.run(1.0)
        at, kind = (rng.uniform(0, 10), rng.uniform(0, 10)), rng.choice(["fuel", "food"])
        people["car"].publish(
            "offers", str(number).encode(), position=at, attributes={"kind": kind}
        )
        for name, place in places.items():
            if name in fixed:
                is_there = fixed[name][1].contains(Point(at))
            else:
                is_there = Point(place).distance(Point(at)) <= 2.0
            if is_there and kind == "fuel":
                expected[name].append(str(number))
        site.run(1.0)
    assert heard(people) == expected
    assert any(expected.values())


def test_both_have_to_agree() -> None:
    site, people = site_with({"car": (0.0, 0.0), "in": (3.0, 3.0), "out": (9.0, 9.0)})
    for name in ("in", "out"):
        people[name].subscribe("t", area=circle(0, 0, 1))
    site.run(3.0)
    for text, at in (("near", (0.5, 0.0)), ("far", (5.0, 5.0))):
        people["car"].publish("t", text.encode(), area=SQUARE, position=at)
    site.run(3.0)
    assert heard(people) == {"car": [], "in": ["near"], "out": []}


def test_only_servers_concerned_hear_of_an_area(monkeypatch: pytest.MonkeyPatch) -> None:
    site, people = site_with({"car": (0.0, 0.0), "a": (3.0, 3.0), "b": (9.0, 9.0)})
    for name in ("a", "b"):
        people[name].subscribe("t")
    site.run(3.0)
    told: list[str] = []
    send = Peers.send

    def spy(self: Peers, server: str, message: object) -> None:
        if isinstance(message, Notices):
            told.append(server)
        send(self, server, message)  # type: ignore[arg-type]

    monkeypatch.setattr(Peers, "send", spy)
    people["car"].publish("t", b"x", area=SQUARE)
    site.run(2.0)
    assert told == ["e2"]
    assert heard(people) == {"car": [], "a": ["x"], "b": []}


def test_many_small_moves_are_a_large_one() -> None:
    site, people = site_with({"car": (0.0, 0.0), "a": (1.5, 3.0)})
    people["a"].subscribe("t")
    site.run(3.0)
    for step in range(1, 2_000):  # less than a metre each
        people["a"].session.report(Report(1.5 + 0.0008 * step, 3.0))
        people["a"].session.moved(site.now)
        people["a"].go_on()
        if step % 100 == 0:
            site.run(0.1)
    site.run(1.0)
    people["car"].publish("t", b"x", area=SQUARE)
    site.run(2.0)
    assert heard(people)["a"] == ["x"]


def test_the_heading_counts_and_who_has_none_is_not_meant() -> None:
    site, people = site_with(dict.fromkeys(("car", "east", "west", "parked"), (3.0, 3.0)))
    for name, direction in (("east", 90.0), ("west", 270.0)):
        people[name].report(Report(3.0, 3.0, direction, 10.0))
    for name in ("east", "west", "parked"):
        people[name].subscribe("t")
    site.run(3.0)
    people["car"].publish("t", b"x", area=circle(3, 3, 1, heading_deg=80))
    site.run(2.0)
    assert heard(people) == {"car": [], "east": ["x"], "west": [], "parked": []}


def test_drivers_upstream_are_told_and_nobody_past_the_place_or_on_the_other_side() -> None:
    roads = (
        Road("a", ((0.0, 3.0), (3.0, 3.0))),
        Road("b", ((3.0, 3.0), (5.0, 3.0))),
        Road("exit", ((3.0, 3.0), (3.0, 1.0))),
    )
    graph = RoadGraph(roads, (("a", "b"), ("a", "exit")))
    places: Places = {
        "sign": (9.0, 9.0),
        "near": (3.5, 3.0),
        "before the exit": (2.8, 3.0),
        "far before": (1.0, 3.0),
        "past": (4.5, 3.0),
        "other side": (3.6, 3.0),
        "left": (3.0, 2.0),
    }
    site, people = site_with(places)
    for name, (x_km, y_km) in places.items():
        direction = {"other side": 270.0, "left": 180.0}.get(name, 90.0)
        people[name].report(Report(x_km, y_km, direction, 20.0))
        people[name].subscribe("t")
    site.run(3.0)
    people["sign"].publish("t", b"x", area=write_corridors(graph.upstream("b", 1.0)))
    site.run(2.0)
    assert {name for name, some in heard(people).items() if some} == {"near", "before the exit"}


def test_a_client_that_has_driven_on_drops_what_reaches_it_late() -> None:
    site, people = site_with({"car": (0.0, 0.0), "a": (3.0, 3.0)})
    people["a"].subscribe("t")
    site.run(3.0)
    people["a"].session.report(Report(9.0, 9.0))  # its home hears of it with the next report only
    people["car"].publish("t", b"x", area=SQUARE)
    site.run(1.0)
    assert heard(people)["a"] == []
    assert people["a"].session.drops["outside_area"] == 1


def test_what_is_over_is_told_nobody_and_counted() -> None:
    site, people = site_with({"car": (0.0, 0.0), "a": (3.0, 3.0)})
    people["a"].subscribe("t")
    site.run(3.0)
    site.network.offline.add("a")
    people["car"].publish("t", b"short", valid_s=2.0)
    people["car"].publish("t", b"long", valid_s=600.0)
    people["car"].publish("t", b"ever")
    site.run(10.0)
    site.network.offline.discard("a")
    site.run(20.0)
    assert sorted(heard(people)["a"]) == ["ever", "long"]
    server = next(one for one in site.servers.values() if one.home == people["a"].session.home)
    dropped = people["a"].session.drops["expired"]
    assert dropped + server.counts["notifications_expired"] >= 1


def test_nobody_waits_for_a_message_that_was_not_for_him() -> None:
    site, people = site_with({"car": (0.0, 0.0), "a": (9.0, 9.0)})
    people["a"].subscribe("t")
    site.run(3.0)
    people["car"].publish("t", b"all 1")
    site.run(1.0)
    people["car"].publish("t", b"there", area=SQUARE)
    people["car"].publish("t", b"over", valid_s=1e-6)
    people["car"].publish("t", b"all 2")
    site.run(0.3)  # less than a client waits for one that is missing
    assert heard(people)["a"] == ["all 1", "all 2"]


def nearest_of(places: Places, wanted: int, x_km: float, y_km: float, radius_km: float) -> set[str]:
    """Return the nearest within a radius by looking at all, as shapely measures."""
    away = {name: Point(place).distance(Point(x_km, y_km)) for name, place in places.items()}
    inside = [name for name in sorted(away, key=away.__getitem__) if away[name] <= radius_km]
    return set(inside[:wanted])


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_of_all_homes_are_told_while_they_move(seed: int) -> None:
    rng = Random(seed)
    places = random_places(rng, 25)
    site, people = site_with({**places, "car": (5.0, 5.0)}, seed)
    for name in people:  # the publisher too: it is not one of the nearest
        people[name].subscribe("taxis")
    site.run(3.0)
    expected: dict[str, list[str]] = {name: [] for name in (*places, "car")}
    for number in range(12):
        for name in rng.sample(sorted(places), 10):
            places[name] = (rng.uniform(0, 10), rng.uniform(0, 10))
            people[name].report(Report(*places[name]))
        site.run(1.0)
        x_km, y_km = rng.uniform(0, 10), rng.uniform(0, 10)
        radius_km, wanted = rng.uniform(1, 6), rng.randint(1, 5)
        area = circle(x_km, y_km, radius_km, nearest=wanted)
        people["car"].publish("taxis", str(number).encode(), area=area)
        for name in nearest_of(places, wanted, x_km, y_km, radius_km):
            expected[name].append(str(number))
        site.run(1.0)
    assert heard(people) == expected
    assert any(expected.values())


def test_the_nearest_are_those_who_want_the_message() -> None:
    places = {"not fuel": 3.1, "elsewhere": 3.2, "here": 3.3, "all": 3.4, "farther": 3.5}
    site, people = site_with({"car": (9.0, 9.0), **{one: (x, 3.0) for one, x in places.items()}})
    terms = {
        "not fuel": ('kind = "food"', ""),
        "elsewhere": ("", circle(7.05, 7.0, 1)),  # a broker's rectangles take it for wanted
        "here": ('kind = "fuel"', circle(6.0, 7.0, 0.1)),
    }
    for name in places:
        people[name].subscribe("offers", *terms.get(name, ()))
    site.run(3.0)
    people["car"].publish(
        "offers",
        b"x",
        position=(6.0, 7.0),
        attributes={"kind": "fuel"},
        area=circle(3, 3, 1, nearest=2),
    )
    site.run(2.0)
    assert {name for name, some in heard(people).items() if some} == {"here", "all"}


def test_who_was_not_among_the_nearest_does_not_hear_it_later_either() -> None:
    places = {"car": (9.0, 9.0), "near": (3.0, 3.0), "next": (3.2, 3.0), "away": (3.4, 3.0)}
    site, people = site_with(places)
    for name in ("near", "next", "away"):
        people[name].subscribe("t")
    site.run(3.0)
    site.network.offline |= {"near", "away"}
    people["car"].publish("t", b"x", area=circle(3, 3, 1, nearest=2))
    site.run(30.0)
    site.network.offline -= {"near", "away"}
    site.run(30.0)
    assert heard(people) == {"car": [], "near": ["x"], "next": ["x"], "away": []}


BAD = {
    "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))": "cross",
    "POLYGON EMPTY": "empty|EMPTY",
    "POLYGON ((0 0, NaN 1, 1 0, 0 0))": "",
    '{"type": "Point", "coordinates": [1, 1]}': "radius_km",
    circle(1, 1, 0): "empty",
    circle(1, 1, 1, nearest=0): "nearest",
    '{"type": "Feature", "geometry": {"type": "LineString", "coordinates": [[1, 1]]},'
    ' "properties": {"width_km": 1}}': "",
    "no area at all": "",
}


def test_the_nearest_with_a_heading_and_the_nearest_messages_are_refused() -> None:
    _, people = site_with({"car": (0.0, 0.0)})
    with pytest.raises(WireError, match=r"^area, `nearest` with a heading"):
        people["car"].publish("t", b"x", area=circle(1, 1, 1, nearest=3, heading_deg=80))
    with pytest.raises(WireError, match=r"^t: area, `nearest` says who gets a message"):
        people["car"].subscribe("t", area=circle(1, 1, 1, nearest=3))


@pytest.mark.parametrize("area", BAD)
def test_a_bad_area_is_one_error_to_its_sender(area: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site, people = site_with({"car": (0.0, 0.0), "a": (3.0, 3.0)})
    people["a"].subscribe("t")
    site.run(3.0)
    with pytest.raises(WireError, match=f"^area, .*{BAD[area]}"):
        people["car"].publish("t", b"x", area=area)
    with pytest.raises(WireError, match=f"^t: area, .*{BAD[area]}"):
        people["car"].subscribe("t", area=area)
    # a client that does not look before it asks
    monkeypatch.setattr(client_hearing, "check_terms", lambda _: None)
    people["car"].session.subscribe("other", Terms(area=area))
    envelope = b"\x93\x80\xd9" + bytes((len(area),)) + area.encode() + b"\x00"
    people["car"].session.publish("t", b"bad", site.now, envelope=envelope)
    people["car"].go_on()
    site.run(2.0)
    people["car"].publish("t", b"good")
    site.run(2.0)
    events = [one for _, one in people["car"].events]
    (refused,) = [one for one in events if isinstance(one, PublicationRefused)]
    assert refused.reason.name == "BAD_ENVELOPE"
    (answer,) = [one for one in events if isinstance(one, Confirmed)]
    assert (answer.accepted, answer.reason[:6]) == (False, "area, ")
    assert heard(people)["a"] == ["good"]
