"""The best placement plan that a proof knows so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearcast.domain.scenario import BoolArray, IndexArray
from nearcast.planning.placement.tables import PlacementTables, empty_state
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = ["Incumbent"]

_TOLERANCE = 1e-7


@dataclass(slots=True)
class Incumbent:
    """Homes and brokers of the best plan; senders follow from them."""

    tables: PlacementTables
    homes: IndexArray
    brokers: BoolArray
    cost: float
    watch: Stopwatch
    on_progress: Callable[[Progress], None] | None = None
    nodes: int = 0
    """Parts of the search space looked at."""

    def target(self) -> float:
        """Return the cost that a better plan must stay below."""
        return self.cost - _TOLERANCE * (1.0 + self.cost)

    def offer(self, homes: IndexArray, brokers: BoolArray) -> None:
        """Keep a plan that respects storage if it is the best."""
        from nearcast.planning.placement.search_kernels import rebuild

        cost = float(rebuild(self.tables, empty_state(self.tables, homes, brokers)))
        if cost < self.cost:
            self.cost, self.homes, self.brokers = cost, homes, brokers

    def senders(self, member_rows: int) -> IndexArray:
        """Return where the publishers of the best plan send."""
        from nearcast.planning.placement.search_kernels import rebuild, senders

        state = empty_state(self.tables, self.homes, self.brokers)
        rebuild(self.tables, state)
        publish = np.full(member_rows, -1, dtype=np.int32)
        senders(self.tables, state, publish)
        return publish

    def tell(self, bound: float) -> None:
        """Report the progress of the proof."""
        if self.on_progress is not None:
            limit = self.watch.limit_s
            fraction = 0.0 if limit is None else min(self.watch.seconds() / limit, 1.0)
            self.on_progress(Progress("solve", fraction, self.cost, bound))
