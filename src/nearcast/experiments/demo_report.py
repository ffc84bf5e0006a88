"""What the demo found, as a table for the terminal, as JSON and as the report page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from nearcast.domain.plan import Model
from nearcast.experiments.demo_live import MethodRun
from nearcast.experiments.demo_loop import loop_json, loop_section
from nearcast.experiments.demo_site import Demo, DemoSettings
from nearcast.experiments.site_measure import to_table
from nearcast.experiments.vehicles.page import vehicle_sections
from nearcast.pictures.report import Cell, Section, Table
from nearcast.pictures.site_delays import SiteDelays, measure_site, predict_site
from nearcast.pictures.site_report import SiteRun, write_site_report

__all__ = ["demo_json", "disturbed", "next_commands", "write_demo_report"]

_MUCH = 0.05
"""Part of a predicted delay that this machine's own may be."""


def write_demo_report(demo: Demo, settings: DemoSettings, folder: Path) -> tuple[Path, pa.Table]:
    """Write report.html and notifications.parquet; return the page and the notifications."""
    notifications = to_table((run.method, run.result.arrivals) for run in demo.runs)
    pa_parquet.write_table(notifications, folder / "notifications.parquet")
    page = write_site_report(
        folder,
        demo.learned,
        Model.RATIO,
        [
            SiteRun(run.method, run.planned.outcome.plan, run.planned.outcome.assessment.detail)
            for run in demo.runs
        ],
        notifications,
        factor=settings.live.delay_factor,
        title="A city, from its log to a running site",
        more=[
            *_learned_sections(demo),
            *(
                loop_section(run.loop, settings.live.delay_factor)
                for run in demo.runs
                if run.loop is not None
            ),
            *_vehicle_sections(demo, folder),
            _next_section(demo, settings, folder),
        ],
    )
    return page, notifications


def demo_json(demo: Demo, settings: DemoSettings, notifications: pa.Table) -> dict[str, Any]:
    """Return everything but the pictures."""
    factor = settings.live.delay_factor
    measured = measure_site(notifications)
    return {
        "delay_factor": factor,
        "clients": len(demo.learned.clients),
        "servers": len(demo.learned.servers),
        "topics": len(demo.learned.topics),
        "log_rows": demo.log_rows,
        "learned": asdict(demo.facts),
        "spark_start_seconds": demo.spark_start_s,
        "stages": [asdict(record) for record in demo.stages],
        "methods": [
            _method_json(run, measured[run.method], _predicted(demo, run, factor))
            for run in demo.runs
        ],
        "replanned": next((loop_json(run.loop) for run in demo.runs if run.loop), None),
        "vehicles": None if demo.drive is None else demo.drive.found,
    }


def disturbed(found: dict[str, Any]) -> list[str]:
    """Return the methods whose measured delays say more of this machine than of the plan."""
    return [
        one["method"]
        for one in found["methods"]
        if 2 * one["own_delay_ms"] > _MUCH * one["predicted_ms"]
    ]


def next_commands(demo: Demo, settings: DemoSettings, folder: Path) -> list[tuple[str, str]]:
    """Return what to try next: why, and the command."""
    best, factor = demo.runs[-1], settings.live.delay_factor
    site = folder / f"site-{best.method}"
    client = demo.learned.clients.ids[0].as_py()
    topic = demo.learned.topics.ids[int(demo.learned.members.topic[0])].as_py()
    return [
        (
            "keep the site up",
            f"nearcast up {folder}/run/scenario --plan {best.planned.folder} --site {site} "
            f"--delay-factor {factor:g}",
        ),
        ("watch it, in another terminal", f"nearcast status {site}"),
        (
            "take part in it",
            f"nearcast client subscribe --credentials {site}/clients/{client}.json --topic {topic}",
        ),
        (
            "learn from what the site itself has logged",
            f"nearcast pipeline run {site}/log/publications --sites {folder}/sites.csv "
            f"--out {folder}/again",
        ),
        ("all methods on the city", f"nearcast compare {folder}/city --time-limit 2"),
    ]


