"""Distances and crossings of straight segments, as array kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearcast.geo.bounds import Bools, Floats

__all__ = [
    "first_crossing",
    "headings_deg",
    "least_distance_km",
    "overlapping_pairs",
    "squared_distances",
]

Indices = npt.NDArray[np.int64]

_PAIRS_AT_ONCE = 16_384


def squared_distances(x: Floats, y: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return the squared distances [segment, point]; starts and ends are [segment, 2]."""
    along = ends - starts
    length2 = np.maximum((along * along).sum(axis=1), np.finfo(np.float64).tiny)
    east = x[None, :] - starts[:, 0, None]
    north = y[None, :] - starts[:, 1, None]
    share = (east * along[:, 0, None] + north * along[:, 1, None]) / length2[:, None]
    np.clip(share, 0, 1, out=share)
    east -= share * along[:, 0, None]
    north -= share * along[:, 1, None]
    found: Floats = east * east + north * north
    return found


def headings_deg(starts: Floats, ends: Floats) -> Floats:
    """Return the directions of segments in degrees, clockwise from north."""
    along = ends - starts
    return np.degrees(np.arctan2(along[:, 0], along[:, 1])) % 360


def first_crossing(
    starts: Floats,
    ends: Floats,
    mine: Indices,
    other_starts: Floats,
    other_ends: Floats,
    theirs: Indices,
) -> int | None:
    """Return the first pair (mine[i], theirs[i]) of segments that share a point."""
    for begin in range(0, len(mine), _PAIRS_AT_ONCE):
        a, b = mine[begin : begin + _PAIRS_AT_ONCE], theirs[begin : begin + _PAIRS_AT_ONCE]
        start, other_start, other_end = starts[a], other_starts[b], other_ends[b]
        along = ends[a] - start
        left, right = _cross(along, other_start - start), _cross(along, other_end - start)
        both = np.flatnonzero(np.sign(left) * np.sign(right) <= 0)
        crossing = _share_a_point(start[both], ends[a[both]], other_start[both], other_end[both])
        if crossing.any():
            return begin + int(both[np.argmax(crossing)])
    return None


def _share_a_point(starts: Floats, ends: Floats, other_starts: Floats, other_ends: Floats) -> Bools:
    """Tell, pair by pair; those on one line share a point if one's end is in the other's box."""
    along, other_along = ends - starts, other_ends - other_starts
    a, b = _cross(along, other_starts - starts), _cross(along, other_ends - starts)
    c, d = _cross(other_along, starts - other_starts), _cross(other_along, ends - other_starts)
    crossing: Bools = (np.sign(a) * np.sign(b) < 0) & (np.sign(c) * np.sign(d) < 0)
    crossing |= (a == 0) & _in_box(other_starts, starts, ends)
    crossing |= (b == 0) & _in_box(other_ends, starts, ends)
    crossing |= (c == 0) & _in_box(starts, other_starts, other_ends)
    crossing |= (d == 0) & _in_box(ends, other_starts, other_ends)
    return crossing


def overlapping_pairs(starts: Floats, ends: Floats) -> tuple[Indices, Indices]:
    """Return the pairs of segments whose bounding boxes meet, each pair once."""
    low, high = np.minimum(starts, ends), np.maximum(starts, ends)
    order = np.argsort(low[:, 0], kind="stable")
    low, high = low[order], high[order]
    # in the order of their western ends, those that a segment may meet follow it directly
    last = np.searchsorted(low[:, 0], high[:, 0], side="right")
    counts = last - np.arange(len(order)) - 1
    first = np.repeat(np.arange(len(order)), counts)
    second = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts) + first + 1
    meets = (low[first, 1] <= high[second, 1]) & (low[second, 1] <= high[first, 1])
    return order[first[meets]], order[second[meets]]


def least_distance_km(path: Sequence[tuple[float, float]], starts: Floats, ends: Floats) -> float:
    """Return the least distance between a path of one point or more and segments."""
    points = np.array(path, dtype=np.float64)
    best = float(squared_distances(points[:, 0], points[:, 1], starts, ends).min())
    if len(points) > 1:
        count = len(points) - 1
        mine = np.repeat(np.arange(count), len(starts))
        theirs = np.tile(np.arange(len(starts)), count)
        if first_crossing(points[:-1], points[1:], mine, starts, ends, theirs) is not None:
            return 0.0
        back = squared_distances(ends[:, 0], ends[:, 1], points[:-1], points[1:])
        best = min(best, float(back.min()))
    return math.sqrt(best)


def _cross(a: Floats, b: Floats) -> Floats:
    found: Floats = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return found


def _in_box(point: Floats, start: Floats, end: Floats) -> Bools:
    low, high = np.minimum(start, end), np.maximum(start, end)
    inside = (point >= low) & (point <= high)
    return inside[:, 0] & inside[:, 1]
