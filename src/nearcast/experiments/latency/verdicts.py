"""The goals of the live core against what was measured, and the table of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nearcast.experiments.latency.knee import best_peer_share
from nearcast.experiments.latency.systems import PEERS, TWO_EDGES

__all__ = ["Verdict", "summary", "verdicts"]

Row = dict[str, Any]
_BEYOND = {100: 0.6, 1000: 0.5, 5000: 0.5}
"""Share of the best peer's delay to reach in the end, by rate."""
_CPU_US = {100: (650.0,), 1000: (350.0, 300.0), 5000: (130.0, 110.0)}
"""CPU time of all server processes per message, by rate: the goal, then the one after it."""
_CHILD_SHARE = 2.0
_TWO_EDGES_SHARE = 1.6
_KNEE_SHARE = 0.8


class Verdict(NamedTuple):
    """A goal, and whether it was reached."""

    goal: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the measured value is on the right side of the limit."""
        if self.at_least:
            return self.measured >= self.limit
        return self.measured <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        word = "reached" if self.is_reached else "MISSED"
        return f"{word}: {self.goal}: {self.measured:,.2f} (goal {sign} {self.limit:g})"


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return the table: every system by rate, nearcast's also as a share of the best peer's."""
    ordered = sorted(rows, key=lambda row: int(row["rate"]))
    return [_cells(row, ordered) for row in ordered]


def _cells(row: Row, rows: Sequence[Row]) -> Row:
    is_peer = row["system"] in PEERS
    return {
        "system": row["system"],
        "msg/s": row["rate"],
        "p50, ms": row["p50_ms"],
        "p99, ms": row["p99_ms"],
        "p99.9, ms": row["p999_ms"],
        "lost": row["lost"],
        "CPU, us": round(row["cpu_us_per_message"]),
        "p50 / peer": None if is_peer else _share(row, rows, "p50_ms"),
        "p99 / peer": None if is_peer else _share(row, rows, "p99_ms"),
        "sent late, ms": row["send_late_p99_ms"],
        "load, us": round(row["load_cpu_us_per_message"]),
        "stolen, %": row["stolen_percent"],
    }


def verdicts(rows: Sequence[Row], knees: Sequence[Row] = ()) -> list[Verdict]:
    """Return a verdict for each goal that these rows tell something about."""
    found: list[Verdict] = []
    for row in sorted(rows, key=lambda one: int(one["rate"])):
        rate = row["rate"]
        if row["system"] == "nearcast":
            found += _against_peers(row, rows)
            for limit_us in _CPU_US.get(rate, ()):
                goal = f"{rate:,}/s: CPU us per message of all server processes"
                found.append(Verdict(goal, row["cpu_us_per_message"], limit_us))
            found.append(Verdict(f"{rate:,}/s: notifications lost", row["lost"], 0))
            goal = f"{rate:,}/s: publications never acknowledged"
            found.append(Verdict(goal, row["unacknowledged"], 0))
        elif row["system"] == "nearcast-child":
            found += _against_inline(row, rows, ("p99_ms",), _CHILD_SHARE, "processor in a child")
        elif row["system"] == TWO_EDGES:
            names = ("p50_ms", "p99_ms")
            found += _against_inline(row, rows, names, _TWO_EDGES_SHARE, "two edges")
    return found + _of_knees(knees)


def _against_peers(row: Row, rows: Sequence[Row]) -> list[Verdict]:
    found = []
    for name in ("p50_ms", "p99_ms"):
        share = _share(row, rows, name)
        if share is None:
            continue
        goal = f"{row['rate']:,}/s: {name[:3]} / best peer's"
        found.append(Verdict(goal, share, 1.0))
        if row["rate"] in _BEYOND:
            found.append(Verdict(f"{goal}, beyond", share, _BEYOND[row["rate"]]))
    return found


def _against_inline(
    row: Row, rows: Sequence[Row], names: Sequence[str], limit: float, what: str
) -> list[Verdict]:
    inline = [one for one in rows if one["system"] == "nearcast" and one["rate"] == row["rate"]]
    return [
        Verdict(f"{row['rate']:,}/s: {name[:3]} with {what} / inline", row[name] / one[name], limit)
        for one in inline
        for name in names
    ]


def _of_knees(knees: Sequence[Row]) -> list[Verdict]:
    goal = "highest rate held / best peer's"
    shares = [best_peer_share(row, knees) for row in knees if row["system"] == "nearcast"]
    return [Verdict(goal, one, _KNEE_SHARE, at_least=True) for one in shares if one is not None]


def _share(row: Row, rows: Sequence[Row], name: str) -> float | None:
    peers = [one[name] for one in rows if one["system"] in PEERS and one["rate"] == row["rate"]]
    return row[name] / min(peers) if peers else None
