"""Roads and how they join: which stretches lead to a place, back past the last exits before it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

from nearcast.errors import AreaError
from nearcast.geo.bounds import check_number
from nearcast.geo.corridor import Corridor
from nearcast.geo.shapes import MOST_PARTS, Union

__all__ = ["Road", "RoadGraph"]

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Road:
    """A stretch of road in one direction, between two junctions."""

    road_id: str
    line: tuple[Point, ...]
    """At least two points in kilometres, in the direction of travel."""

    @property
    def length_km(self) -> float:
        """How long it is."""
        return sum(map(math.dist, self.line, self.line[1:]))

    def part(self, from_km: float, to_km: float) -> tuple[Point, ...]:
        """Return the line between two distances from its beginning."""
        points = [self._at(from_km)]
        gone = 0.0
        for start, end in pairwise(self.line):
            gone += math.dist(start, end)
            if from_km < gone < to_km:
                points.append(end)
        return (*points, self._at(to_km))

    def _at(self, distance_km: float) -> Point:
        left = max(distance_km, 0.0)
        for start, end in pairwise(self.line):
            length = math.dist(start, end)
            if length >= left > 0 or (length and not left):
                share = left / length
                return (
                    start[0] + share * (end[0] - start[0]),
                    start[1] + share * (end[1] - start[1]),
                )
            left -= length
        return self.line[-1]


class RoadGraph:
    """Roads by id, and which may follow which.

    Parameters
    ----------
    roads
        Each id once.
    turns
        (from, to) ids of roads that one can drive after each other.

    Raises
    ------
    AreaError
        When an id is there twice or a turn has an unknown road.
    """

    def __init__(self, roads: Iterable[Road], turns: Iterable[tuple[str, str]]) -> None:
        self._roads: dict[str, Road] = {}
        for road in roads:
            if road.road_id in self._roads:
                raise AreaError(f"road {road.road_id!r} is there twice")
            if len(set(road.line)) < 2:
                raise AreaError(f"road {road.road_id!r} has no two different points")
            self._roads[road.road_id] = road
        self._next: dict[str, set[str]] = {name: set() for name in self._roads}
        self._before: dict[str, set[str]] = {name: set() for name in self._roads}
        for begin, end in turns:
            self._next[self.road(begin).road_id].add(self.road(end).road_id)
            self._before[end].add(begin)

    @property
    def roads(self) -> Mapping[str, Road]:
        """All roads."""
        return self._roads

    def road(self, road_id: str) -> Road:
        """Return a road; AreaError when it is unknown."""
        if road_id not in self._roads:
            raise AreaError(f"there is no road {road_id!r:.60}")
        return self._roads[road_id]

    def after(self, road_id: str) -> list[str]:
        """Return the roads that one can drive on after a road, by name; AreaError: unknown."""
        return sorted(self._next[self.road(road_id).road_id])

    def route(self, road_ids: Iterable[str], width_km: float) -> Corridor:
        """Return the corridor along a route; AreaError when a road is unknown or does not follow."""
        names = list(road_ids)
        line = [point for name in names for point in self.road(name).line]
        for before, after in pairwise(names):
            if after not in self._next[before]:
                raise AreaError(f"one cannot drive from road {before!r:.60} to {after!r:.60}")
        return Corridor(tuple(line), width_km)

    def upstream(
        self,
        road_id: str,
        at_km: float,
        *,
        width_km: float = 0.03,
        before_exit_km: float = 0.5,
        most_km: float = 10.0,
    ) -> Union:
        """Return the stretches whose drivers come to a place on a road unless they leave before.

        From the place back along all roads that lead there. Where drivers can still turn off to a
        road that does not lead there, the stretch before that exit is the last one on that way, so
        that they hear of it in time.

        Parameters
        ----------
        at_km
            Where on the road, from its beginning.
        width_km
            Of the corridor along each stretch.
        before_exit_km
            How much of the road before an exit belongs to it.
        most_km
            How far back at most, exit or not.

        Raises
        ------
        AreaError
            When the road is unknown, the place is not on it, or more than `MOST_PARTS` stretches
            lead there.
        """
        road = self.road(road_id)
        if not 0 < check_number(at_km, "place on the road") <= road.length_km + 1e-9:
            raise AreaError(
                f"{at_km:g} km is not on road {road_id!r:.60}, which is {road.length_km:g} km long"
            )
        for value, name in ((before_exit_km, "before_exit_km"), (most_km, "most_km")):
            if check_number(value, name) <= 0:
                raise AreaError(f"{name} is {value:g}, not above 0")
        parts = [Corridor(road.part(max(0.0, at_km - most_km), at_km), width_km)]
        captive = self._captive(road_id)
        # the nearest first: a road is met again only by a longer way
        behind = [(at_km, name) for name in self._before[road_id]]
        heapify(behind)
        seen = {road_id}
        while behind:
            gone_km, name = heappop(behind)
            if name in seen or gone_km >= most_km:
                continue
            seen.add(name)
            length = self._roads[name].length_km
            is_exit = name not in captive
            wanted = min(length, most_km - gone_km, before_exit_km if is_exit else math.inf)
            if len(parts) == MOST_PARTS:
                raise AreaError(
                    f"more than {MOST_PARTS} stretches lead to road {road_id!r:.60} "
                    f"within {most_km:g} km; take a smaller most_km"
                )
            parts.append(Corridor(self._roads[name].part(length - wanted, length), width_km))
            if not is_exit:
                for before in self._before[name] - seen:
                    heappush(behind, (gone_km + length, before))
        return Union(tuple(parts))

    def _captive(self, road_id: str) -> set[str]:
        """Return a road and those from which one can drive nowhere but to it."""
        found, ahead = {road_id}, [road_id]
        ways_out = {name: len(after) for name, after in self._next.items()}
        while ahead:
            for before in self._before[ahead.pop()]:
                ways_out[before] -= 1
                if not ways_out[before] and before not in found:
                    found.add(before)
                    ahead.append(before)
        return found
