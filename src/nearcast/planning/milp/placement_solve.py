"""Exact placement plans: divide by brokers, shrink by reduced costs, hand what is left to HiGHS.

The solver alone spends its time on cuts that gain little. The search's plan is mostly optimal
already, so a few divisions, each shrunk by what its relaxation proves, end sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nearcast.delay.placement import PlacementProblem
from nearcast.domain.plan import Objective, PlanStatus
from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray, OffsetArray
from nearcast.planning.milp.highs import Solution, SolverStatus, solve_mixed, solve_relaxation
from nearcast.planning.milp.placement_model import (
    Choices,
    PlacementModel,
    arc_count,
    build_model,
)
from nearcast.planning.milp.result import ExactResult
from nearcast.planning.placement.bound import bound_placement
from nearcast.planning.placement.search import PlacementSearch, search_placement
from nearcast.planning.placement.tables import PlacementTables, empty_state, placement_tables
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = ["solve_placement"]

_SEARCH_ITERATIONS = 1_000_000
_SEARCH_SHARE = 0.25
"""Part of the time limit that the search for a first plan may take."""
_MOST_ARCS = 1_500_000
"""Above this the relaxation itself is out of reach: only the quick bound is given."""
_SOLVER_ARCS = 3_000
"""Below this the rest is left to HiGHS."""
_SHRINK_AGAIN = 0.8
"""Solve the relaxation again when less than this part of the arcs is left."""
_TOLERANCE = 1e-7
_FRACTION = 1e-6


def solve_placement(
    problem: PlacementProblem,
    objective: Objective,
    time_limit_s: float | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> ExactResult:
    """Return the optimal plan, or within the time limit the best one with its bound."""
    watch = Stopwatch(time_limit_s)
    limit_s = None if time_limit_s is None else _SEARCH_SHARE * time_limit_s
    timed = limit_s is not None and limit_s < 1.0
    search = PlacementSearch(
        seed,
        iterations=None if timed else _SEARCH_ITERATIONS,
        time_limit_s=limit_s,
    )
    found = search_placement(problem, objective, search, on_progress=on_progress)
    tables = placement_tables(problem, objective)
    proof = _Proof(tables, found.homes, found.brokers, found.cost, watch, seed, on_progress)
    proof.least = bound_placement(problem, objective)
    bound = proof.run(_all_choices(tables))
    optimal = bound >= proof.cost - proof.slack()
    return ExactResult(
        homes=proof.homes,
        cost=proof.cost,
        bound=proof.cost if optimal else bound,
        status=PlanStatus.OPTIMAL if optimal else PlanStatus.TIME_LIMIT,
        seconds=watch.seconds(),
        nodes=proof.nodes,
        publish=proof.senders(len(problem.member_topic)),
        brokers=proof.brokers,
    )


def _all_choices(tables: PlacementTables) -> Choices:
    """Return every choice that an optimal plan may make."""
    publishers, servers = len(tables.row), tables.leg_ms.shape[1]
    topics, clients = len(tables.spool), len(tables.leg_ms)
    broker = tables.spool[:, None] <= tables.storage * (1 + 1e-9) + 1e-9
    if np.any(tables.between_ms > tables.cloud_ms):
        cloud = np.ones((publishers, servers), dtype=np.bool_)
    else:
        # A broker is never worse than the cloud: the nearest server is the way to the cloud.
        cloud = np.zeros((publishers, servers), dtype=np.bool_)
        cloud[np.arange(publishers), tables.by_leg[tables.client, 0]] = True
    home = np.ones((clients, servers), dtype=np.bool_)
    deaf = np.diff(tables.heard_start) == 0
    home[deaf] = False
    home[deaf, tables.by_leg[deaf, 0]] = True
    return Choices(
        broker=broker,
        home=home,
        send=broker[tables.topic],
        cloud=cloud,
        must=np.zeros((topics, servers), dtype=np.bool_),
    )


@dataclass(slots=True)
class _Proof:
    """The best plan so far and the parts of the search space still open."""

    tables: PlacementTables
    homes: IndexArray
    brokers: BoolArray
    cost: float
    watch: Stopwatch
    seed: int
    on_progress: Callable[[Progress], None] | None
    least: float = 0.0
    nodes: int = 0

    def slack(self) -> float:
        """Return the difference that counts as none."""
        return _TOLERANCE * (1.0 + self.cost)

    def run(self, choices: Choices) -> float:
        """Look at all choices; return the proven bound."""
        open_parts = [(self.least, choices)]
        if arc_count(self.tables, choices) > _MOST_ARCS:
            return self.least
        while open_parts:
            bound = min(part[0] for part in open_parts)
            if bound >= self.cost - self.slack():
                break
            if self.watch.expired():
                return bound
            self._tell(bound)
            floor, part = open_parts.pop()
            open_parts += self._divide(floor, part)
        return self.cost

    def _divide(self, floor: float, choices: Choices) -> list[tuple[float, Choices]]:
        """Return the smaller parts, with their bounds, that a part leaves; none when done."""
        self.nodes += 1
        while True:
            model = build_model(self.tables, choices)
            relaxed = solve_relaxation(model.linear, self.watch.left_s())
            if relaxed.status is SolverStatus.TIME_LIMIT:
                return [(floor, choices)]
            floor = max(floor, relaxed.bound)
            if floor >= self.cost - self.slack():
                return []
            before = arc_count(self.tables, choices)
            choices = self._shrink(choices, model, relaxed)
            if arc_count(self.tables, choices) > _SHRINK_AGAIN * before:
                break
        values = _at(model.broker, relaxed.values)
        fraction = np.minimum(values, 1.0 - values)
        if fraction.max(initial=0.0) < _FRACTION or before < _SOLVER_ARCS:
            return self._finish(floor, choices)
        topic, server = np.unravel_index(int(np.argmax(fraction)), fraction.shape)
        without, must = choices.broker.copy(), choices.must.copy()
        without[topic, server], must[topic, server] = False, True
        parts = [
            (floor, replace(choices, must=must)),
            (
                floor,
                replace(choices, broker=without, send=choices.send & without[self.tables.topic]),
            ),
        ]
        # The likelier part last, so that it is looked at first.
        return parts[::-1] if values[topic, server] > 0.5 else parts

    def _finish(self, floor: float, choices: Choices) -> list[tuple[float, Choices]]:
        """Let HiGHS solve a part; return it with a better bound if time ran out."""
        model = build_model(self.tables, choices)
        cutoff = self.cost - 0.5 * self.slack()
        solved = solve_mixed(model.linear, self.watch.left_s(), self.seed, cutoff=cutoff)
        if solved.values is not None:
            homes = np.argmax(_at(model.home, solved.values), axis=1).astype(np.int32)
            self._take(homes, _at(model.broker, solved.values) > 0.5)
        if solved.status is SolverStatus.TIME_LIMIT:
            return [(max(floor, solved.bound), choices)]
        return []

    def _shrink(self, choices: Choices, model: PlacementModel, relaxed: Solution) -> Choices:
        """Return the choices whose price, added to the relaxation, stays below the best cost."""
        assert relaxed.reduced_cost is not None
        prices, tables = relaxed.reduced_cost, self.tables
        room = self.cost - relaxed.bound + self.slack()
        broker, home = _at(model.broker, prices, np.inf), _at(model.home, prices, np.inf)
        send, cloud = _at(model.send, prices, np.inf), _at(model.cloud, prices, np.inf)
        for k, arcs in enumerate(model.arcs):
            if arcs.size == 0 or arcs[0, 0] < 0:
                continue
            # A choice forces one arc of each of its pairs: the cheapest is paid on top.
            price = np.maximum(prices[arcs], 0.0)
            p, c = tables.publisher[k], tables.subscriber[k]
            home[c, choices.home[c]] += price.min(axis=0)
            leaving = price.min(axis=1)
            sends = int(choices.send[p].sum())
            send[p, choices.send[p]] += leaving[:sends]
            cloud[p, choices.cloud[p]] += leaving[sends:]
        may_be = (broker <= room) | choices.must
        return Choices(
            broker=may_be,
            home=home <= room,
            send=(send <= room) & may_be[tables.topic],
            cloud=cloud <= room,
            must=choices.must | (broker < -room),
        )

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

    def _tell(self, bound: float) -> None:
        if self.on_progress is not None:
            limit = self.watch.limit_s
            fraction = 0.0 if limit is None else min(self.watch.seconds() / limit, 1.0)
            self.on_progress(Progress("solve", fraction, self.cost, bound))


def _at(index: OffsetArray, values: FloatArray | None, absent: float = 0.0) -> FloatArray:
    """Return the values of columns in the shape of their index; `absent` where there is none."""
    assert values is not None
    out = np.full(index.shape, absent)
    out[index >= 0] = values[index[index >= 0]]
    return out
