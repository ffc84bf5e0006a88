"""Vehicles drive from server to server: nothing is lost or doubled, and the next home is ready."""

from __future__ import annotations

import json
from collections import Counter
from math import hypot
from random import Random

import pytest

from nearcast.mobility.synthetic import SyntheticMover, SyntheticParams
from nearcast.server.client_gateway import ClientGateway
from nearcast.server.mesh_messages import Arriving, encode_mesh
from nearcast.server.site_orders import CoverageOrder, Orders, TopicOrder
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.messages import Report
from nearcast.wire.terms import Terms

EDGES = {"e1": (0.5, 0.5), "e2": (1.5, 0.5), "e3": (0.5, 1.5), "e4": (1.5, 1.5)}
TOPIC = "news"
BORDER_KM = 0.1
"""Who is so near to the border of an area may have crossed it when a lost message comes again."""


def city(seed: int = 1, network: Network | None = None, **areas: str) -> SimulatedSite:
    """Return a site of four servers, each with a quarter of the city."""
    site = SimulatedSite(seed, network)
    for name in EDGES:
        site.add_server(name)
    topics = (TopicOrder(TOPIC, 10_000, ("e1",), version=1),)
    coverage = CoverageOrder(EDGES, areas)
    site.obey(Orders(1, 1, "", site.server_orders(), topics, (), coverage=coverage))
    return site


def home_of(site: SimulatedSite, client: SimulatedClient) -> str:
    return next(name for name, one in site.servers.items() if one.home == client.session.home)


def gateway(site: SimulatedSite, name: str) -> ClientGateway:
    node = site.servers[name].node
    assert node is not None
    assert node.clients is not None
    return node.clients


def drive(client: SimulatedClient, x_km: float, y_km: float, direction: float = 90.0) -> None:
    client.report(Report(x_km, y_km, direction, 15.0))


def circle(x_km: float, y_km: float, radius_km: float) -> str:
    geometry = {"type": "Point", "coordinates": [x_km, y_km]}
    feature = {"type": "Feature", "geometry": geometry, "properties": {"radius_km": radius_km}}
    return json.dumps(feature)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_or_doubled_while_all_drive(seed: int) -> None:
    rng = Random(seed)
    site = city(seed, Network(loss=0.03, duplication=0.03, jitter_s=0.02))
    sign = site.add_client("sign", "e3")
    mover = SyntheticMover(SyntheticParams(12, blocks=10, fastest_mps=30.0, seconds=90, seed=seed))
    cars: dict[str, SimulatedClient] = {}
    expected: dict[str, Counter[str]] = {}
    unsure: set[tuple[str, str]] = set()
    for number, moment in enumerate(mover.moments()):
        places = dict(zip(moment.vehicles, zip(moment.x_km, moment.y_km, strict=True), strict=True))
        if not cars:
            cars = {name: site.add_client(name, "e1", *at) for name, at in places.items()}
            expected = {name: Counter() for name in cars}
            site.connect([sign, *cars.values()])
            for one in cars.values():
                one.subscribe(TOPIC)
            site.run(5.0)
        for row, name in enumerate(moment.vehicles):
            columns = moment.x_km, moment.y_km, moment.angle_deg, moment.speed_mps
            cars[name].report(Report(*(float(column[row]) for column in columns)))
        site.run(0.7)  # reports may be repeated
        if number >= 3 and number % 2:
            sign.publish(TOPIC, b"all %d" % number)
            for name in cars:
                expected[name][f"all {number}"] += 1
        if number >= 3 and number % 5 == 0:
            x_km, y_km = rng.uniform(0, 2), rng.uniform(0, 2)
            sign.publish(TOPIC, b"near %d" % number, area=circle(x_km, y_km, 0.6))
            for name, (car_x, car_y) in places.items():
                distance_km = hypot(car_x - x_km, car_y - y_km)
                if abs(distance_km - 0.6) < BORDER_KM:
                    unsure.add((name, f"near {number}"))
                elif distance_km <= 0.6:
                    expected[name][f"near {number}"] += 1
        site.run(0.3)
    site.run(30.0)
    heard = {name: Counter(note.text for note in one.notified) for name, one in cars.items()}
    for name, text in unsure:
        assert heard[name].pop(text, 0) <= 1
    assert heard == expected
    moves = sum(one.counts["redirects"] for one in site.servers.values())
    assert moves >= 10
    for name, one in cars.items():  # all are where they belong
        x_km, y_km = places[name]
        near = min(EDGES, key=lambda edge: hypot(EDGES[edge][0] - x_km, EDGES[edge][1] - y_km))
        if min(abs(x_km - 1.0), abs(y_km - 1.0)) > 0.05:
            assert home_of(site, one) == near


