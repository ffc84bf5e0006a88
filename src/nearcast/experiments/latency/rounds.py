"""The runs: interleaved rounds over systems and rates, medians over rounds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from nearcast.errors import NearcastError
from nearcast.experiments.latency.peer_packages import PeerMissingError
from nearcast.experiments.latency.systems import PEERS, SYSTEMS
from nearcast.experiments.latency.target import Target, ask_worker

__all__ = ["left_out_because", "measure", "run_rounds", "to_rows"]

Row = dict[str, Any]
WARM_UP_S = 1.0


def run_rounds(
    systems: Sequence[str],
    rates_hz: Sequence[int],
    *,
    seconds: float,
    rounds: int,
    skip: Callable[[str, str], None],
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[Row]:
    """Measure every system at every rate, then all of it again; yield one row per run.

    Each round begins with another system. One that cannot be had, or fails, is left out from then
    on, and `skip` is told which and why.
    """
    left_out: set[str] = set()
    for turn in range(rounds):
        at = turn % len(systems)
        for system in (*systems[at:], *systems[:at]):
            if system in left_out:
                continue
            try:
                with SYSTEMS[system]() as target:
                    for rate_hz in rates_hz:
                        begin(f"round {turn + 1}: {system}, {rate_hz:,} messages/s")
                        yield measure(system, target, rate_hz, seconds)
            except NearcastError as error:
                left_out.add(system)
                skip(system, left_out_because(system, error))


def to_rows(runs: Sequence[Row]) -> list[Row]:
    """Return one row per system and rate: medians over rounds, losses of all rounds together."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for one in runs:
        groups.setdefault((one["system"], one["rate"]), []).append(one)
    return [_combined(group) for group in groups.values()]


def _combined(group: Sequence[Row]) -> Row:
    row: Row = {"system": group[0]["system"], "rate": group[0]["rate"]}
    for name in ("p50_ms", "p99_ms", "p999_ms"):
        row[name] = _middle([one[name] for one in group])
    row["lost"] = sum(one["lost"] for one in group)
    row["cpu_us_per_message"] = _middle([one["cpu_us_per_message"] for one in group])
    row["rounds"] = len(group)
    for name in ("sent", "unacknowledged", "repeated"):
        row[name] = sum(one[name] for one in group)
    is_peer = row["system"] in PEERS
    row["acknowledged"] = None if is_peer else row["sent"] - row["unacknowledged"]
    labels = group[0]["cpu_us_by_process"]
    row["cpu_us_by_process"] = {
        label: _middle([one["cpu_us_by_process"].get(label) for one in group]) for label in labels
    }
    for name in (
        "load_cpu_us_per_message",
        "load_cpu_percent",
        "achieved_hz",
        "send_late_p99_ms",
        "stolen_percent",
    ):
        row[name] = _middle([one[name] for one in group])
    row["best_p50_ms"] = min(one["p50_ms"] for one in group)
    row["best_p99_ms"] = min(one["p99_ms"] for one in group)
    return row


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def measure(system: str, target: Target, rate_hz: int, seconds: float) -> Row:
    """Return what happens to a system that runs, at a rate."""
    question = {
        "target": {**target.load, "pids": target.pids},
        "rate_hz": rate_hz,
        "seconds": seconds,
        "warm_up_s": WARM_UP_S,
    }
    found = ask_worker("load_worker", question)
    sent, took_s, stolen = found["sent"], found.pop("seconds"), found.pop("stolen_s")
    by_process = {label: cpu_s * 1e6 / sent for label, cpu_s in found.pop("cpu_s").items()}
    load_cpu_s = found.pop("load_cpu_s")
    return {
        "system": system,
        "rate": rate_hz,
        **found,
        "cpu_us_per_message": sum(by_process.values()),
        "cpu_us_by_process": by_process,
        "load_cpu_us_per_message": load_cpu_s * 1e6 / sent,
        "load_cpu_percent": 100 * load_cpu_s / took_s,
        "stolen_percent": None if stolen is None else 100 * stolen / took_s / (os.cpu_count() or 1),
    }


def left_out_because(system: str, error: NearcastError) -> str:
    """Return the line about a system that is not measured."""
    what = "cannot be installed" if isinstance(error, PeerMissingError) else "failed"
    return f"{system} is left out, it {what}: {error}"
