"""Who is near and who wants to hear of a place: the same as plain loops over all clients find."""

from __future__ import annotations

import json
import math
import random

import pytest

from nearcast.broker.audiences import Recipients, SubscriberTable, resolve
from nearcast.broker.notifications import AllSubscribers
from nearcast.broker.reaches import SLACK_KM
from nearcast.wire.areas import area_of
from nearcast.wire.envelope import Envelope
from nearcast.wire.terms import Terms

NOW_S = 100.0


def circle(
    x_km: float, y_km: float, radius_km: float, more: dict[str, object] | None = None
) -> str:
    return json.dumps(
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [x_km, y_km]},
            "properties": {"radius_km": radius_km, **(more or {})},
        }
    )


class Model:
    """A table, and what it was told, for plain loops."""

    def __init__(self, seed: int) -> None:
        self.rng, self.table = random.Random(seed), SubscriberTable()
        self.places: dict[str, tuple[float, float]] = {}
        self.terms: dict[str, Terms | None] = {}

    def place(self) -> tuple[float, float]:
        return self.rng.uniform(-6, 6), self.rng.uniform(-6, 6)

    def change(self) -> None:
        rng, client = self.rng, f"c{self.rng.randrange(200)}"
        match rng.randrange(4):
            case 0 | 1:
                self.places[client] = place = self.place()
                if client in self.terms:
                    self.table.move(client, *place)
                else:
                    del self.places[client]
            case 2:
                terms = self.draw_terms()
                self.table.subscribe("t", client, () if terms is None else (terms,))
                self.terms[client] = terms
            case _:
                self.table.unsubscribe("t", client)
                self.terms.pop(client, None)
                self.places.pop(client, None)

    def draw_terms(self) -> Terms | None:
        where = self.rng.choice(("", "kind = 1"))
        size = self.rng.choice((0.1, 0.7, 3.0))
        match self.rng.randrange(5):
            case 0:
                return None
            case 1:
                return Terms("kind = 1")
            case 2:
                area, follows = circle(*self.place(), size), False
            case 3:
                area, follows = circle(0.3, 0, size), True
            case _:
                more: dict[str, object] = {
                    "velocity_kmps": [0.01, 0],
                    "valid_from_s": 0,
                    "valid_until_s": 1e6,
                }
                area, follows = circle(*self.place(), size, more), self.rng.random() < 0.5
        return Terms(where, area, follows)

    def wants(self, client: str, kind: int, place: tuple[float, float]) -> bool:
        terms = self.terms[client]
        if terms is None:
            return True
        if terms.where and kind != 1:
            return False
        if not terms.area:
            return True
        own = self.places.get(client, (0.0, 0.0)) if terms.follows else (0.0, 0.0)
        return in_bounds(terms.area, place[0] - own[0], place[1] - own[1])


def in_bounds(area: str, x_km: float, y_km: float) -> bool:
    west, south, east, north = area_of(area).shape_at(NOW_S).bounds
    return (
        west - SLACK_KM <= x_km <= east + SLACK_KM and south - SLACK_KM <= y_km <= north + SLACK_KM
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_indexes_find_what_loops_find(seed: int) -> None:
    model = Model(seed)
    rng, table = model.rng, model.table
    for _ in range(60):
        for _ in range(25):
            model.change()
        kind, place = rng.randrange(2), model.place()
        area = circle(*model.place(), rng.choice((0.2, 1.0, 20.0)))
        for envelope in (Envelope({"kind": kind}), Envelope({"kind": kind}, area)):
            told, _ = resolve(table, "t", AllSubscribers(), "", envelope, place, NOW_S)
            expected = {
                one
                for one in model.terms
                if model.wants(one, kind, place)
                and (
                    not envelope.area
                    or (one in model.places and in_bounds(area, *model.places[one]))
                )
            }
            assert len(told.clients) == len(set(told.clients))
            assert set(told.clients) == expected
        away = sorted(
            (math.dist(place, where), one)
            for one, where in model.places.items()
            if one in model.terms
        )
        count, radius_km = rng.randrange(1, 12), rng.choice((0.3, 2.0, 50.0))
        assert table.nearest("t", *place, count) == [one for _, one in away[:count]]
        inside = {one for distance, one in away if distance <= radius_km}
        assert set(table.within("t", *place, radius_km)) == inside


def test_a_place_that_is_not_finite_is_near_nothing_and_stops_nothing() -> None:
    table = SubscriberTable()
    for number in range(100):
        table.subscribe("t", f"c{number}")
        table.move(f"c{number}", math.nan if number % 2 else math.inf, 0.0)
    table.move("c0", 1.0, 1.0)
    assert table.nearest("t", 0.0, 0.0, 5) == ["c0"]
    assert table.within("t", math.nan, 0.0, 1.0) == []
    assert table.within("t", 0.0, 0.0, 2.0) == ["c0"]
    assert table.near(Recipients(("c0", "c1")), circle(1, 1, 1), 0.0) == ["c0"]
