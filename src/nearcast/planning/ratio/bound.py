"""A proven lower bound of Y for the delegation-ratio model (M2), by Lagrange prices.

Why it holds for every plan. With homes fixed, toss one coin per server: with chance theta_l all
that is at home on l is processed there ("local"), else in the cloud. The expected cost of the
tossed labelling (legs; d^S from a local publisher to the subscriber's home; 2 d^C per delivery of
a cloud publisher) is exactly I * Y, eqs. (6)-(9), and the expected local load of l is
theta_l * storage_used_l <= A_l and theta_l * v_l <= B_l, eq. (2). So for prices >= 0 the expected
value of "cost + price * (local load - limit)" is at most I * Y, and some labelling is not above
it. The bound is a lower bound of that priced cost over all labellings, in which every client now
chooses freely. It stays valid

- for any split of a spool's price over the topic's publishers (the topic is present where one is),
- for any messages by which a pair hands its cost to its two clients: the sum of all minima never
  exceeds the minimum of the sum,
- when pairs are dropped (costs are not negative), and when far homes are lumped into one label
  whose leg, price and distances are lower bounds.

The last value is computed from scratch in double precision, whatever the sweeps did before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nearcast.delay.ratio import RatioProblem
from nearcast.domain.scenario import FloatArray
from nearcast.planning.ratio.bound_relaxation import Relaxation, relax
from nearcast.planning.request import Progress
from nearcast.planning.stopping import Stopwatch

__all__ = ["BoundParams", "RatioBound", "bound_ratio"]

_MOST_WARM_SWEEPS, _MOST_LAST_SWEEPS = 6, 6
_SCAN_FACTOR = 1.15
_SCARCE = 0.9
"""Share of a total limit that must be needed before prices towards the cloud are tried."""
_PATIENCE = 6
"""Sweeps without a better value before the price steps are halved."""
_FALL = 0.01
"""A fall below the best value after which they are halved at once."""
_LEAST_SHARE = 0.01
"""Of an equal share of all use: a limit below is taken as this, since 0 cannot be priced."""
_ROUNDING = 1e-10
"""Relative allowance for the rounding of the last sum."""


@dataclass(frozen=True, slots=True)
class BoundParams:
    """How much work to put into the bound; the same sweeps give the same value."""

    sweeps: int = 100
    """Rounds over all pairs: the first and the last few at fixed prices, a step between others."""
    time_limit_s: float | None = None
    """Stop early, so as to end after about these seconds."""
    near_servers: int = 16
    """Servers that a client chooses from; those beyond share one label."""
    memory_bytes: int = 700_000_000
    """For messages and shares of spools; with less the bound looks at fewer servers and pairs."""
    first_step: float = 0.3
    step_decay: float = 0.98


@dataclass(frozen=True, slots=True, eq=False)
class RatioBound:
    """A proven lower bound and the prices that prove it."""

    value_ms: float
    """Y of every plan is at least this."""
    seconds: float
    sweeps: int
    storage_price: FloatArray
    """lambda [server], ms of summed delay per unit of storage."""
    compute_price: FloatArray
    """nu [server], ms of summed delay per unit of compute."""


def bound_ratio(
    problem: RatioProblem,
    params: BoundParams | None = None,
    upper_cost: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> RatioBound:
    """Return a lower bound of Y over all assignments of homes.

    Parameters
    ----------
    problem
        The arrays of M2.
    params
        How much work to do.
    upper_cost
        Y of the best plan known: sizes the steps of the prices. The bound holds without it.
    on_progress
        Called after every sweep.
    """
    params = params or BoundParams()
    watch = Stopwatch(params.time_limit_s)
    if problem.deliveries == 0:
        nothing = np.zeros(problem.network.server_count)
        return RatioBound(0.0, watch.seconds(), 0, nothing, nothing)
    relaxation = relax(_with_finite_limits(problem), params.near_servers, params.memory_bytes)
    for _ in range(min(_MOST_WARM_SWEEPS, params.sweeps // 2)):
        relaxation.sweep()
        if watch.seconds() > 0.5 * (params.time_limit_s or math.inf):
            break
    _scan_uniform_prices(relaxation, watch)
    _climb(relaxation, params, upper_cost, watch, on_progress)
    value = relaxation.proven_value()
    return RatioBound(
        value_ms=max(value / problem.deliveries * (1 - _ROUNDING), 0.0),
        seconds=watch.seconds(),
        sweeps=relaxation.sweeps,
        storage_price=relaxation.storage_price,
        compute_price=relaxation.compute_price,
    )


def _with_finite_limits(problem: RatioProblem) -> RatioProblem:
    """Return the problem with limits that can be priced; no plan gets dearer by it.

    No server can use more than all together, and more than nothing does not hurt.
    """
    publishers = np.bincount(problem.member_topic, problem.publishes, problem.topic_count)
    servers = problem.network.server_count

    def within(limit: FloatArray, total: float) -> FloatArray:
        return np.clip(limit, _LEAST_SHARE * total / servers, total)

    return replace(
        problem,
        storage=within(problem.storage, float(problem.spool.sum()) or 1.0),
        compute=within(problem.compute, float(problem.spool @ publishers) or 1.0),
    )


def _scan_uniform_prices(relaxation: Relaxation, watch: Stopwatch) -> None:
    """Raise one price for all servers while it pays: small steps cannot cross the way to the cloud.

    Where the total limit is exceeded someone must be delegated, and the price that makes the
    cloud worth while is far above the prices that only move clients between servers.
    """
    zero = np.zeros_like(relaxation.storage_price)
    for kind, scarcity in enumerate(relaxation.scarcity()):
        if scarcity < _SCARCE:
            continue
        best, best_prices = relaxation.value(), relaxation.prices()
        price = 0.4 * relaxation.cloud_price(kind)
        while price > 0 and watch.left_s() > 0:
            trial = list(relaxation.prices())
            trial[kind] = zero + price
            relaxation.set_prices(trial[0], trial[1])
            relaxation.sweep()
            relaxation.sweep()
            if relaxation.value() <= best:
                break
            best, best_prices = relaxation.value(), relaxation.prices()
            price *= _SCAN_FACTOR
        relaxation.set_prices(*best_prices)


def _climb(
    relaxation: Relaxation,
    params: BoundParams,
    upper_cost: float | None,
    watch: Stopwatch,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    """Alternate sweeps with price steps: Polyak's length, damped, along an averaged direction."""
    problem = relaxation.problem
    limits = (problem.storage, problem.compute)
    target = np.inf if upper_cost is None else upper_cost * problem.deliveries
    best, best_prices, since_best = -np.inf, relaxation.prices(), 0
    step = params.first_step
    direction = [np.zeros_like(limit) for limit in limits]
    last = min(_MOST_LAST_SWEEPS, params.sweeps // 4)
    while True:
        value = relaxation.value()
        if value > best:
            best, best_prices, since_best = value, relaxation.prices(), 0
        else:
            since_best += 1
            if since_best >= _PATIENCE or value < best - _FALL * abs(best):
                # The steps are too long for this scenario: on from the best prices with shorter ones.
                step, since_best = 0.5 * step, 0
                direction = [np.zeros_like(limit) for limit in limits]
                relaxation.set_prices(*best_prices)
        if on_progress:
            done = min(relaxation.sweeps / max(params.sweeps, 1), 1.0)
            on_progress(Progress("bound", done, upper_cost, best / problem.deliveries))
        # The proof at the end takes about as long as a sweep.
        sweep_s = watch.seconds() / max(relaxation.sweeps, 1)
        if relaxation.sweeps >= params.sweeps - last or watch.left_s() < sweep_s * (last + 2):
            break
        step *= params.step_decay
        prices = relaxation.prices()
        excess = [
            np.where((used <= limit) & (price <= 0), 0.0, used / limit - 1)
            for used, limit, price in zip(relaxation.loads(), limits, prices, strict=True)
        ]
        squares = sum(float(x @ x) for x in excess)
        if squares <= 1e-12:
            relaxation.sweep()
            continue
        missing = min(max(target - value, 0.002 * best), 0.1 * abs(best))
        length = step * min(missing / squares, abs(best) / len(problem.storage))
        direction = [0.5 * old + 0.5 * new for old, new in zip(direction, excess, strict=True)]
        relaxation.set_prices(
            *(
                np.maximum(price + length * way / limit, 0.0)
                for price, way, limit in zip(prices, direction, limits, strict=True)
            )
        )
        relaxation.sweep()
    relaxation.set_prices(*best_prices)
    for _ in range(last):
        if watch.left_s() <= 0:
            break
        relaxation.sweep()
