"""How long areas take: points in a polygon, all positions anew, and the areas at a point."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nearcast.errors import PlanningError
from nearcast.experiments.area_rivals import METHODS, AreaMethod
from nearcast.geo.bounds import Bounds, Floats
from nearcast.geo.polygon import Polygon

__all__ = ["AreaCase", "AreaSpeed", "run"]

_FIELD_KM = 20.0
_CORNERS = 8
_PROTOTYPES = 50
_CHECKED = 100
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class AreaCase:
    """What is measured: points and areas in a field of 20 km by 20 km."""

    points: int = 100_000
    subscriptions: int = 100_000
    queries: int = 1000
    radius_km: float = 0.25
    """Of the polygons, which have 8 corners 0.5 to 1 of it away from their centre."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class AreaSpeed:
    """CPU times of one core; the fastest of several rounds."""

    method: str
    points: int
    query_us: float
    update_ms: float
    subscriptions: int
    match_us: float
    found_points: float
    """Points in a polygon, mean."""
    found_areas: float
    """Areas at a point, mean."""


def run(
    case: AreaCase, methods: Sequence[str], begin: Callable[[str], None]
) -> Iterator[AreaSpeed]:
    """Measure each method; PlanningError when one finds other points or areas than a scan."""
    rng = np.random.default_rng(case.seed)
    field = Bounds(0.0, 0.0, _FIELD_KM, _FIELD_KM)
    x_km, y_km = rng.uniform(0, _FIELD_KM, (2, case.points))
    queries = _polygons(rng, case.queries, case.radius_km)
    areas = _polygons(rng, case.subscriptions, case.radius_km)
    places = rng.uniform(0, _FIELD_KM, (case.queries, 2)).tolist()
    scan = METHODS["scan"][0](field)
    scan.update(x_km, y_km)
    scan.subscribe(areas)
    checked = range(min(_CHECKED, case.queries))
    points_found = [sorted(scan.inside(queries[number])) for number in checked]
    areas_found = [sorted(scan.at(*places[number])) for number in checked]
    for name in methods:
        begin(name)
        method = METHODS[name][0](field)
        update_ms = _update_ms(method, x_km, y_km)
        method.subscribe(areas)
        for number in checked:
            if sorted(method.inside(queries[number])) != points_found[number]:
                raise PlanningError(f"{name} does not find the points of area {number}")
            if sorted(method.at(*places[number])) != areas_found[number]:
                raise PlanningError(f"{name} does not find the areas at point {number}")
        yield AreaSpeed(
            name,
            case.points,
            1e6 * _seconds_each(method.inside, [(polygon,) for polygon in queries]),
            update_ms,
            case.subscriptions,
            1e6 * _seconds_each(method.at, places),
            float(np.mean([len(found) for found in points_found])),
            float(np.mean([len(found) for found in areas_found])),
        )


def _polygons(rng: np.random.Generator, count: int, radius_km: float) -> list[Polygon]:
    """Return polygons of few forms all over the field."""
    forms = []
    for _ in range(_PROTOTYPES):
        angles = 2 * math.pi * (np.arange(_CORNERS) + rng.uniform(0, 0.9, _CORNERS)) / _CORNERS
        radii = radius_km * rng.uniform(0.5, 1, _CORNERS)
        x_km, y_km = radii * np.cos(angles), radii * np.sin(angles)
        forms.append(Polygon.around(list(zip(x_km.tolist(), y_km.tolist(), strict=True))))
    centres = rng.uniform(radius_km, _FIELD_KM - radius_km, (count, 2)).tolist()
    return [forms[number % _PROTOTYPES].moved(*centre) for number, centre in enumerate(centres)]


def _update_ms(method: AreaMethod, x_km: Floats, y_km: Floats) -> float:
    times_s: list[float] = []
    while len(times_s) < _ROUNDS and sum(times_s) < 2:
        began = time.process_time()
        method.update(x_km, y_km)
        times_s.append(time.process_time() - began)
    return 1e3 * min(times_s)


def _seconds_each(call: Callable[..., object], arguments: Sequence[Sequence[object]]) -> float:
    """Return the CPU time of a call: the mean of a round, the fastest of several."""
    for one in arguments:
        call(*one)  # what is made once is made
    rounds_s: list[float] = []
    while len(rounds_s) < _ROUNDS and sum(rounds_s) < 2:
        began = time.process_time()
        for one in arguments:
            call(*one)
        rounds_s.append(time.process_time() - began)
    return min(rounds_s) / len(arguments)
