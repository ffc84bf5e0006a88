from __future__ import annotations

import signal

import numpy as np
import pytest

from nearcast.planning.milp.highs import (
    LinearModel,
    Relaxation,
    SolverStatus,
    solve_mixed,
)


def knapsack(values: list[float], sizes: list[float], room: float) -> LinearModel:
    count = len(values)
    return LinearModel(
        cost=-np.array(values),
        lower=np.zeros(count),
        upper=np.ones(count),
        integer=np.ones(count, dtype=np.bool_),
        row_lower=np.array([-np.inf]),
        row_upper=np.array([room]),
        row_start=np.array([0, count], dtype=np.int32),
        column=np.arange(count, dtype=np.int32),
        value=np.array(sizes),
    )


def test_a_relaxation_and_its_integer_optimum_are_known() -> None:
    model = knapsack([6, 5, 4], [3, 2, 2], 4)
    relaxed, solved = Relaxation(model).solve(), solve_mixed(model)
    assert relaxed.bound == pytest.approx(-9.0)
    assert relaxed.reduced_cost is not None
    assert solved.status is SolverStatus.OPTIMAL
    assert solved.bound == pytest.approx(-9.0)
    assert solved.values == pytest.approx([0, 1, 1])


def test_a_relaxation_is_solved_again_with_other_bounds() -> None:
    relaxation = Relaxation(knapsack([6, 5, 4], [3, 2, 2], 4))
    first = relaxation.solve()
    lower, upper = np.array([1.0, 0.0, 0.0]), np.ones(3)
    with_first = relaxation.solve((lower, upper), first.basis)
    assert with_first.bound == pytest.approx(-6 - 5 / 2)
    assert with_first.values == pytest.approx([1, 0.5, 0])
    beyond = relaxation.solve((np.ones(3), upper), with_first.basis)
    assert beyond.status is SolverStatus.INFEASIBLE
    again = relaxation.solve((np.zeros(3), upper), with_first.basis)
    assert again.bound == pytest.approx(first.bound)
    none_below = relaxation.solve((lower, upper), first.basis, cutoff=-8.9)
    assert none_below.bound >= -8.9


def test_nothing_below_the_cutoff_is_infeasible() -> None:
    solved = solve_mixed(knapsack([6, 5, 4], [3, 2, 2], 4), cutoff=-9.5)
    assert solved.status is SolverStatus.INFEASIBLE
    assert solved.values is None
    assert solved.bound == -9.5


def test_no_time_gives_no_proof(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.uniform(1, 2, 60)
    model = knapsack((sizes + rng.uniform(0, 0.01, 60)).tolist(), sizes.tolist(), 31.0)
    solved = solve_mixed(model, time_limit_s=0.0)
    assert solved.status is SolverStatus.TIME_LIMIT
    assert solved.bound <= -30.0
    assert capfd.readouterr().out == ""


def test_what_a_signal_raises_during_the_solve_ends_it() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.uniform(1, 2, 80)
    model = knapsack((sizes + rng.uniform(0, 0.001, 80)).tolist(), sizes.tolist(), 41.0)

    def press(_: float) -> None:
        signal.raise_signal(signal.SIGINT)

    def fail(_: int, __: object) -> None:
        raise ConnectionError("as a handler of Spark whose session is gone")

    before = signal.getsignal(signal.SIGINT)  # another test's session may have left its own
    for handler, expected in (
        (signal.default_int_handler, KeyboardInterrupt),
        (fail, ConnectionError),
    ):
        signal.signal(signal.SIGINT, handler)
        try:
            with pytest.raises(expected):
                solve_mixed(model, time_limit_s=20.0, on_bound=press)
        finally:
            signal.signal(signal.SIGINT, before)
