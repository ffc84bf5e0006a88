"""Vehicles report to the event broker of a site; who is in an alert's area hears it, nobody else.

Who should hear is found by shapely, one vehicle after the other, from the areas that the alerts name.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from shapely.geometry import Point

from nearcast.broker.processors.events import Events
from nearcast.broker.registry import make_processor
from nearcast.errors import ProcessorError
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.messages import Report

EDGES = ("e1", "e2", "e3")
TOPIC = "road"
COLLISION = {"sensed_km": 2, "reach_km": 2, "least_radius_km": 2, "margin_km": 0}
ICE = {"period_s": 20, "reporters": 3}
OPTIONS: dict[str, Any] = {
    "field_km": [0, 0, 10, 10],
    "kinds": {"collision": COLLISION, "ice": ICE},
}
Places = dict[str, tuple[float, float]]


def field_of(places: Places) -> tuple[SimulatedSite, dict[str, SimulatedClient]]:
    """Return a site whose vehicles subscribe to the topic, and have said where they are."""
    site = SimulatedSite(1)
    site.inline_processors |= {"events"}
    for name in EDGES:
        site.add_server(name)
    homes = {name: EDGES[number % len(EDGES)] for number, name in enumerate(places)}
    people = {name: site.add_client(name, homes[name], *at) for name, at in places.items()}
    clients = tuple(ClientOrder(name, home, {TOPIC: "e1"}) for name, home in homes.items())
    topics = (TopicOrder(TOPIC, 10_000, ("e1",), "events", OPTIONS, version=1),)
    site.obey(Orders(1, 1, "", site.server_orders(), topics, clients))
    site.connect(people.values())
    site.run(3.0)
    for name, place in places.items():
        people[name].subscribe(TOPIC)
        say(people[name], place)
    site.run(3.0)
    return site, people


def say(client: SimulatedClient, place: tuple[float, float], **more: object) -> None:
    """Let a vehicle tell where it is, and what it senses."""
    client.publish(TOPIC, json.dumps({"position": place, "speed": 0, **more}).encode())


def alerts_of(client: SimulatedClient) -> list[dict[str, Any]]:
    return [one.json() for one in client.notified if "alert" in one.attributes]


def inside(places: Places, alert: dict[str, Any]) -> set[str]:
    """Who is in the area of an alert: by shapely, without any index."""
    centre = Point(alert["position"])
    return {
        name
        for name, place in places.items()
        if centre.distance(Point(place)) <= alert["radius_km"]
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_collision_alerts_all_vehicles_that_are_in_its_area_at_delivery(seed: int) -> None:
    rng = Random(seed)
    places = {f"v{n}": (rng.uniform(0, 10), rng.uniform(0, 10)) for n in range(60)}
    site, people = field_of(places)
    witnesses = [name for name, at in places.items() if Point(5, 2).distance(Point(at)) <= 2]
    assert len(witnesses) >= 3
    for name in witnesses:
        say(people[name], places[name], event="collision", at=[5, 2])
    site.run(0.5)
    # some drive in and out meanwhile, and say so to their homes only
    for name in rng.sample(sorted(places), 20):
        places[name] = (rng.uniform(2, 8), rng.uniform(0, 5))
        people[name].report(Report(*places[name]))
    site.run(1.0)
    assert not any(map(alerts_of, people.values()))  # the period is over, and nobody has looked
    last = rng.choice([name for name in places if name not in witnesses])
    say(people[last], places[last])
    site.run(2.0)
    heard = {name: alerts_of(one) for name, one in people.items()}
    (alert,) = {json.dumps(one) for some in heard.values() for one in some}
    expected = inside(places, json.loads(alert))
    assert json.loads(alert)["position"] == [5, 2]
    assert json.loads(alert)["radius_km"] == 2
    assert {name for name, some in heard.items() if some} == expected
    assert all(len(some) == 1 for some in heard.values() if some)
    assert expected != set(witnesses)


def test_an_emergency_is_told_at_once_also_to_who_reported_it() -> None:
    places: Places = {"a": (3.0, 3.0), "b": (3.5, 3.0), "far": (8.0, 8.0)}
    site, people = field_of(places)
    say(people["a"], places["a"], event="emergency")
    site.run(0.5)
    heard = {name: [one["alert"] for one in alerts_of(one)] for name, one in people.items()}
    assert heard == {"a": ["emergency"], "b": ["emergency"], "far": []}


def test_an_alert_is_as_urgent_as_its_kind_whatever_message_brings_it_about() -> None:
    places: Places = {name: (5.0, 2.0 + 0.1 * n) for n, name in enumerate("abc")}
    places["d"] = (9.0, 9.0)
    site, people = field_of(places)
    for name in "abc":
        say(people[name], places[name], event="collision", at=[5, 2])
        say(people[name], places[name], event="obstacle")
    site.run(3.0)
    # the message after their periods has a class of its own, and is about neither of them
    told = json.dumps({"position": places["d"], "speed": 0}).encode()
    people["d"].publish(TOPIC, told, message_class="lane_change")
    site.run(2.0)
    alerts = [one for one in people["a"].notified if "alert" in one.attributes]
    classes = {str(one.attributes["alert"]): one.message_class for one in alerts}
    assert classes == {"collision": "emergency", "obstacle": ""}


def test_who_asks_hears_what_is_going_on_in_an_area_and_nobody_else_does() -> None:
    places: Places = {"a": (3.0, 3.0), "b": (3.1, 3.0), "far": (8.0, 8.0)}
    site, people = field_of(places)
    for name in ("a", "b"):
        say(people[name], places[name], event="obstacle")
    site.run(0.5)
    for query in ("POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))", "POLYGON ((6 6, 7 6, 7 7, 6 6))", "no"):
        people["far"].publish(TOPIC, json.dumps({"query": query}).encode())
    site.run(2.0)
    answers = {
        name: [one.json() for one in client.notified if "answer" in one.attributes]
        for name, client in people.items()
    }
    there, elsewhere, refused = answers.pop("far")
    (obstacle,) = there["going_on"]
    assert (obstacle["kind"], obstacle["reporters"]) == ("obstacle", 2)
    assert elsewhere == {"going_on": [], "count": 0}
    assert "refused" in refused
    assert answers == {"a": [], "b": []}


def test_after_a_restart_what_was_reported_before_still_counts() -> None:
    places: Places = {name: (5.0, 2.0 + 0.1 * n) for n, name in enumerate("abcd")}
    site, people = field_of(places)
    for name in "ab":
        say(people[name], places[name], event="ice")
    site.run(0.2)
    site.servers["e1"].kill()
    site.servers["e1"].restart()
    site.run(0.5)
    say(people["c"], places["c"], event="ice")
    site.run(20.0)
    say(people["d"], places["d"])
    site.run(5.0)
    heard = {name: [one["reporters"] for one in alerts_of(one)] for name, one in people.items()}
    assert heard == {name: [3] for name in "abcd"}


@pytest.mark.parametrize(
    "payload", [b"\xff", b"[]", b'{"position": 3}', b'{"position": [NaN, 1]}', b'{"speed": "x"}']
)
def test_what_is_no_report_is_counted_and_changes_nothing(payload: bytes) -> None:
    places: Places = {"a": (3.0, 3.0), "b": (3.5, 3.0)}
    site, people = field_of(places)
    people["a"].publish(TOPIC, payload)
    site.run(1.0)
    say(people["b"], places["b"], event="emergency")
    site.run(1.0)
    assert [one["alert"] for one in alerts_of(people["a"])] == ["emergency"]
    assert people["a"].session.unacknowledged == 0
    node = site.servers["e1"].node
    assert node is not None
    assert node.counts["processor_malformed"] == 1


def test_reports_that_are_not_believed_are_counted_by_reason() -> None:
    places: Places = {"a": (3.0, 3.0), "b": (3.5, 3.0)}
    site, people = field_of(places)
    for event in ("snowmen", "snowmen", "ice"):
        say(people["a"], places["a"], event=event, at=[9.0, 9.0])
    site.run(1.0)
    node = site.servers["e1"].node
    assert node is not None
    assert node.processor_refused == {"unknown_kind": 2, "too_far": 1}


@pytest.mark.parametrize(
    "options",
    [{}, {"field_km": [0, 0, 1]}, {"field_km": [1, 0, 0, 1]}, {**OPTIONS, "kinds": {"snow": {}}}],
)
def test_options_with_a_mistake_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ProcessorError, match="'events' cannot be made"):
        make_processor("events", options)


def test_the_processor_is_shipped() -> None:
    assert isinstance(make_processor("events", OPTIONS), Events)
