"""Content mappings as users may write them by mistake."""

from __future__ import annotations

import sys


def raises(payload: bytes) -> str:
    raise ValueError("as ordered")


class UnspeakableError(Exception):
    """Raises when it is looked at."""

    def __repr__(self) -> str:
        raise RuntimeError("not to be said")


def raises_the_unspeakable(payload: bytes) -> str:
    raise UnspeakableError


class Text(str):
    """A text that cannot be encoded."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        raise UnicodeError("not to be encoded")


def returns_strange_text(payload: bytes) -> str:
    return Text("x")


def leaves(payload: bytes) -> str:
    sys.exit("as ordered")


def recurses(payload: bytes) -> str:
    return recurses(payload)


def returns_float(payload: bytes) -> float:
    return float("nan")


def returns_nothing(payload: bytes) -> None:
    return None


def returns_list(payload: bytes) -> list[bytes]:
    return [payload]
