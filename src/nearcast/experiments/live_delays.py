"""Model against reality: the same scenario and plan, computed and run on real servers.

Every publisher publishes, every notification is timed at its subscriber. Delays of the geometry
are emulated on every link, times a factor that keeps the machine's own timers out of legs of
less than a millisecond. The models know no processing, so the measured mean is compared with
factor x prediction plus the measured processing time. What is predicted is Y of the ratio model,
and of the placement model the mean over pairs of publisher and subscriber, eq. (11), whatever the
plan's objective: clients publish each topic straight to the server that the plan names.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nearcast.delay.placement import placement_problem
from nearcast.domain.plan import Model, Objective
from nearcast.domain.plan_files import write_plan
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import write_scenario
from nearcast.experiments.site_measure import (
    STAGES,
    LiveSettings,
    measure_site_clients,
    to_table,
)
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome, make_plan
from nearcast.site.layout import SiteSettings
from nearcast.site.live_site import run_site
from nearcast.site.swarm import Arrival, SwarmResult

__all__ = [
    "LiveCase",
    "LivePoint",
    "LiveRun",
    "delivery_means",
    "placement_cases",
    "ratio_cases",
    "run",
    "summary",
    "write_report",
]

TOLERANCE = 0.10
_PLACEMENT = "placement "
"""How plans of the placement model are called, followed by their objective."""
_PLACEMENT_ROUNDS = 10
"""Their scenario is small: one round would be few messages."""


@dataclass(frozen=True, slots=True)
class LiveCase:
    """A plan to be made and run."""

    name: str
    scenario: Scenario
    request: PlanRequest


@dataclass(frozen=True, slots=True)
class LivePoint:
    """One plan, predicted and measured. Measured delays are divided by the factor."""

    method: str
    """Or the objective, for plans of the placement model."""
    delay_factor: float
    clients: int
    published: int
    notifications: int
    missing: int
    """Notifications that should have come and did not."""
    predicted_y1_ms: float
    """The two client legs."""
    predicted_y2_ms: float
    """Between servers, or through the cloud."""
    predicted_ms: float
    """Y."""
    measured_legs_ms: float
    measured_between_ms: float
    measured_processing_ms: float
    """Not divided by the factor: no delay of it is emulated."""
    measured_ms: float
    """Without processing: mean over publications of the mean over their notifications, for the
    placement model over all notifications."""
    ratio: float
    """Measured (with processing) / (factor x Y + measured processing)."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A point with everything behind it."""

    point: LivePoint
    outcome: PlanOutcome
    arrivals: Sequence[Arrival]


def ratio_cases(
    scenario: Scenario,
    methods: Sequence[str],
    seed: int,
    regions: int = 4,
    time_limit_s: float = 5.0,
) -> list[LiveCase]:
    """Return the plans of several methods under the ratio model."""
    return [
        LiveCase(
            method,
            scenario,
            PlanRequest(
                Model.RATIO,
                method,
                regions=regions,
                seed=seed,
                time_limit_s=time_limit_s if method == "optimised" else None,
            ),
        )
        for method in methods
    ]


def placement_cases(
    scenario: Scenario, objectives: Sequence[Objective], seed: int, time_limit_s: float = 5.0
) -> list[LiveCase]:
    """Return the optimised plans for several objectives of the placement model."""
    return [
        LiveCase(
            f"{_PLACEMENT}{objective.value.upper()}",
            scenario,
            PlanRequest(
                Model.PLACEMENT,
                "optimised",
                objective=objective,
                seed=seed,
                time_limit_s=time_limit_s,
            ),
        )
        for objective in objectives
    ]


