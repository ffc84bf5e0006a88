"""All methods on one scenario, measured against one bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nearcast.domain.plan import Model
from nearcast.domain.plan_files import report_to_json
from nearcast.domain.scenario import Scenario
from nearcast.errors import PlanningError
from nearcast.planning.assessment import limits_of
from nearcast.planning.registry import find_method, method_names
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome, best_bound, gap_to, make_plan

__all__ = ["Comparison", "compare_methods", "comparison_json", "methods_for"]

_MOST_CLIENTS_FOR_EXACT = {Model.CONNECTIONS: 14, Model.RATIO: 14, Model.PLACEMENT: 60}
"""Above these sizes `exact` hardly ever ends and is left out unless it is asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The outcomes of several methods, best first, all against the same bound."""

    scenario_name: str
    model: Model
    outcomes: list[PlanOutcome]
    bound: float
    limits: dict[str, float | None]
    failures: list[str]
    """What a method that failed said; the others are not affected."""


def methods_for(model: Model, asked: Sequence[str] | None = None) -> list[str]:
    """Return the methods to compare: those asked for, or all that plan for the model."""
    if asked is not None:
        return [find_method(name.strip(), model).name for name in asked]
    fitting = []
    for name in method_names():
        try:
            fitting.append(find_method(name, model).name)
        except PlanningError:
            continue
    return fitting


def compare_methods(
    scenario: Scenario,
    request: PlanRequest,
    methods: Sequence[str],
    begin: Callable[[str], None] = lambda _name: None,
    *,
    always_exact: bool = False,
) -> Comparison:
    """Plan by each method; one that fails is reported and left out.

    Raises
    ------
    PlanningError
        When every method failed.
    """
    limits = limits_of(scenario, request.model, request.bound_limit_s)
    small = len(scenario.clients) <= _MOST_CLIENTS_FOR_EXACT[request.model]
    outcomes: list[PlanOutcome] = []
    failures: list[str] = []
    # The methods that prove a bound go first, so that the others need not find one.
    order = sorted(methods, key=lambda name: name not in ("optimised", "exact"))
    bound: float | None = None
    for name in order:
        if name == "exact" and not (small or always_exact or len(methods) == 1):
            failures.append("exact is left out: too many clients to prove an optimum in time")
            continue
        begin(name)
        try:
            asked = replace(request, method=name)
            outcome = make_plan(scenario, asked, known_bound=bound, known_limits=limits)
        except PlanningError as error:
            failures.append(f"{name}: {error}")
            continue
        except KeyboardInterrupt:
            failures.append(f"stopped at {name}; the methods before it are kept")
            break
        outcomes.append(outcome)
        bound = best_bound(bound, outcome.report.bound)
    if not outcomes or bound is None:
        raise PlanningError("no method found a plan: " + "; ".join(failures))
    final = bound
    against_one_bound = [
        replace(
            outcome,
            report=replace(outcome.report, bound=final, gap=gap_to(outcome.report.cost, final)),
        )
        for outcome in sorted(outcomes, key=lambda outcome: outcome.report.cost)
    ]
    return Comparison(
        scenario.settings.name, request.model, against_one_bound, final, limits, failures
    )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain JSON values."""
    return {
        "scenario": comparison.scenario_name,
        "model": comparison.model.value,
        "bound": comparison.bound,
        "limits": comparison.limits,
        "methods": [report_to_json(outcome.report) for outcome in comparison.outcomes],
        "failures": comparison.failures,
    }
