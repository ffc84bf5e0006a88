"""Messages of any type with random and extreme values, made from the types themselves."""

from __future__ import annotations

import types
import typing
from functools import cache
from random import Random
from typing import Any

import msgspec

__all__ = ["random_value"]

_NUMBERS = (0, 1, 2, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 53, (1 << 62) - 1, 1 << 63, (1 << 64) - 1)
_FLOATS = (0.0, -1.0, 1e-300, 1e308, float("inf"), float("-inf"), float("nan"), 1.0)
_TEXTS = ("", "t0", "e0", "e1", "cloud", "p0", "s0", "manager", "+", "#", "a/" * 40, "\0", "é" * 99)
_DEEPEST = 4


def random_value(kind: Any, rng: Random, depth: int = 0) -> Any:
    """Return a value of an annotated type; numbers may be more than a field can hold."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return random_value(args[0], rng, depth)
    if origin is typing.Literal:
        return rng.choice(args)
    if origin in (typing.Union, types.UnionType):
        return random_value(rng.choice(args), rng, depth)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _random_struct(kind, rng, depth)
    if isinstance(kind, type) and issubclass(kind, tuple):  # a named one
        return kind(*(random_value(one, rng, depth + 1) for one in _hints(kind).values()))
    if origin in (tuple, list):
        return _random_items(origin, args, rng, depth)
    if origin is dict:
        size = rng.randrange(3)
        return {
            random_value(args[0], rng, depth): random_value(args[1], rng, depth + 1)
            for _ in range(size)
        }
    return _random_plain(kind, rng)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _random_struct(kind: type[msgspec.Struct], rng: Random, depth: int) -> Any:
    hints = _hints(kind)
    values = {name: random_value(hints[name], rng, depth + 1) for name in kind.__struct_fields__}
    try:
        return kind(**values)
    except Exception:  # it checks itself: take one that it accepts, if it has defaults
        return kind()


def _random_items(origin: Any, args: Any, rng: Random, depth: int) -> Any:
    if origin is tuple and Ellipsis not in args:
        return tuple(random_value(one, rng, depth + 1) for one in args)
    many = 70 if depth <= 1 else 9  # of many in many nothing new comes
    size = 0 if depth > _DEEPEST else rng.choice((0, 1, 2, 3, many))
    return origin(random_value(args[0], rng, depth + 1) for _ in range(size))


def _random_plain(kind: Any, rng: Random) -> Any:
    if kind is int:
        return rng.choice(_NUMBERS) if rng.random() < 0.7 else -rng.choice(_NUMBERS[:9])
    if kind is float:
        return rng.choice(_FLOATS)
    if kind is str:
        return rng.choice(_TEXTS)
    if kind is bytes:
        return rng.randbytes(rng.choice((0, 1, 8, 32, 64, 300)))
    if kind is bool:
        return rng.random() < 0.5
    return None
