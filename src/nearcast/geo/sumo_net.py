"""Reads the roads and turns of a SUMO network (``.net.xml``)."""

from __future__ import annotations

from typing import IO
from xml.etree.ElementTree import Element, ParseError, iterparse

from nearcast.errors import AreaError
from nearcast.geo.bounds import check_number
from nearcast.geo.roads import Road, RoadGraph

__all__ = ["read_sumo_net"]

_CARS = frozenset(("passenger", "all"))


def read_sumo_net(file: IO[bytes]) -> RoadGraph:
    """Return the roads of a network, without those inside junctions and those for no car.

    A road's line is its own shape, or else that of its middle lane. SUMO counts in metres.

    Raises
    ------
    AreaError
        When the file is not such a network, with the road that is wrong.
    """
    roads: list[Road] = []
    turns: list[tuple[str, str]] = []
    without_cars: set[str] = set()
    try:
        for _, element in iterparse(file, events=("end",)):
            if element.tag == "edge" and element.get("function") != "internal":
                if _is_for_cars(element):
                    roads.append(_road(element))
                else:
                    without_cars.add(element.get("id", ""))
            elif element.tag == "connection":
                turns.append((element.get("from", ""), element.get("to", "")))
            if element.tag in ("edge", "connection", "junction", "tlLogic"):
                element.clear()
    except ParseError as reason:
        raise AreaError(f"the road network is not XML: {reason}") from None
    if not roads:
        raise AreaError("the road network has no roads for cars (edge)")
    # those from and to inner roads of junctions repeat what is known
    known = [turn for turn in turns if not turn[0].startswith(":")]
    return RoadGraph(roads, [turn for turn in known if without_cars.isdisjoint(turn)])


def _is_for_cars(edge: Element) -> bool:
    lanes = edge.findall("lane")
    return not lanes or any(map(_lets_cars, lanes))


def _lets_cars(lane: Element) -> bool:
    """Tell whether cars may use a lane: with neither attribute all may."""
    allowed, forbidden = lane.get("allow"), lane.get("disallow", "")
    if allowed is not None:
        return not _CARS.isdisjoint(allowed.split())
    return _CARS.isdisjoint(forbidden.split())


def _road(edge: Element) -> Road:
    name = edge.get("id")
    if not name:
        raise AreaError("a road of the network (edge) has no id")
    lanes = edge.findall("lane")
    shape = edge.get("shape") or (lanes[len(lanes) // 2].get("shape") if lanes else None)
    if not shape:
        raise AreaError(f"road {name!r:.60} of the network has no shape")
    return Road(name, tuple(_point(text, name) for text in shape.split()))


def _point(text: str, name: str) -> tuple[float, float]:
    try:
        x, y = (float(part) / 1000 for part in text.split(",")[:2])
    except ValueError:
        raise AreaError(f"road {name!r:.60} of the network: {text!r:.40} is not a point") from None
    return (
        check_number(x, f"x of a point of road {name!r:.60}"),
        check_number(y, f"y of a point of road {name!r:.60}"),
    )
