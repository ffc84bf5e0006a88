"""Vehicles on a grid of streets, made up from a seed: for quick trials without SUMO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearcast.errors import ConfigError
from nearcast.geo.bounds import Bounds
from nearcast.mobility.moment import Moment

__all__ = ["SyntheticMover", "SyntheticParams"]

_EAST_NORTH = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
"""By direction: north, east, south, west."""


@dataclass(frozen=True, slots=True)
class SyntheticParams:
    """A grid of streets and who drives there."""

    vehicles: int
    blocks: int = 20
    """Along each side of the city."""
    block_km: float = 0.2
    slowest_mps: float = 6.0
    fastest_mps: float = 16.0
    seconds: int = 600
    seed: int = 1

    def __post_init__(self) -> None:
        if self.vehicles < 1 or self.blocks < 1 or self.seconds < 1:
            raise ConfigError("vehicles, blocks and seconds of a mover are at least 1")
        if not 0 < self.slowest_mps <= self.fastest_mps < self.block_km * 1000:
            raise ConfigError("a vehicle drives above 0 m/s and less than a block in a second")


class SyntheticMover:
    """Vehicles that drive at a speed of their own and turn by chance at each crossing."""

    def __init__(self, params: SyntheticParams) -> None:
        self._params = params
        side_km = params.blocks * params.block_km
        self.field = Bounds(0.0, 0.0, side_km, side_km)
        self.names: Sequence[str] = [f"v{number}" for number in range(params.vehicles)]

    def moments(self) -> Iterator[Moment]:
        """Return the seconds; the same ones each time."""
        params = self._params
        rng = np.random.default_rng(params.seed)
        count = params.vehicles
        crossings = rng.integers(0, params.blocks + 1, (count, 2))
        directions = _turn(crossings, np.full(count, -1), params.blocks, rng)
        gone_km = rng.uniform(0.0, params.block_km, count)
        speed_mps = rng.uniform(params.slowest_mps, params.fastest_mps, count)
        for second in range(params.seconds):
            ahead = _EAST_NORTH[directions] * gone_km[:, None]
            places = crossings * params.block_km + ahead
            yield Moment(
                float(second),
                self.names,
                places[:, 0],
                places[:, 1],
                speed_mps,
                90.0 * directions.astype(np.float64),
            )
            gone_km = gone_km + speed_mps / 1000
            over = gone_km >= params.block_km
            gone_km[over] -= params.block_km
            crossings[over] += _EAST_NORTH[directions[over]]
            directions[over] = _turn(crossings[over], directions[over], params.blocks, rng)


def _turn(
    crossings: npt.NDArray[np.int64],
    directions: npt.NDArray[np.int64],
    blocks: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Return where to go on from crossings: any street but the one that each came by."""
    wish = rng.random((len(crossings), 4))
    ahead = crossings[:, None, :] + _EAST_NORTH[None, :, :]
    wish[((ahead < 0) | (ahead > blocks)).any(axis=2)] = -1.0
    came = directions >= 0
    wish[came, (directions[came] + 2) % 4] = -0.5  # only where the street ends
    return np.asarray(np.argmax(wish, axis=1), dtype=np.int64)
