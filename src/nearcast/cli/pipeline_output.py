"""What the verbs on Spark print: stages, plans and evaluations as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nearcast.cli.console import print_table, show_number, show_percent
from nearcast.domain.plan import PlanReport

if TYPE_CHECKING:
    from nearcast.pipeline.manifest import StageRecord
    from nearcast.pipeline.stages.evaluate import Evaluation

__all__ = ["evaluation_to_json", "print_evaluation", "print_plan", "print_stages"]


def print_stages(stages: Sequence[StageRecord], title: str) -> None:
    """Print a row for each stage."""
    rows = [
        [
            record.stage,
            f"{record.rows_in:,}",
            f"{record.rows_out:,}",
            f"{record.quarantined:,}",
            show_number(record.seconds, 1),
            show_number(record.peak_memory_mb, 0),
        ]
        for record in stages
    ]
    columns = ["stage", "rows in", "rows out", "quarantined", "seconds", "peak memory, MB"]
    print_table(columns, rows, title=title)


def print_plan(report: PlanReport, title: str) -> None:
    """Print what a plan is worth."""
    rows = [
        ["cost, ms", show_number(report.cost)],
        ["proven bound, ms", show_number(report.bound)],
        ["gap: at most this far from the best plan", show_percent(report.gap)],
        *([name, show_number(value)] for name, value in report.metrics.items()),
        *([f"limit {name}", show_number(value)] for name, value in report.limits.items()),
    ]
    print_table(["plan", "value"], rows, title=title)


def print_evaluation(evaluation: Evaluation) -> None:
    """Print metrics and percentiles."""
    spread = evaluation_to_json(evaluation)["percentiles_ms"]
    rows = [
        *([name, show_number(value)] for name, value in evaluation.assessment.metrics.items()),
        *([name, show_number(value)] for name, value in spread.items()),
    ]
    title = f"delay over all {evaluation.pairs:,} publisher/subscriber pairs"
    print_table(["delay, ms", "value"], rows, title=title)


def evaluation_to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as `nearcast evaluate` tells it, with pairs and percentiles."""
    value = evaluation.assessment
    return {
        "cost": value.cost,
        "metrics": value.metrics,
        "pairs": evaluation.pairs,
        "percentiles_ms": {
            "max" if share == 1 else f"p{100 * share:g}": ms
            for share, ms in evaluation.percentiles_ms.items()
        },
        "warnings": value.warnings,
    }
