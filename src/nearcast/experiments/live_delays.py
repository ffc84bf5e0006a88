"""Model against reality: the same scenario and plan, computed and run on real servers.

Every publisher publishes, every notification is timed at its subscriber. Delays of the geometry
are emulated on every link, times a factor that keeps the machine's own timers out of legs of
less than a millisecond. The model's Y knows no processing, so the measured mean is compared with
factor x Y plus the measured processing time.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nearcast.domain.plan import Model
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

__all__ = ["LivePoint", "LiveRun", "delivery_means", "run", "summary", "write_report"]

METHODS = ("nearest", "reloc", "optimised")
TOLERANCE = 0.10


@dataclass(frozen=True, slots=True)
class LivePoint:
    """One plan, predicted and measured. Measured delays are divided by the factor."""

    method: str
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
    """Mean over publications of the mean over their notifications, without processing."""
    ratio: float
    """Measured (with processing) / (factor x Y + measured processing)."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A point with everything behind it."""

    point: LivePoint
    outcome: PlanOutcome
    arrivals: Sequence[Arrival]


def run(
    scenario: Scenario,
    methods: Sequence[str] = METHODS,
    settings: LiveSettings | None = None,
    *,
    regions: int | None = 4,
    time_limit_s: float = 5.0,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[LiveRun]:
    """Plan by each method, run the site, measure."""
    settings = settings or LiveSettings()
    with tempfile.TemporaryDirectory(prefix="nearcast-live-") as text:
        folder = Path(text)
        write_scenario(scenario, folder / "scenario")
        for method in methods:
            begin(f"{method}: planning")
            request = PlanRequest(
                Model.RATIO,
                method,
                regions=regions,
                seed=settings.seed,
                time_limit_s=time_limit_s if method == "optimised" else None,
            )
            outcome = make_plan(scenario, request)
            write_plan(outcome.plan, outcome.report, scenario, folder / f"plan-{method}")
            begin(f"{method}: starting {len(scenario.servers) + 2} servers")
            options = SiteSettings(
                plan=folder / f"plan-{method}", delay_factor=settings.delay_factor
            )
            with run_site(folder / "scenario", folder / f"site-{method}", options) as live:
                result = measure_site_clients(live, settings, partial(_begin_step, begin, method))
            point = _point(method, scenario, outcome, result, settings)
            yield LiveRun(point, outcome, result.arrivals)


def _begin_step(begin: Callable[[str], None], method: str, step: str) -> None:
    begin(f"{method}: {step}")


def _point(
    method: str,
    scenario: Scenario,
    outcome: PlanOutcome,
    result: SwarmResult,
    settings: LiveSettings,
) -> LivePoint:
    factor = settings.delay_factor
    means = delivery_means(result.arrivals)
    metrics = outcome.report.metrics
    processing_ms = means["processing_ms"]
    legs_ms = means["publish_leg_ms"] + means["notify_leg_ms"]
    return LivePoint(
        method=method,
        delay_factor=factor,
        clients=len(scenario.clients),
        published=result.published,
        notifications=len(result.arrivals),
        missing=result.expected - len(result.arrivals),
        predicted_y1_ms=metrics["Y1"],
        predicted_y2_ms=metrics["Y2"],
        predicted_ms=metrics["Y"],
        measured_legs_ms=legs_ms / factor,
        measured_between_ms=means["between_ms"] / factor,
        measured_processing_ms=processing_ms,
        measured_ms=(means["total_ms"] - processing_ms) / factor,
        ratio=means["total_ms"] / (factor * metrics["Y"] + processing_ms),
    )


def delivery_means(arrivals: Sequence[Arrival]) -> dict[str, float]:
    """Return the mean of each stage as the model counts: first over a publication's subscribers.

    Topics differ in size, so a plain mean over notifications would weigh large ones more.
    """
    deliveries: dict[tuple[str, str, int], list[Arrival]] = defaultdict(list)
    for one in arrivals:
        told = one.notification
        deliveries[told.topic, told.publisher, told.sequence].append(one)
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
    return [
        {
            "method": point.method,
            "Y predicted, ms": point.predicted_ms,
            "measured, ms": point.measured_ms,
            "processing, ms": point.measured_processing_ms,
            "measured / predicted": point.ratio,
            "within 10 %": "yes" if abs(point.ratio - 1) <= TOLERANCE else "no",
            "notifications": point.notifications,
            "missing": point.missing,
            "of RELOC's, predicted": point.predicted_ms / reloc.predicted_ms if reloc else None,
            "of RELOC's, measured": point.measured_ms / reloc.measured_ms if reloc else None,
        }
        for point in points
    ]


def write_report(
    scenario: Scenario, runs: Sequence[LiveRun], settings: LiveSettings, folder: Path
) -> Path:
    """Write all notifications and the page with the pictures of all plans; return its path."""
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
        ],
        notifications,
        factor=settings.delay_factor,
    )
