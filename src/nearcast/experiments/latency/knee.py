"""The highest rate that each system holds: short tries find it, a long one confirms it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from typing import Any

from nearcast.errors import NearcastError
from nearcast.experiments.latency.rounds import left_out_because, measure
from nearcast.experiments.latency.systems import PEERS, SYSTEMS
from nearcast.experiments.latency.target import Target

__all__ = ["STEPS", "best_peer_share", "find_knees", "next_rate_hz", "table"]

Row = dict[str, Any]
STEPS = 8
"""Runs that a search takes, about."""
_MOST_P99_MS = 50.0
_TRY_S, _HOLD_S = 2.0, 10.0
_FIRST_HZ, _LOWEST_HZ, _HIGHEST_HZ = 2_000, 100, 200_000
_STEP = 1.5
_NEAR = 1.3
"""A rate that is held and one that is not are near enough below this ratio."""
_RATE_SHARE = 0.98
"""The load must have sent at this share of the rate, or it was the load that broke."""


def find_knees(
    systems: Sequence[str],
    *,
    skip: Callable[[str, str], None],
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[Row]:
    """Find the highest rate each system holds without loss at p99 < 50 ms; one row per system."""
    for system in systems:
        try:
            with SYSTEMS[system]() as target:
                held, broke = _search(system, target, begin)
        except NearcastError as error:
            skip(system, left_out_because(system, error))
            continue
        yield {
            "system": system,
            "held_rate": held.get("rate", 0),
            "held_p99_ms": held.get("p99_ms"),
            "broke_rate": broke.get("rate"),
            "broke_p99_ms": broke.get("p99_ms"),
            "broke_lost": broke.get("lost"),
            "broke_load_cpu_percent": broke.get("load_cpu_percent"),
        }


def next_rate_hz(held_hz: int, broke_hz: int) -> int:
    """Return what to try after the best rate that was held and the lowest that was not.

    0 stands for a rate that is not known yet, and for the end of the search.
    """
    if held_hz and broke_hz:
        return round(sqrt(held_hz * broke_hz)) if broke_hz / held_hz > _NEAR else 0
    rate_hz = round(held_hz * _STEP or broke_hz / _STEP or _FIRST_HZ)
    return rate_hz if _LOWEST_HZ <= rate_hz <= _HIGHEST_HZ else 0


def best_peer_share(knee: Row, knees: Sequence[Row]) -> float | None:
    """Return the rate that a system holds as a share of the best peer's, if a peer holds any."""
    best_hz = max((row["held_rate"] for row in knees if row["system"] in PEERS), default=0)
    return knee["held_rate"] / best_hz if best_hz else None


def table(knees: Sequence[Row]) -> list[Row]:
    """Return what to show: a line per system."""
    return [
        {
            "system": row["system"],
            "holds, msg/s": row["held_rate"],
            "p99, ms": row["held_p99_ms"],
            "but not, msg/s": row["broke_rate"],
            "p99 there, ms": row["broke_p99_ms"],
            "lost there": row["broke_lost"],
            "rate / best peer": best_peer_share(row, knees),
        }
        for row in knees
    ]


def _search(system: str, target: Target, begin: Callable[[str], None]) -> tuple[Row, Row]:
    """Return the run at the highest rate that is held, and one above it that is not."""

    def run(rate_hz: int, seconds: float) -> Row:
        begin(f"knee: {system}, {rate_hz:,} messages/s for {seconds:.0f} s")
        return measure(system, target, rate_hz, seconds)

    held: Row = {}
    broke: Row = {}
    while rate_hz := next_rate_hz(held.get("rate", 0), broke.get("rate", 0)):
        row = run(rate_hz, _TRY_S)
        if not _is_held(row):  # one hiccup of the machine must not end the search
            row = run(rate_hz, _TRY_S)
        if _is_held(row):
            held = row
        else:
            broke = row
    rate_hz = held.get("rate", 0)
    while rate_hz >= _LOWEST_HZ:
        row = run(rate_hz, _HOLD_S)
        if _is_held(row):
            return row, broke
        broke, rate_hz = row, round(rate_hz / sqrt(_STEP))
    return {}, broke


def _is_held(row: Row) -> bool:
    in_time = row["p99_ms"] < _MOST_P99_MS and row["achieved_hz"] >= _RATE_SHARE * row["rate"]
    return in_time and not row["lost"] and not row["unacknowledged"]
