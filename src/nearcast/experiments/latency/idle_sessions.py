"""An edge server at rest: its memory, and what many sessions add that only report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.experiments.latency.process_usage import cpu_seconds, pss_mb
from nearcast.experiments.latency.target import ask_worker

__all__ = ["GOAL_CPU_PERCENT", "GOAL_IDLE_MB", "GOAL_MB_MORE", "SessionsPoint", "run"]

GOAL_IDLE_MB = 100.0
GOAL_CPU_PERCENT = 15.0
GOAL_MB_MORE = 200.0
"""The last two for 10,000 sessions."""


@dataclass(frozen=True, slots=True)
class SessionsPoint:
    """Memory is the proportional set size of the edge server and its helper processes."""

    sessions: int
    idle_mb: float
    """Before the first session."""
    idle_cpu_percent: float
    """Of one core, before the first session."""
    mb_more: float
    cpu_percent: float
    """Of one core, with all sessions."""
    connect_s: float
    """Until all sessions were open; the load process needs as much of it as the server."""
    disconnections: int
    seconds: float
    load_cpu_percent: float
    questions: int
    """That clients of other homes asked meanwhile, each every `second_opinion_s`."""
    questions_answered: int


def run(
    sessions: int,
    *,
    seconds: float = 30.0,
    begin: Callable[[str], None] = lambda name: None,
) -> SessionsPoint:
    """Measure an edge server without sessions for a third of the time, then with them."""
    begin("starting the server")
    with run_nearcast(publishers=1, subscribers=sessions, topics=1) as server:
        begin("no session")
        before, began_s = cpu_seconds(server.pids), time.monotonic()
        time.sleep(seconds / 3)
        idle_s = sum(cpu_seconds(server.pids).values()) - sum(before.values())
        idle_percent = 100 * idle_s / (time.monotonic() - began_s)
        idle_mb = sum(map(pss_mb, server.pids.values()))
        begin(f"{sessions:,} sessions")
        question = {
            "clients": [str(one) for one in server.subscribers],
            "seconds": seconds,
            "pids": server.pids,
        }
        found = ask_worker("sessions_worker", question)
    return SessionsPoint(
        sessions=sessions,
        idle_mb=idle_mb,
        idle_cpu_percent=idle_percent,
        mb_more=found.pop("mb") - idle_mb,
        seconds=seconds,
        **found,
    )
