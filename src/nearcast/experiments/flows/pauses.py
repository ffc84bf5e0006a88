"""How long messages of a part take around its hand-overs, and as long spans without one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import nan
from statistics import median
from typing import NamedTuple

from nearcast.experiments.flows.load import Load

__all__ = ["Move", "Span", "longest_ms", "quiet_spans", "spans_of"]

_BEFORE_S = 0.2
"""What was sent before the command may still wait at the giver."""
_AFTER_S = 0.1
"""Once the taker's first result is heard, what waited for it is on its way."""


class Move(NamedTuple):
    """The command to hand a part over."""

    at_s: float
    taker: str


class Span(NamedTuple):
    """A time in which messages are sent."""

    since_s: float
    until_s: float


def spans_of(load: Load, moves: Sequence[Move], keys: Collection[str]) -> list[Span]:
    """Return when messages were sent that each hand-over may have held up.

    That is until the taker's first result of the part is heard; if none is heard, until the end.
    """
    spans = []
    for move in moves:
        heard_s = (
            one.at_s
            for one in load.heard
            if one.at_s > move.at_s and one.server == move.taker and one.key in keys
        )
        until_s = min(heard_s, default=max(load.sent_s.values()))
        spans.append(Span(move.at_s - _BEFORE_S, until_s + _AFTER_S))
    return spans


def quiet_spans(began_s: float, until_s: float, like: Sequence[Span]) -> list[Span]:
    """Return spans of a time without hand-overs, as long as those with one are in the middle."""
    length_s = median(one.until_s - one.since_s for one in like)
    count = int((until_s - began_s) / length_s)
    return [Span(began_s + at * length_s, began_s + (at + 1) * length_s) for at in range(count)]


def longest_ms(load: Load, spans: Sequence[Span], keys: Collection[str]) -> list[float]:
    """Return the longest that a message with one of these keys took, by the span it was sent in."""
    return [1e3 * max(load.delays_s(*one, keys), default=nan) for one in spans]
