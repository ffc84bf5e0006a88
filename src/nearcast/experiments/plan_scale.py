"""How planning grows from a thousand to a million clients: seconds, memory, quality."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from nearcast.errors import PlanningError
from nearcast.pictures.scale_curve import ScaleSeries, draw_scale_curve

__all__ = ["METHODS", "SIZES", "ScalePoint", "draw", "run", "search_limit_s"]

METHODS = ("nearest", "reloc", "optimised")
SIZES = {1_000: (100, 4), 10_000: (1_000, 10), 100_000: (10_000, 18), 1_000_000: (100_000, 32)}
"""Clients: (topics, servers per side)."""


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """One method at one size, measured in a process of its own."""

    method: str
    clients: int
    topics: int
    servers: int
    members: int
    cost_ms: float
    bound_ms: float | None
    """Only `optimised` proves one."""
    seconds: float
    """Wall-clock seconds of planning, without the bound, after the code is compiled."""
    cpu_seconds: float
    """The same in CPU seconds."""
    bound_seconds: float
    peak_mb: float
    """Largest memory of the process, the scenario included."""


def run(
    sizes: Sequence[int],
    methods: Sequence[str] = METHODS,
    *,
    seed: int = 1,
    time_limit_s: float = 55.0,
    begin: Callable[[str], None] = lambda _name: None,
) -> Iterator[ScalePoint]:
    """Measure each method at each size, each in a fresh process on one core.

    Raises
    ------
    PlanningError
        When a process fails; the message has its last line.
    """
    for clients in sizes:
        for method in methods:
            begin(f"{method}, {clients:,} clients")
            yield _measure(clients, method, seed, search_limit_s(clients, time_limit_s))


def search_limit_s(clients: int, limit_s: float) -> float:
    """Return the seconds of search at a size, if `limit_s` are for a million clients."""
    return float(limit_s * (clients / 1_000_000) ** 0.4)


def _measure(clients: int, method: str, seed: int, time_limit_s: float) -> ScalePoint:
    one_core = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    task = json.dumps(
        {"clients": clients, "method": method, "seed": seed, "time_limit_s": time_limit_s}
    )
    done = subprocess.run(
        [sys.executable, "-m", "nearcast.experiments.plan_scale_worker", task],
        env={**os.environ, **one_core},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PlanningError(f"{method} at {clients:,} clients failed: {last}")
    return ScalePoint(**json.loads(done.stdout))


def draw(points: Sequence[ScalePoint]) -> Figure:
    """Return the curves of seconds and memory."""
    series = {}
    for method in dict.fromkeys(point.method for point in points):
        mine = [point for point in points if point.method == method]
        series[method] = ScaleSeries(
            clients=np.array([float(point.clients) for point in mine]),
            seconds=np.array([max(point.seconds, 1e-4) for point in mine]),
            peak_mb=np.array([point.peak_mb for point in mine]),
        )
    return draw_scale_curve(series, title="Planning from a thousand to a million clients")
