"""Who has which indexes of a component: ranges for all nets, and exceptions for one net."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from nearcast.flow.messages import Part, PlacedPart
from nearcast.routing.keys import INDEX_END, NetPath

__all__ = ["Ledger", "covers", "describe_part", "overlaps"]

_Range = tuple[int, int, str]
"""From, up to, server."""


def covers(part: Part, net: NetPath, index: int) -> bool:
    """Tell whether a message belongs to a part."""
    return part.low <= index < part.high and part.net in (None, net)


def overlaps(one: Part, other: Part) -> bool:
    """Tell whether a message may belong to both parts."""
    same_net = one.net is None or other.net is None or one.net == other.net
    return same_net and one.low < other.high and other.low < one.high


def describe_part(part: Part) -> str:
    """Return a part for people, in percent of all indexes."""
    low, high = 100 * part.low / INDEX_END, 100 * part.high / INDEX_END
    net = "" if part.net is None else f" of {'.'.join(part.net) or 'the cloud'}"
    return f"{low:g}..{high:g} %{net}"


class Ledger:
    """The server of each (net, index) that is known; what is said last counts."""

    def __init__(self, placed: Iterable[PlacedPart] = ()) -> None:
        self._ranges: dict[NetPath | None, list[_Range]] = {None: []}
        for one in placed:
            self.place(one.part, one.server)

    def __len__(self) -> int:
        return sum(map(len, self._ranges.values()))

    def server_of(self, net: NetPath | None, index: int) -> str:
        """Return the server that has an index, empty when none is known; None: without exceptions."""
        for key in (net, None):
            found = self._find(key, index)
            if found is not None:
                return found[2]
        return ""

    def part_around(self, net: NetPath | None, index: int) -> Part:
        """Return the largest part of a net around an index that is all of one server, or of none."""
        exception = self._find(net, index)
        if exception is not None:
            return Part(net, exception[0], exception[1])
        low, high = 0, INDEX_END
        whole = self._find(None, index)
        if whole is not None:
            low, high = whole[0], whole[1]
        for start, end, _ in (*self._ranges.get(net, ()), *self._ranges[None]):
            if end <= index:
                low = max(low, end)
            elif start > index:
                high = min(high, start)
        return Part(net, low, high)

    def place(self, part: Part, server: str) -> None:
        """Note that a server has a part; without a name nobody is known to have it."""
        nets = list(self._ranges) if part.net is None else [part.net]
        if part.net is not None and self.holds(Part(None, part.low, part.high), server):
            server = ""  # no exception any more
        for net in nets:
            kept = list(_without(self._ranges.get(net, []), part.low, part.high))
            if server and net == part.net:
                kept.append((part.low, part.high, server))
            self._ranges[net] = _joined(sorted(kept))
            if not self._ranges[net] and net is not None:
                del self._ranges[net]

    def placed(self) -> tuple[PlacedPart, ...]:
        """Return all that is known, in an order in which it can be said again."""
        return tuple(
            PlacedPart(Part(net, low, high), server)
            for net, ranges in self._ranges.items()
            for low, high, server in ranges
        )

    def parts_of(self, server: str) -> tuple[Part, ...]:
        """Return what a server has; of parts of all nets, exceptions are not taken off."""
        return tuple(one.part for one in self.placed() if one.server == server)

    def holds(self, part: Part, server: str) -> bool:
        """Tell whether a server has the whole part; of all nets: but for exceptions."""
        return all(one == server for _, one in self.pieces(part))

    def has_any(self, part: Part, server: str) -> bool:
        """Tell whether a server has something of a part; of all nets: exceptions not counted."""
        return any(one == server for _, one in self.pieces(part))

    def pieces(self, part: Part) -> Iterator[tuple[Part, str]]:
        """Return who has a part, piece by piece, empty where nobody is known.

        Of a part of all nets, exceptions are not taken off.
        """
        at = part.low
        while at < part.high:
            end = min(self.part_around(part.net, at).high, part.high)
            yield Part(part.net, at, end), self.server_of(part.net, at)
            at = end

    def exceptions(self, part: Part) -> tuple[PlacedPart, ...]:
        """Return who has what of a part of all nets for one net only."""
        return tuple(
            PlacedPart(Part(net, max(low, part.low), min(high, part.high)), server)
            for net, ranges in self._ranges.items()
            for low, high, server in ranges
            if net is not None and part.net is None and low < part.high and part.low < high
        )

    def _find(self, net: NetPath | None, index: int) -> _Range | None:
        ranges = self._ranges.get(net)
        if not ranges:
            return None
        at = bisect_right(ranges, index, key=lambda one: one[0]) - 1
        return ranges[at] if at >= 0 and index < ranges[at][1] else None


def _without(ranges: Iterable[_Range], low: int, high: int) -> Iterator[_Range]:
    for start, end, server in ranges:
        if start < low:
            yield start, min(end, low), server
        if end > high:
            yield max(start, high), end, server


def _joined(ranges: Iterable[_Range]) -> list[_Range]:
    joined: list[_Range] = []
    for low, high, server in ranges:
        if joined and joined[-1][1:] == (low, server):
            joined[-1] = (joined[-1][0], high, server)
        else:
            joined.append((low, high, server))
    return joined
