"""A camera that is none: frames of noise through which a few people walk, to try flows with."""

from __future__ import annotations

from collections.abc import Iterator

from nearcast.broker.processors.frames import CameraFrame
from nearcast.routing.chance import Chance

__all__ = ["synthetic_frames"]

_WIDTH, _HEIGHT = 32, 20
"""So many pixels that a frame fits into one datagram."""
_LOOKS = (120, 160, 200, 240)
"""How bright the upper half of each person is; the lower half is the same of all."""
_LOWER = 250
_PERSON_WIDTH, _PERSON_HEIGHT = 4, 8


def synthetic_frames(camera: str, rng: Chance) -> Iterator[CameraFrame]:
    """Yield frames without end, each with none, one or two of four people."""
    while True:
        pixels = bytearray(rng.randrange(20, 40) for _ in range(_WIDTH * _HEIGHT))
        first = rng.randrange(0, len(_LOOKS))
        people = (first, (first + rng.randrange(1, len(_LOOKS))) % len(_LOOKS))
        for half, person in enumerate(people[: rng.randrange(0, 3)]):
            column = half * _WIDTH // 2 + rng.randrange(1, _WIDTH // 2 - _PERSON_WIDTH)
            row = rng.randrange(0, _HEIGHT - _PERSON_HEIGHT)
            _draw(pixels, column, row, _LOOKS[person])
        yield CameraFrame(camera, _WIDTH, bytes(pixels))


def _draw(pixels: bytearray, column: int, row: int, look: int) -> None:
    for y in range(_PERSON_HEIGHT):
        at = (row + y) * _WIDTH + column
        grey = look if y < _PERSON_HEIGHT // 2 else _LOWER
        pixels[at : at + _PERSON_WIDTH] = bytes([grey]) * _PERSON_WIDTH
