"""When sessions want to be run: a heap, so that ten thousand idle ones cost nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush

from nearcast.experiments.latency.lean_sessions import LeanSession

__all__ = ["Wakeups"]


class Wakeups:
    """The times at which sessions have something to do by themselves."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, LeanSession]] = []
        self._number = 0

    def run_due(self, touched: Iterable[LeanSession], now: float) -> None:
        """Run the sessions that are due; those to which something happened may be due earlier."""
        for session in touched:
            self._note(session)
        heap = self._heap
        while heap and heap[0][0] <= now:
            due, _, session = heappop(heap)
            if due != session.wakeup_s:
                continue  # there is an earlier entry, or was
            session.wakeup_s = math.inf
            if session.next_wakeup() <= now:
                session.run(now)
            self._note(session)

    def _note(self, session: LeanSession) -> None:
        due = session.next_wakeup()
        if due < session.wakeup_s:
            session.wakeup_s = due
            self._number += 1
            heappush(self._heap, (due, self._number, session))