def test_the_next_home_is_ready_before_the_vehicle_is_there() -> None:
    site = city()
    car, sign = site.add_client("car", "e1", 0.8, 0.5), site.add_client("sign", "e1")
    site.connect([car, sign])
    car.subscribe(TOPIC, "kind = 1", circle(0, 0, 5.0), follows=True)
    site.run(5.0)
    drive(car, 0.9, 0.5)
    site.run(0.5)
    assert TOPIC not in gateway(site, "e2").clients.topics("car")
    drive(car, 0.95, 0.5)  # in five seconds it is 75 m further
    site.run(0.5)
    assert home_of(site, car) == "e1"
    there = gateway(site, "e2").clients
    assert there.terms("car", TOPIC) == Terms("kind = 1", circle(0, 0, 5.0), True)
    # what happens while it is between both: its session at e1 hears nothing any more
    site.network.cuts.add(frozenset(("car", "e1")))
    sign.publish(TOPIC, b"between", attributes={"kind": 1}, position=(1.0, 0.5))
    site.run(0.2)
    assert [one.text for one in car.notified] == []
    car.session.report(Report(1.06, 0.5, 90.0, 15.0))
    site.network.cuts.clear()
    drive(car, 1.06, 0.5)
    site.run(0.5)
    assert home_of(site, car) == "e2"
    assert [one.text for one in car.notified] == ["between"]


def test_what_waits_for_a_vehicle_goes_ahead_of_it() -> None:
    """Its last home dies with what the vehicle has not confirmed: the next one has it already."""
    site = city()
    car, sign = site.add_client("car", "e2", 1.05, 0.5), site.add_client("sign", "e1")
    site.connect([car, sign])
    car.subscribe(TOPIC)
    site.run(5.0)
    site.network.one_way_cuts.add(("e2", "car"))  # it can be heard but not be told
    sign.publish(TOPIC, b"waits")
    site.run(0.1)
    assert [one.text for one in car.notified] == []
    drive(car, 0.96, 0.5, 270.0)
    site.run(0.05)
    assert gateway(site, "e1").handover.kept >= 1


def test_who_stands_at_a_border_does_not_go_to_and_fro() -> None:
    site = city()
    car = site.add_client("car", "e1", 0.9, 0.5)
    site.connect([car])
    site.run(5.0)
    for step in range(20):
        car.report(Report(1.0 + (0.02 if step % 2 else -0.02), 0.5))
        site.run(1.0)
    assert sum(one.counts["redirects"] for one in site.servers.values()) == 0
    car.report(Report(1.1, 0.5))
    site.run(1.0)
    assert home_of(site, car) == "e2"


def test_a_polygon_of_its_own_decides_instead_of_the_distance() -> None:
    site = city(e4="POLYGON ((0 0, 0.4 0, 0.4 0.4, 0 0.4, 0 0))")
    cars = {
        "in": site.add_client("in", "e1", 0.2, 0.2),
        "out": site.add_client("out", "e1", 0.6, 0.2),
        "north": site.add_client("north", "e1", 1.6, 1.6),  # e4 has left it to the others
        "nowhere": site.add_client("nowhere", "e3"),
    }
    site.connect(cars.values())
    site.run(5.0)
    homes = {name: home_of(site, one) for name, one in cars.items()}
    assert homes == {"in": "e4", "out": "e1", "north": homes["north"], "nowhere": "e3"}
    assert homes["north"] in ("e2", "e3")


def test_a_server_that_is_away_takes_nobody_over() -> None:
    site = city()
    car, sign = site.add_client("car", "e1", 0.9, 0.5), site.add_client("sign", "e1")
    site.connect([car, sign])
    car.subscribe(TOPIC)
    site.run(5.0)
    site.servers["e2"].kill()
    site.run(5.0)
    for step in range(10):
        drive(car, 0.95 + 0.02 * step, 0.5)
        site.run(1.0)
    sign.publish(TOPIC, b"still here")
    site.run(1.0)
    assert home_of(site, car) == "e1"
    assert [one.text for one in car.notified] == ["still here"]
    site.servers["e2"].restart()
    site.run(10.0)
    drive(car, 1.2, 0.5)
    site.run(3.0)
    assert home_of(site, car) == "e2"


