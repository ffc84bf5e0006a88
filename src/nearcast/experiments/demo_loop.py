"""The plan loop in the demo: clients of the running site move, and it plans itself anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.experiments.closed_loop.moving import mirrored
from nearcast.experiments.closed_loop.rounds import LoopRun, LoopSettings, watch_rounds
from nearcast.pictures.delay_timeline import draw_delay_timeline
from nearcast.pictures.report import Cell, Picture, Section, Table
from nearcast.site.live_site import LiveSite
from nearcast.site.swarm import Swarm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOOP_STEPS", "loop_json", "loop_section", "show_loop"]

LOOP_STEPS = 3
_COMMAND = "nearcast bench loop"
_PHASES = {"before": "before", "moved": "clients have moved", "round 1": "after the round"}
_SETTINGS = LoopSettings(
    rate_hz=90.0,
    rounds=1,
    is_watched_before=False,
    window_s=9.0,
    before_s=4.0,
    moved_s=5.0,
    measure_s=5.0,
    time_limit_s=2.0,
)
"""Short: `nearcast bench loop` takes its time, and compares with full knowledge."""


async def show_loop(
    live: LiveSite, swarm: Swarm, spark: SparkSession, begin: Callable[[str], None]
) -> LoopRun:
    """Have most clients of a site move and the site plan itself anew, once, under load."""
    rng = np.random.default_rng(_SETTINGS.seed)
    after = mirrored(live.scenario, _SETTINGS.share, rng)
    return await watch_rounds(live, swarm, spark, after, _SETTINGS, begin)


def loop_json(run: LoopRun) -> dict[str, Any]:
    """Return what was measured, phase by phase, and the round as `nearcast replan` tells it."""
    return {
        "moved_clients": run.moved_clients,
        "measured_ms": {_PHASES[one.name]: one.measured_ms for one in run.phases},
        "round": asdict(run.rounds[0]),
        **asdict(run.counts),
    }


def loop_section(run: LoopRun, factor: float) -> Section:
    """Return the section of the report."""
    done, counts = run.rounds[0], run.counts
    before, moved, after = run.phases
    costs = {
        "clients have moved": done.cost_before,
        "after the round": done.cost_after if done.switched else done.cost_before,
    }
    rows: list[dict[str, Cell]] = []
    for one in run.phases:
        cost = costs.get(_PHASES[one.name])
        rows.append(
            {
                "phase": _PHASES[one.name],
                "predicted [ms]": None if cost is None else round(factor * cost, 1),
                "measured [ms]": round(one.measured_ms, 1),
            }
        )
    text = (
        f"On the last site {run.moved_clients:,} clients, whole communities, moved across the "
        f"city while all went on publishing: the mean delay went from {before.measured_ms:.0f} to "
        f"{moved.measured_ms:.0f} ms. Spark learned from the servers' own logs where they are now "
        f"({done.learn_s:.1f} s), the planner looked for a better plan near the one in force "
        f"({done.plan_s:.1f} s), and "
        + (
            f"the servers handed {done.streams or 0:,} streams over to their new places while "
            f"messages flowed ({done.switch_s:.1f} s): "
            if done.switched
            else f"the site kept its plan ({done.reason}): "
        )
        + f"{after.measured_ms:.0f} ms. Of {counts.expected:,} notifications {counts.lost:,} were "
        f"lost and {counts.doubled:,} heard twice."
    )
    start_s = run.by_second[0][0] if run.by_second else run.moved_s
    marks = {"clients move": run.moved_s}
    if done.switched:
        end_s = done.began + done.work_s
        marks |= {"switch begins": end_s - done.switch_s, "all servers have the plan": end_s}
    figure = draw_delay_timeline(
        [(at_s - start_s, ms) for at_s, ms in run.by_second],
        {name: at_s - start_s for name, at_s in marks.items()},
    )
    return Section(
        "The site plans itself anew",
        text,
        tables=[
            Table(
                rows,
                how_to_read="Predicted: by the model, of the plan in force, with everybody where "
                "the log had them. Measured: from publisher to subscriber, at the clients.",
            )
        ],
        pictures=[
            Picture(
                figure,
                f"Mean delay second by second: {before.measured_ms:.0f} ms before, "
                f"{moved.measured_ms:.0f} ms after the move, {after.measured_ms:.0f} ms after the "
                "round.",
                "Each point is the mean of the messages that were sent in one second. The peak "
                "at the switch is what waited for its stream to be handed over.",
            )
        ],
        command=_COMMAND,
    )
