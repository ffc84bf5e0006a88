"""Made-up vehicles stay on their streets and drive as fast as they say."""

from __future__ import annotations

import itertools
from math import hypot

import pytest

from nearcast.errors import ConfigError
from nearcast.mobility.synthetic import SyntheticMover, SyntheticParams

PARAMS = SyntheticParams(50, blocks=3, seconds=200, seed=4)


def test_vehicles_are_on_a_street_of_the_grid_and_in_the_field() -> None:
    mover = SyntheticMover(PARAMS)
    west, south, east, north = mover.field
    for moment in mover.moments():
        for x_km, y_km in zip(moment.x_km, moment.y_km, strict=True):
            assert west - 1e-9 <= x_km <= east + 1e-9
            assert south - 1e-9 <= y_km <= north + 1e-9
            off_km = min(abs(one - round(one / 0.2) * 0.2) for one in (x_km, y_km))
            assert off_km < 1e-9


def test_vehicles_drive_as_fast_as_they_say_and_turn() -> None:
    moments = list(SyntheticMover(PARAMS).moments())
    for before, after in itertools.pairwise(moments):
        for number in range(50):
            moved_km = hypot(
                after.x_km[number] - before.x_km[number], after.y_km[number] - before.y_km[number]
            )
            assert moved_km <= before.speed_mps[number] / 1000 + 1e-9
            if before.angle_deg[number] == after.angle_deg[number]:
                assert moved_km == pytest.approx(before.speed_mps[number] / 1000)
    assert {one.angle_deg[0] for one in moments} == {0.0, 90.0, 180.0, 270.0}


def test_the_same_seed_drives_the_same_way() -> None:
    one, other = (list(SyntheticMover(PARAMS).moments())[-1] for _ in range(2))
    assert (one.x_km == other.x_km).all()
    third = list(SyntheticMover(SyntheticParams(50, blocks=3, seconds=200, seed=5)).moments())[-1]
    assert (one.x_km != third.x_km).any()


@pytest.mark.parametrize("bad", [{"vehicles": 0}, {"vehicles": 1, "fastest_mps": 300.0}])
def test_what_cannot_drive_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        SyntheticParams(**bad)  # type: ignore[arg-type]