def run(
    cases: Sequence[LiveCase],
    settings: LiveSettings | None = None,
    *,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[LiveRun]:
    """Make each plan, run the site, measure."""
    settings = settings or LiveSettings()
    with tempfile.TemporaryDirectory(prefix="nearcast-live-") as text:
        for number, case in enumerate(cases):
            folder, scenario = Path(text) / str(number), case.scenario
            folder.mkdir()
            write_scenario(scenario, folder / "scenario")
            begin(f"{case.name}: planning")
            outcome = make_plan(scenario, case.request)
            write_plan(outcome.plan, outcome.report, scenario, folder / "plan")
            begin(f"{case.name}: starting {len(scenario.servers) + 2} servers")
            options = SiteSettings(plan=folder / "plan", delay_factor=settings.delay_factor)
            is_placement = case.request.model is Model.PLACEMENT
            rounds = settings.rounds * (_PLACEMENT_ROUNDS if is_placement else 1)
            with run_site(folder / "scenario", folder / "site", options) as live:
                result = measure_site_clients(
                    live,
                    replace(settings, rounds=rounds),
                    partial(_begin_step, begin, case.name),
                    # the first message of a topic goes through the home, which says where to
                    is_warm=is_placement,
                )
            yield LiveRun(_point(case, outcome, result, settings), outcome, result.arrivals)


def _begin_step(begin: Callable[[str], None], method: str, step: str) -> None:
    begin(f"{method}: {step}")


def _point(
    case: LiveCase, outcome: PlanOutcome, result: SwarmResult, settings: LiveSettings
) -> LivePoint:
    factor = settings.delay_factor
    is_placement = case.request.model is Model.PLACEMENT
    means = delivery_means(result.arrivals, by_pair=is_placement)
    legs_ms, between_ms = _predicted(case, outcome)
    processing_ms = means["processing_ms"]
    measured_legs_ms = means["publish_leg_ms"] + means["notify_leg_ms"]
    predicted_ms = legs_ms + between_ms
    return LivePoint(
        method=case.name,
        delay_factor=factor,
        clients=len(case.scenario.clients),
        published=result.published,
        notifications=len(result.arrivals),
        missing=result.expected - len(result.arrivals),
        predicted_y1_ms=legs_ms,
        predicted_y2_ms=between_ms,
        predicted_ms=predicted_ms,
        measured_legs_ms=measured_legs_ms / factor,
        measured_between_ms=means["between_ms"] / factor,
        measured_processing_ms=processing_ms,
        measured_ms=(means["total_ms"] - processing_ms) / factor,
        ratio=means["total_ms"] / (factor * predicted_ms + processing_ms),
    )


def _predicted(case: LiveCase, outcome: PlanOutcome) -> tuple[float, float]:
    """Return the two client legs and what lies between them, in ms."""
    metrics = outcome.report.metrics
    if case.request.model is not Model.PLACEMENT:
        return metrics["Y1"], metrics["Y2"]
    problem, plan = placement_problem(case.scenario), outcome.plan
    legs_ms = processing_ms = 0.0
    for left, right in problem.pairs():
        publisher, subscriber = problem.member_client[left], problem.member_client[right]
        legs_ms += float(problem.network.legs_ms(publisher, plan.publish[left]).sum())
        legs_ms += float(problem.network.legs_ms(subscriber, plan.homes[subscriber]).sum())
        processing_ms += float(problem.process_ms[problem.member_topic[left]].sum())
    pairs = max(1.0, metrics["pairs"])
    return legs_ms / pairs, metrics["mean_ms"] - (legs_ms + processing_ms) / pairs


def delivery_means(arrivals: Sequence[Arrival], *, by_pair: bool = False) -> dict[str, float]:
    """Return the mean of each stage as the model counts: first over a publication's subscribers.

    Topics differ in size, so a plain mean over notifications would weigh large ones more. The
    placement model counts like that (`by_pair`).
    """
    deliveries: dict[tuple[str, ...], list[Arrival]] = defaultdict(list)
    for one in arrivals:
        told = one.notification
        delivery = (told.topic, told.publisher, str(told.sequence))
        deliveries[(*delivery, one.client) if by_pair else delivery].append(one)
    means = {}
    for stage in STAGES:
        sums = [
            sum(getattr(one.notification, stage) or 0.0 for one in group) / len(group)
            for group in deliveries.values()
        ]
        means[stage] = sum(sums) / len(sums) if sums else float("nan")
    return means


def summary(points: Sequence[LivePoint]) -> list[dict[str, object]]:
    """Return, by plan, whether model and reality agree, and how it compares with RELOC's plan."""
    reloc = next((point for point in points if point.method == "reloc"), None)
    return [_row(point, None if point.method.startswith(_PLACEMENT) else reloc) for point in points]


def _row(point: LivePoint, reloc: LivePoint | None) -> dict[str, object]:
    return {
        "plan": point.method,
        "predicted, ms": point.predicted_ms,
        "measured, ms": point.measured_ms,
        "processing, ms": point.measured_processing_ms,
        "measured / predicted": point.ratio,
        "within 10 %": "yes" if abs(point.ratio - 1) <= TOLERANCE else "no",
        "notifications": point.notifications,
        "missing": point.missing,
        "of RELOC's, predicted": point.predicted_ms / reloc.predicted_ms if reloc else None,
        "of RELOC's, measured": point.measured_ms / reloc.measured_ms if reloc else None,
    }


def write_report(
    scenario: Scenario, runs: Sequence[LiveRun], settings: LiveSettings, folder: Path
) -> Path:
    """Write all notifications, and a page with the plans of the ratio model; return its path."""
    import pyarrow.parquet as pq

    from nearcast.pictures.site_report import SiteRun, write_site_report

    notifications = to_table((one.point.method, one.arrivals) for one in runs)
    pq.write_table(notifications, folder / "notifications.parquet")
    return write_site_report(
        folder,
        scenario,
        Model.RATIO,
        [
            SiteRun(one.point.method, one.outcome.plan, one.outcome.assessment.detail)
            for one in runs
            if one.outcome.report.model is Model.RATIO
        ],
        notifications,
        factor=settings.delay_factor,
    )