def test_who_is_expected_and_turns_back_is_forgotten() -> None:
    site = city()
    car, sign = site.add_client("car", "e1", 0.9, 0.5), site.add_client("sign", "e1")
    site.connect([car, sign])
    car.subscribe(TOPIC)
    site.run(5.0)
    drive(car, 0.97, 0.5)
    site.run(1.0)
    there = gateway(site, "e2")
    assert TOPIC in there.clients.topics("car")
    sign.publish(TOPIC, b"once")
    drive(car, 0.7, 0.5, 270.0)
    site.run(20.0)
    assert TOPIC not in there.clients.topics("car")
    assert there.handover.kept == 0
    assert [one.text for one in car.notified] == ["once"]
    assert sum(one.counts["notifications_undelivered"] for one in site.servers.values()) == 0


def test_a_server_that_lies_about_who_arrives_gains_nothing() -> None:
    site = city()
    car = site.add_client("car", "e1", 0.9, 0.5)
    site.connect([car])
    site.run(5.0)
    node = site.servers["e2"].node
    assert node is not None
    peers = node._peers
    bad = Terms(area="POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))")
    nan = float("nan")
    lies: list[tuple[Terms, float, tuple[str, ...]]] = [
        (bad, 1.0, (TOPIC,)),
        (Terms(), nan, (TOPIC,)),
        (Terms(), 1e10, (TOPIC,)),
        (Terms(), 1.0, ("",)),
        (Terms(), 1.0, ("a/#/b",)),
        (Terms(), 1.0, ("\0flow",)),
        (Terms(), 1.0, tuple(f"{number}/#" for number in range(65))),
    ]
    for terms, x_km, topics in lies:
        wanted = tuple((topic, terms) for topic in topics)
        message = Arriving("car", x_km, 0.5, 0.0, 0.0, wanted)
        peers.dispatch("e1", [encode_mesh(message)], site.now)
    assert node.counts["mesh_refused"] == len(lies)
    there = gateway(site, "e2").clients
    assert not there.topics("car")
    # nobody has shown who this is: it may not subscribe
    message = Arriving("stranger", 1.0, 0.5, 0.0, 0.0, ((TOPIC, Terms()),))
    peers.dispatch("e1", [encode_mesh(message)], site.now)
    assert not there.topics("stranger")


def test_what_is_prepared_for_clients_that_do_not_come_is_bounded() -> None:
    site = city()
    site.run(1.0)
    node = site.servers["e2"].node
    assert node is not None
    wanted = tuple((f"t{number}", Terms()) for number in range(1_000))
    for number in range(300):
        message = Arriving(f"made up {number}", 1.0, 0.5, 0.0, 0.0, wanted)
        node._peers.dispatch("e1", [encode_mesh(message)], site.now)
    roaming = gateway(site, "e2").handover._roaming
    assert roaming.wanted == 200_000
    assert node.counts["roaming_refused"] == 100
    site.run(20.0)
    assert (roaming.wanted, roaming._expected) == (0, {})


def test_a_client_that_reports_without_a_pause_has_its_next_home_told_once_a_second() -> None:
    """Each time it is told all that the client subscribes to."""
    site = city()
    car = site.add_client("car", "e1", 0.9, 0.5)
    site.connect([car])
    car.subscribe(TOPIC)
    site.run(5.0)
    for number in range(300):
        drive(car, 0.97, 0.49 + number % 2 / 100)
        site.run(0.01)
    node = site.servers["e1"].node
    assert node is not None
    assert 1 <= node.counts["roaming_announced"] <= 6


def test_a_place_beyond_all_reach_is_refused() -> None:
    site = city()
    car = site.add_client("car", "e1", 0.9, 0.5)
    site.connect([car])
    site.run(3.0)
    clients = gateway(site, "e1")
    for x_km, y_km in ((1e200, 0.5), (0.5, -1e10)):
        drive(car, x_km, y_km)
        site.run(1.0)
    assert clients.clients.place("car") == (0.9, 0.5)
    assert clients.sessions.drops["invalid_field"] >= 2
