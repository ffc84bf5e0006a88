"""Bad bytes by the million: random, flipped, cut, spliced, deep and wide; drawn in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["bad_bytes"]

_BLOCK = 4_096
_KINDS = 8
_LONGEST_RANDOM = 300


def bad_bytes(samples: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield bad versions of good samples; most differ in a few bytes only."""
    rng = np.random.default_rng(seed)
    pool = rng.bytes(1 << 20)
    deep = [b"\x91" * 10_000, b"\x0a\x7f" * 500, b"[" * 5_000, b"\x81\xa1a" * 3_000]
    wide = [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\n\0" * 600,
    ]
    left = count
    while left > 0:
        size = min(_BLOCK, left)
        left -= size
        chosen = rng.integers(len(samples), size=(size, 2)).tolist()
        kinds = rng.integers(_KINDS, size=size).tolist()
        places = rng.random(size=(size, 4)).tolist()
        values = rng.integers(256, size=(size, 4)).tolist()
        for (first, second), kind, place, value in zip(chosen, kinds, places, values, strict=True):
            data = samples[first]
            length = len(data)
            if kind <= 2 and length:  # one to four bytes changed
                changed = bytearray(data)
                for where, new in zip(place[: kind + 2], value, strict=False):
                    changed[int(where * length)] = new
                yield bytes(changed)
            elif kind == 3:  # cut short
                yield data[: int(place[0] * length)]
            elif kind == 4:  # the end of another one
                other = samples[second]
                yield data[: int(place[0] * length)] + other[int(place[1] * len(other)) :]
            elif kind == 5:  # bytes put in
                at, new = int(place[0] * length), int(place[1] * (1 << 20))
                yield data[:at] + pool[new : new + value[0] % 16] + data[at:]
            elif kind == 6:
                start = int(place[0] * (1 << 20))
                yield pool[start : start + int(place[1] * _LONGEST_RANDOM)]
            else:
                odd = deep if value[0] & 1 else wide
                yield (
                    data[: int(place[0] * length)] + odd[value[1] % len(odd)][: 1 << value[2] % 15]
                )
