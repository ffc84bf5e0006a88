"""One annealing in progress: its place in the schedule, its counts and its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import IndexArray
from nearcast.planning.ratio.workspace import Workspace
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

if TYPE_CHECKING:
    from nearcast.planning.ratio.search_params import SearchParams

__all__ = ["Annealing"]

_CHUNKS = 100
"""A search looks at the clock and reports this often."""
_DESCENT_SWEEPS = 50
_CANDIDATES = 12
"""Servers that a descent looks at for a client, about; an annealing sweep looks at one."""
_LONG_SWEEPS = 2000
_SHAKE = 20.0
"""How much hotter than `SearchParams.hot` a long search begins."""
_SHAKE_SHARE = 0.1


class Annealing:
    """An annealing over the homes of a workspace, or a stretch of one, and the descent after it.

    Parameters
    ----------
    sweeps : how often to look at every client in this stretch; None: as the time limit allows.
    rng, unit : state of the random numbers; the unit of temperatures in ms.
    window : where the stretch begins and ends in the whole schedule, 0 to 1.
    clients : who may move; None: all.
    """

    def __init__(
        self,
        workspace: Workspace,
        params: SearchParams,
        watch: Stopwatch,
        sweeps: int | None,
        rng: npt.NDArray[np.uint64],
        unit: float,
        on_progress: Callable[[Progress], None] | None = None,
        window: tuple[float, float] = (0.0, 1.0),
        clients: IndexArray | None = None,
    ) -> None:
        self._workspace = workspace
        self._state = workspace.state
        self._params = params
        self._watch = watch
        self._on_progress = on_progress
        self._rng = rng
        self._unit = unit
        self._begin, self._width = window[0], window[1] - window[0]
        in_topics = np.diff(self._state.client_start) > 0
        chosen = np.arange(len(in_topics), dtype=np.int32) if clients is None else clients
        self._clients = chosen[in_topics[chosen]]
        self._each_sweep = max(len(chosen), 1)
        self._chunks = max(round(_CHUNKS * self._width), 1)
        self._sweeps = 0
        self._sweep_s = 0.0
        self._best_cost = workspace.rebuild()
        self._best_homes = self._state.homes.copy()
        self._sweep_limit = sweeps
        self._is_long = sweeps is not None and self._makes_long(sweeps)
        self.moves = 0
        self.trace: list[tuple[float, int, float]] = []

    @property
    def iterations(self) -> int:
        """Moves looked at so far."""
        return self._sweeps * self._each_sweep

    def _makes_long(self, sweeps: int) -> bool:
        """Return whether with these sweeps in this stretch the whole search is a long one."""
        return sweeps >= _LONG_SWEEPS * self._width

    def anneal(self) -> None:
        """Let the temperature fall until the sweeps or the time are used up."""
        from nearcast.planning.ratio.anneal_kernels import anneal

        params, state = self._params, self._state
        chances = params.group_chance, params.swap_chance
        # Waits for the compiler, so that the first chunk is as fast as the others.
        anneal(state, self._rng, self._clients, 0, 1.0, 1.0, *chances)
        begin_s, chunk = self._watch.seconds(), 1
        while (fraction := self._fraction(begin_s)) < 1:
            if self._sweep_limit is not None:
                chunk = min(-(-self._sweep_limit // self._chunks), self._sweep_limit - self._sweeps)
            if params.time_limit_s is not None:
                share_s = (params.time_limit_s - begin_s) / self._chunks
                affordable = max(int(share_s / self._sweep_s), 1) if self._sweep_s > 0 else 1
                if self._sweep_limit is None:
                    chunk, self._is_long = affordable, self._makes_long(affordable * self._chunks)
                else:
                    chunk = min(chunk, affordable)
            ahead = min(self._fraction(begin_s, chunk), 1.0)
            from_to = self._temperature(fraction), self._temperature(ahead)
            _, moves = anneal(state, self._rng, self._clients, chunk, *from_to, *chances)
            self._sweeps += chunk
            self._sweep_s = (self._watch.seconds() - begin_s) / self._sweeps
            self.moves += moves
            self._report(ahead)

    def _temperature(self, fraction: float) -> float:
        """Return the temperature at a point of the schedule.

        A long search first shakes the start off at temperatures at which even a server's
        overload is no obstacle; a short one has no time for that.
        """
        fraction = self._begin + self._width * fraction
        hot, cold = self._params.hot * self._unit, self._params.cold * self._unit
        if fraction < _SHAKE_SHARE and self._is_long:
            return float(hot * _SHAKE ** (1 - fraction / _SHAKE_SHARE))
        cooled = max((fraction - _SHAKE_SHARE) / (1 - _SHAKE_SHARE), 0.0)
        return float(hot * (cold / hot) ** cooled)

    def _fraction(self, begin_s: float, ahead: int = 0) -> float:
        """Return how much of the annealing is done, now or `ahead` sweeps later."""
        done = 0.0
        if self._sweep_limit is not None:
            done = (self._sweeps + ahead) / self._sweep_limit
        limit_s = self._params.time_limit_s
        if limit_s is not None:
            descent_s = min(3 * _CANDIDATES * self._sweep_s, 0.1 * limit_s)
            used_s = self._watch.seconds() - begin_s + (ahead + 1) * self._sweep_s
            done = max(done, used_s / max(limit_s - begin_s - descent_s, 1e-9))
        return done

    def descend(self) -> None:
        """Take improving moves until there is none or the time is up."""
        from nearcast.planning.ratio.anneal_kernels import descend

        sweep_s = _CANDIDATES * self._sweep_s
        grace_s = 0.05 * (self._params.time_limit_s or 0.0)
        for _ in range(_DESCENT_SWEEPS):
            before_s = self._watch.seconds()
            if self._watch.left_s() + grace_s < sweep_s or descend(self._state) == 0.0:
                break
            sweep_s = self._watch.seconds() - before_s
        self._report(1.0)

    def return_to_best(self) -> None:
        """Go back to the best plan met, if this is not it, and descend from there."""
        if self._workspace.rebuild() > self._best_cost:
            self._state.homes[:] = self._best_homes
            self._workspace.rebuild()
            self.descend()

    def _report(self, fraction: float) -> None:
        cost = self._workspace.rebuild()
        if cost < self._best_cost:
            self._best_cost = cost
            self._best_homes[:] = self._state.homes
        mean_ms = self._workspace.mean_ms(self._best_cost)
        self.trace.append((self._watch.seconds(), self.iterations, mean_ms))
        if self._on_progress is not None:
            self._on_progress(Progress(stage="search", fraction=fraction, cost=mean_ms))
