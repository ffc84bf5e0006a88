"""The proof of a placement plan: divide by brokers, shrink by reduced costs, leave the rest.

The solver alone spends its time on cuts that gain little. A relaxation that stays loaded is
solved again in a tenth of the time after one bound has changed: trying out brokers before
dividing by one is cheap, and what is small enough goes to the solver.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray
from nearcast.planning.milp.highs import Relaxation, Solution, SolverStatus, solve_mixed
from nearcast.planning.milp.placement_model import (
    Choices,
    PlacementModel,
    arc_count,
    build_model,
)
from nearcast.planning.placement.tables import PlacementTables, empty_state
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = ["PlacementProof"]

_MOST_ARCS = 1_500_000
"""Above this the relaxation itself is out of reach: only the quick bound is given."""
_SOLVER_ARCS = 3_000
"""Below this the rest is left to HiGHS."""
_SHRINK_AGAIN = 0.8
"""Solve the relaxation again when less than this part of the arcs is left."""
_LOAD_AGAIN = 0.5
"""Load a smaller relaxation when less than this part of its arcs is open."""
_CANDIDATES = 8
"""Brokers that are tried out before a part is divided by one of them."""
_LOOK_AHEAD = 3
"""Trying ends after this many brokers in a row that are no better."""
_TRY_ITERATIONS = 80
"""Simplex iterations of a try: enough to compare brokers."""
_TOLERANCE = 1e-7
_FRACTION = 1e-6


class _Session:
    """A loaded relaxation over some choices, solved for parts of them."""

    def __init__(self, tables: PlacementTables, choices: Choices) -> None:
        self.choices = choices
        self.arcs = arc_count(tables, choices)
        self.model = build_model(tables, choices)
        self._relaxation = Relaxation(self.model.linear)

    def solve(
        self,
        choices: Choices,
        basis: object,
        cutoff: float,
        time_limit_s: float,
        most_iterations: int = 2**31 - 1,
    ) -> Solution:
        """Return the relaxation over some of the session's choices."""
        model = self.model
        count = 1 + max(int(index.max(initial=-1)) for index in model.choice_columns())
        lower, upper = np.zeros(count), np.zeros(count)
        parts = (choices.broker, choices.home, choices.send, choices.cloud)
        for index, mask, most in zip(
            model.choice_columns(), parts, (1.0, 1.0, np.inf, np.inf), strict=True
        ):
            upper[index[(index >= 0) & mask]] = most
        lower[model.broker[choices.must]] = 1.0
        return self._relaxation.solve((lower, upper), basis, cutoff, time_limit_s, most_iterations)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of the search space, and where its relaxation begins."""

    floor: float
    """No plan of the part costs less."""
    choices: Choices
    session: _Session | None = None
    basis: object = None


@dataclass(slots=True)
class PlacementProof:
    """The best plan so far and the parts of the search space still open."""

    tables: PlacementTables
    homes: IndexArray
    brokers: BoolArray
    cost: float
    watch: Stopwatch
    seed: int
    on_progress: Callable[[Progress], None] | None
    bound: float = 0.0
    """No plan costs less."""
    nodes: int = 0
    gain: FloatArray = field(init=False)
    """How much dividing by a broker raised the bound when tried last [topic, server]."""

    def __post_init__(self) -> None:
        self.gain = np.zeros(self.brokers.shape)

    def target(self) -> float:
        """Return the cost that a better plan stays below."""
        return self.cost - _TOLERANCE * (1.0 + self.cost)

    def run(self, choices: Choices) -> None:
        """Look at all choices, the least bound first, until the best plan is proved."""
        if arc_count(self.tables, choices) > _MOST_ARCS:
            return
        heap, made = [(self.bound, 0, _Part(self.bound, choices))], 0
        while heap and heap[0][0] < self.target():
            self.bound = heap[0][0]
            if self.watch.expired():
                return
            self._tell()
            self.nodes += 1
            for child in self._divide(heapq.heappop(heap)[2]):
                made += 1
                heapq.heappush(heap, (child.floor, made, child))
        self.bound = self.cost

    def _divide(self, part: _Part) -> list[_Part]:
        """Return the smaller parts that a part leaves; none when it is done."""
        floor, choices, session, basis = part.floor, part.choices, part.session, part.basis
        while True:
            arcs = arc_count(self.tables, choices)
            if session is None or arcs < _LOAD_AGAIN * session.arcs:
                session, basis = _Session(self.tables, choices), None
            relaxed = session.solve(choices, basis, self.target(), self.watch.left_s())
            if relaxed.status is SolverStatus.TIME_LIMIT:
                return [replace(part, floor=floor)]
            floor, basis = max(floor, relaxed.bound), relaxed.basis
            if floor >= self.target():
                return []
            self._round(session.model, relaxed)
            choices = self._shrink(choices, session, relaxed)
            left = arc_count(self.tables, choices)
            if left < _SHRINK_AGAIN * arcs:
                continue
            share = _at(session.model.broker, relaxed.values)
            unsure = np.minimum(share, 1.0 - share)
            if unsure.max(initial=0.0) < _FRACTION or left < _SOLVER_ARCS:
                return self._finish(floor, choices)
            children = self._branch(_Part(floor, choices, session, basis), unsure)
            if len(children) != 1:
                return children
            # One side holds nothing better: go on with the other.
            choices = children[0].choices

    def _branch(self, part: _Part, unsure: FloatArray) -> list[_Part]:
        """Return the parts with and without a broker, tried out to raise the bound most.

        A part that cannot hold a better plan is left out. First come the brokers that raised it
        most before; a few worse ones end the trying.
        """
        best, chosen, worse = -1.0, [part], 0
        promise = np.where(unsure < _FRACTION, 0.0, self.gain + 1e-3 * unsure)
        for place in np.argsort(-promise, axis=None, kind="stable")[:_CANDIDATES]:
            topic, server = (int(i) for i in np.unravel_index(int(place), unsure.shape))
            if unsure[topic, server] < _FRACTION or worse >= _LOOK_AHEAD or self.watch.expired():
                break
            tried = [self._try(side) for side in self._sides(part, topic, server)]
            left = [child for child, estimate in tried if estimate < self.target()]
            if len(left) < 2:
                return left
            rise = [max(estimate - part.floor, 0.0) for _, estimate in tried]
            score = 5.0 * min(rise) + max(rise)
            self.gain[topic, server] = score
            worse += 1
            if score > best:
                best, chosen, worse = score, left, 0
        return chosen

    def _try(self, child: _Part) -> tuple[_Part, float]:
        """Return a part after a few iterations, and an estimate of its bound."""
        assert child.session is not None
        target = self.target()
        tried = child.session.solve(
            child.choices, child.basis, target, self.watch.left_s(), _TRY_ITERATIONS
        )
        if tried.status is SolverStatus.TIME_LIMIT:
            return child, min(
                max(tried.bound, child.floor), child.floor + 0.9 * (target - child.floor)
            )
        return replace(child, floor=max(child.floor, tried.bound), basis=tried.basis), tried.bound

    def _sides(self, part: _Part, topic: int, server: int) -> list[_Part]:
        """Return the parts with and without a broker."""
        tables, choices = self.tables, part.choices
        must, beside, without = choices.must.copy(), choices.broker.copy(), choices.broker.copy()
        must[topic, server], without[topic, server] = True, False
        free = tables.storage[server] * (1 + 1e-9) + 1e-9 - tables.spool @ must[:, server]
        beside[:, server] &= must[:, server] | (tables.spool <= free)
        return [
            replace(part, choices=replace(choices, broker=brokers, send=sends, must=musts))
            for brokers, musts in ((beside, must), (without, choices.must))
            for sends in (choices.send & brokers[tables.topic],)
        ]

    def _finish(self, floor: float, choices: Choices) -> list[_Part]:
        """Let HiGHS solve a part; return it with a better bound if time ran out."""
        model = build_model(self.tables, choices)
        cutoff = 0.5 * (self.cost + self.target())
        solved = solve_mixed(model.linear, self.watch.left_s(), self.seed, cutoff=cutoff)
        if solved.values is not None:
            homes = np.argmax(_at(model.home, solved.values), axis=1).astype(np.int32)
            self._take(homes, _at(model.broker, solved.values) > 0.5)
        if solved.status is SolverStatus.TIME_LIMIT:
            return [_Part(max(floor, solved.bound), choices)]
        return []

    def _shrink(self, choices: Choices, session: _Session, relaxed: Solution) -> Choices:
        """Return the choices whose price, added to the relaxation, stays below the best cost."""
        assert relaxed.reduced_cost is not None
        prices, tables, model = relaxed.reduced_cost, self.tables, session.model
        room = 2 * self.cost - self.target() - relaxed.bound
        broker, home = _at(model.broker, prices, np.inf), _at(model.home, prices, np.inf)
        send, cloud = _at(model.send, prices, np.inf), _at(model.cloud, prices, np.inf)
        for k, arcs in enumerate(model.arcs):
            if arcs.size == 0 or arcs[0, 0] < 0:
                continue
            # A choice forces one arc of each of its pairs: the cheapest is paid on top.
            price = np.maximum(prices[arcs], 0.0)
            p, c = tables.publisher[k], tables.subscriber[k]
            home[c, session.choices.home[c]] += price.min(axis=0)
            leaving = price.min(axis=1)
            sends = int(session.choices.send[p].sum())
            send[p, session.choices.send[p]] += leaving[:sends]
            cloud[p, session.choices.cloud[p]] += leaving[sends:]
        may_be = choices.broker & ((broker <= room) | choices.must)
        return Choices(
            broker=may_be,
            home=choices.home & (home <= room),
            send=choices.send & (send <= room) & may_be[tables.topic],
            cloud=choices.cloud & (cloud <= room),
            must=choices.must | (choices.broker & (broker < -room)),
        )

    def _round(self, model: PlacementModel, relaxed: Solution) -> None:
        """Try the plan nearest to a relaxation."""
        brokers = _at(model.broker, relaxed.values) > 0.5
        if np.all(self.tables.spool @ brokers <= self.tables.storage * (1 + 1e-9)):
            homes = np.argmax(_at(model.home, relaxed.values), axis=1).astype(np.int32)
            self._take(homes, brokers)

    def _take(self, homes: IndexArray, brokers: BoolArray) -> None:
        """Keep a plan if it is the best."""
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

    def _tell(self) -> None:
        if self.on_progress is not None:
            limit = self.watch.limit_s
            fraction = 0.0 if limit is None else min(self.watch.seconds() / limit, 1.0)
            self.on_progress(Progress("solve", fraction, self.cost, self.bound))


def _at(index: OffsetArray, values: FloatArray | None, absent: float = 0.0) -> FloatArray:
    """Return the values of columns in the shape of their index; `absent` where there is none."""
    assert values is not None
    out = np.full(index.shape, absent)
    out[index >= 0] = values[index[index >= 0]]
    return out
