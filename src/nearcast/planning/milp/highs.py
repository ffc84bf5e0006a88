"""The only home of HiGHS: a linear or mixed-integer model in, values and bounds out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import highspy
import numpy as np

from nearcast.domain.scenario import BoolArray, FloatArray, IndexArray
from nearcast.errors import SolverError

__all__ = ["LinearModel", "Relaxation", "Solution", "SolverStatus", "solve_mixed"]


class SolverStatus(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    TIME_LIMIT = "time_limit"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """Minimise cost @ v with lower <= v <= upper and row_lower <= A v <= row_upper."""

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    integer: BoolArray
    row_lower: FloatArray
    row_upper: FloatArray
    row_start: IndexArray
    """A by rows: row r has the entries row_start[r]:row_start[r + 1]."""
    column: IndexArray
    value: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What the solver knows at its end."""

    status: SolverStatus
    values: FloatArray | None
    """None when no feasible point was found."""
    bound: float
    """Proven lower bound of the objective; minus infinity when nothing is proved."""
    reduced_cost: FloatArray | None = None
    """Of a relaxation only."""
    basis: object = None
    """Of a relaxation only: where to begin again."""


class Relaxation:
    """A model without its integrality, solved again and again with other column bounds."""

    def __init__(self, model: LinearModel) -> None:
        self._solver = _load(model, float("inf"), relaxed=True)

    def solve(
        self,
        bounds: tuple[FloatArray, FloatArray] | None = None,
        basis: object = None,
        cutoff: float = float("inf"),
        time_limit_s: float = float("inf"),
        most_iterations: int = 2**31 - 1,
    ) -> Solution:
        """Return the optimum; INFEASIBLE when nothing is below the cutoff.

        Parameters
        ----------
        bounds
            (lower, upper) of the first columns; None: as they are.
        basis
            Of a solution before: the closer its bounds are, the fewer iterations it takes.
        most_iterations
            At this many the status is TIME_LIMIT and the bound only an estimate.
        """
        solver = self._solver
        # The solver's clock runs on from solve to solve.
        limit_s = solver.getRunTime() + max(float(time_limit_s), 0.0)
        solver.setOptionValue("time_limit", limit_s)
        solver.setOptionValue("simplex_iteration_limit", most_iterations)
        solver.setOptionValue("objective_bound", float(cutoff))
        if bounds is not None:
            columns = np.arange(len(bounds[0]), dtype=np.int32)
            solver.changeColsBounds(len(columns), columns, *bounds)
        if basis is not None:
            solver.setBasis(basis)
        solver.run()
        status, value = _status(solver), float(solver.getInfo().objective_function_value)
        if status is SolverStatus.INFEASIBLE:
            return Solution(status, None, float("inf"))
        if status is SolverStatus.TIME_LIMIT:
            return Solution(status, None, value)
        found = solver.getSolution()
        values, prices = np.array(found.col_value), np.array(found.col_dual)
        return Solution(status, values, value, prices, solver.getBasis())


def solve_mixed(
    model: LinearModel,
    time_limit_s: float = float("inf"),
    seed: int = 0,
    cutoff: float = float("inf"),
    on_bound: Callable[[float], None] | None = None,
) -> Solution:
    """Return the optimum of a mixed-integer model, or the best point within the time limit.

    Parameters
    ----------
    cutoff
        Only points cheaper than this are looked for.
    on_bound
        Called with the proven bound every now and then.

    Raises
    ------
    SolverError
        When HiGHS stops for a reason other than a limit.
    KeyboardInterrupt
        On Ctrl-C, after HiGHS has come to rest.
    """
    solver = _load(model, time_limit_s, relaxed=False)
    solver.setOptionValue("random_seed", seed % 2**31)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1e-7)
    solver.setOptionValue("mip_allow_restart", False)
    if np.isfinite(cutoff):
        solver.setOptionValue("objective_bound", float(cutoff))
    raised = _watch(solver, on_bound)
    solver.run()
    if raised:
        raise raised[0]
    status, info = _status(solver), solver.getInfo()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if status is SolverStatus.INFEASIBLE:
        return Solution(status, None, cutoff)
    point = np.array(solver.getSolution().col_value) if feasible else None
    return Solution(status, point, float(info.mip_dual_bound))


def _load(model: LinearModel, time_limit_s: float, *, relaxed: bool) -> Any:
    """Return a silent single-threaded solver with the model in it."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("log_to_console", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", max(float(time_limit_s), 0.0))
    problem = highspy.HighsLp()
    problem.num_col_, problem.num_row_ = len(model.cost), len(model.row_lower)
    problem.col_cost_ = model.cost
    problem.col_lower_, problem.col_upper_ = model.lower, model.upper
    problem.row_lower_, problem.row_upper_ = model.row_lower, model.row_upper
    problem.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    problem.a_matrix_.start_ = model.row_start
    problem.a_matrix_.index_ = model.column
    problem.a_matrix_.value_ = model.value
    if not relaxed:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        problem.integrality_ = [kinds[flag] for flag in model.integer.tolist()]
    if solver.passModel(problem) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refused the model")
    return solver


def _watch(solver: Any, on_bound: Callable[[float], None] | None) -> list[BaseException]:
    """Have HiGHS call back, so that Ctrl-C stops it; return a list that then holds the reason.

    Python's handlers of signals run inside the callback, and what they or `on_bound` raise must
    not travel through C++: it would be lost there, or end the program.
    """
    raised: list[BaseException] = []

    def look(event: Any) -> None:
        try:
            if on_bound is not None and not raised:
                on_bound(float(event.data_out.mip_dual_bound))
        except BaseException as error:
            raised.append(error)
        if raised:
            event.interrupt()

    solver.cbMipInterrupt.subscribe(look)
    return raised


def _status(solver: Any) -> SolverStatus:
    status = solver.getModelStatus()
    known = {
        highspy.HighsModelStatus.kOptimal: SolverStatus.OPTIMAL,
        highspy.HighsModelStatus.kTimeLimit: SolverStatus.TIME_LIMIT,
        highspy.HighsModelStatus.kIterationLimit: SolverStatus.TIME_LIMIT,
        highspy.HighsModelStatus.kInfeasible: SolverStatus.INFEASIBLE,
        highspy.HighsModelStatus.kObjectiveBound: SolverStatus.INFEASIBLE,
    }
    if status not in known:
        raise SolverError(f"HiGHS stopped: {solver.modelStatusToString(status)}")
    return known[status]
