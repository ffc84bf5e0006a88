"""SUMO's own programs: a city made by netgenerate, and routes for vehicles on any network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from xml.sax.saxutils import quoteattr

from nearcast.errors import AreaError, ConfigError
from nearcast.geo.bounds import Bounds
from nearcast.geo.roads import RoadGraph
from nearcast.geo.sumo_net import read_sumo_net

__all__ = ["field_of", "find_sumo", "make_city", "read_net", "write_routes"]

_TOOL_S = 300.0
_BLOCK_M = 200
_MPS = 20.0
"""No vehicle drives faster on streets for 50 km/h: their routes are as long as that takes them."""


def find_sumo() -> Path:
    """Return the folder of SUMO; ConfigError when it is not installed."""
    try:
        import sumo
    except ImportError:
        raise ConfigError(
            "SUMO is not installed: pip install 'nearcast[sumo]', or use --synthetic"
        ) from None
    return Path(sumo.SUMO_HOME)


def make_city(file: Path, blocks: int, seed: int) -> None:
    """Write the network of a city: a grid of streets with two lanes each way.

    Raises
    ------
    ConfigError
        When SUMO is not installed or its netgenerate fails.
    """
    home = find_sumo()
    command = [
        str(home / "bin" / "netgenerate"),
        *("--grid", "--grid.number", str(blocks + 1), "--grid.length", str(_BLOCK_M)),
        *("--default.lanenumber", "2", "--no-turnarounds", "true", "--seed", str(seed)),
        *("--output-file", str(file)),
    ]
    environment = {**os.environ, "SUMO_HOME": str(home)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TOOL_S, env=environment, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise ConfigError(f"netgenerate made no network: {said[0]:.200}")


def read_net(file: Path) -> RoadGraph:
    """Return the roads of a network file; ConfigError when it is not one."""
    try:
        with file.open("rb") as opened:
            return read_sumo_net(opened)
    except (OSError, AreaError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{file}: {reason}") from None


def field_of(roads: RoadGraph) -> Bounds:
    """Return the rectangle around all roads, with room for their width."""
    points = [point for road in roads.roads.values() for point in road.line]
    west, south = (min(axis) for axis in zip(*points, strict=True))
    east, north = (max(axis) for axis in zip(*points, strict=True))
    return Bounds(west, south, east, north).grown(0.05)


def write_routes(
    file: Path, roads: RoadGraph, vehicles: Sequence[str], seconds: int, seed: int
) -> None:
    """Write vehicles that start at once on roads of their own and turn by chance until the end.

    Trips between two places would end before, and the city would empty.
    """
    rng = Random(seed)
    names = [name for name in sorted(roads.roads) if roads.after(name)]
    if not names:
        raise ConfigError("no road of the network leads to another one")
    with file.open("w") as out:
        out.write("<routes>\n")
        for name in vehicles:
            edges = quoteattr(" ".join(_drive(roads, rng.choice(names), seconds, rng)))
            out.write(
                f'<vehicle id="{name}" depart="0" departPos="random_free" departLane="best">'
                f"<route edges={edges}/></vehicle>\n"
            )
        out.write("</routes>\n")


def _drive(roads: RoadGraph, name: str, seconds: int, rng: Random) -> Iterator[str]:
    yield name  # a vehicle may start at the end of it
    left_km = seconds * _MPS / 1000
    while left_km > 0 and (after := roads.after(name)):
        name = rng.choice(after)
        yield name
        left_km -= roads.road(name).length_km
