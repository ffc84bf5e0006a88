"""All vehicles at one second, and what gives such seconds one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nearcast.geo.bounds import Bounds

__all__ = ["Floats", "Moment", "Mover"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """Where all vehicles that are on the road are, at one time.

    Parameters
    ----------
    time_s
        Since the mover began.
    vehicles
        Their names; a vehicle keeps its name, and appears once at most.
    x_km, y_km, speed_mps, angle_deg
        In the order of `vehicles`; the angle is clockwise from north.
    """

    time_s: float
    vehicles: Sequence[str]
    x_km: Floats
    y_km: Floats
    speed_mps: Floats
    angle_deg: Floats


class Mover(Protocol):
    """Moves vehicles; `SyntheticMover`, `TraceMover`, `SumoMover`."""

    field: Bounds
    """Where vehicles can be."""
    names: Sequence[str]
    """Of all vehicles that will ever be there."""

    def moments(self) -> Iterator[Moment]:
        """Return the seconds from the beginning to the end; called once.

        A mover ends when it has no more to tell; who wants less closes the iterator, and what
        runs behind it ends then.
        """
        ...