def _predicted(demo: Demo, run: MethodRun, factor: float) -> SiteDelays:
    outcome = run.planned.outcome
    return predict_site(demo.learned, outcome.plan, Model.RATIO, outcome.assessment.detail, factor)


def _method_json(run: MethodRun, site: SiteDelays, model: SiteDelays) -> dict[str, Any]:
    result = run.result
    return {
        "method": run.method,
        "predicted_ms": model.total_ms,
        "measured_ms": site.total_ms,
        "ratio": site.total_ms / model.total_ms,
        "predicted_stages_ms": dict(model.stage_ms),
        "measured_stages_ms": dict(site.stage_ms),
        "median_ms": float(np.median(site.each_ms)),
        "p99_ms": float(np.quantile(site.each_ms, 0.99)),
        "published": result.published,
        "acknowledged": result.acknowledged,
        "notifications": len(result.arrivals),
        "missing": result.expected - len(result.arrivals),
        "own_delay_ms": run.result.own_delay_ms,
        "startup_seconds": run.startup_s,
        "seconds": run.seconds,
    }


def _learned_sections(demo: Demo) -> list[Section]:
    facts = demo.facts
    stages: list[dict[str, Cell]] = [
        {
            "stage": record.stage,
            "rows in": record.rows_in,
            "rows out": record.rows_out,
            "set aside": record.quarantined,
            "seconds": round(record.seconds, 1),
        }
        for record in demo.stages
    ]
    servers: list[dict[str, Cell]] = [
        {
            "method": run.method,
            "servers ready [s]": round(run.startup_s, 1),
            "in all [s]": round(run.seconds, 1),
            "own delay [ms]": run.result.own_delay_ms,
            "published": run.result.published,
            "acknowledged": run.result.acknowledged,
            "expected": run.result.expected,
            "arrived": len(run.result.arrivals),
        }
        for run in demo.runs
    ]
    return [
        Section(
            "What Spark learned from the log",
            f"The clients of a generated city left a log of {demo.log_rows:,} rows. The plans "
            "come from what the pipeline learned from it, and not from the city itself. It found "
            f"{facts.clients:,} of {facts.all_clients:,} clients, "
            f"{facts.memberships:,} of {facts.all_memberships:,} memberships with their roles, "
            f"and half of the clients within {facts.median_error_m:.0f} m of where they are.",
            tables=[Table(stages, how_to_read="Rows that cannot be used are set aside.")],
        ),
        Section(
            "What the site did",
            f"A manager, a cloud server and {len(demo.learned.servers):,} edge servers ran as "
            "processes of their own on this machine, once for each plan.",
            tables=[
                Table(
                    servers,
                    how_to_read="A publication is durable when acknowledged. Own delay: how late the clients' process woke up on average; on a busy machine it is part of every measured delay.",
                )
            ],
        ),
    ]


def _vehicle_sections(demo: Demo, folder: Path) -> list[Section]:
    drive = demo.drive
    if drive is None:
        return []
    found = drive.found
    text = (
        f"{found['vehicles']} vehicles of a made-up grid drove past {found['edges']} edge servers "
        f"for {found['seconds']} s: {found['handovers']} hand-overs, {found['alerts']} alerts. "
        f"{found['delivered']} of {found['expected']} vehicles in their areas heard them, "
        f"{found['false']} others did; {found['lost']} messages were lost and {found['doubled']} "
        "heard twice. The servers are the true state machines; time, network and disks are made up."
    )
    command = "nearcast demo vehicles --synthetic --vehicles 300 --edges 9 --minutes 2"
    return vehicle_sections(drive, folder, command, "Vehicles on the road", text)


def _next_section(demo: Demo, settings: DemoSettings, folder: Path) -> Section:
    lines = [f"{command}  # {why}" for why, command in next_commands(demo, settings, folder)]
    return Section("What to do next", command="\n".join(lines))
