"""``nearcast pipeline sweep``: methods x parameters x seeds as one Spark job."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.console import json_option, print_json, print_table, print_warnings
from nearcast.cli.local_path import LocalPath
from nearcast.cli.options import out_option
from nearcast.cli.spark_options import SparkOptions, cell_progress, spark_options, spark_session

__all__ = ["sweep"]


@click.command()
@click.argument("spec", type=LocalPath())
@out_option
@spark_options
@json_option
def sweep(spec: Path, out: Path, spark_with: SparkOptions, as_json: bool) -> None:
    """Plan every combination that SPEC names; finished ones are never computed again.

    SPEC is a TOML file; lists are axes, and the sweep is their full product:

    \b
      methods = ["nearest", "reloc", "optimised"]
      seeds = 10
      regions = [1, 4, 16]
      [scenario]
      source = "reloc2021"       # or reloc2020, placement2022, city, follows, folder
      [scenario.parameters]
      sigma_km = [1, 5, 10]
      [limits]
      iterations = 1000000

    --out gets results.parquet, one row a combination. Run the same command again after a kill, or
    with more seeds: what is there is kept. A combination that fails is reported and tried again
    next time.
    """
    from nearcast.pipeline.sweep.run import run_sweep
    from nearcast.pipeline.sweep.spec import read_spec

    cells = read_spec(spec)
    with spark_session(spark_with) as session, cell_progress() as show:
        result = run_sweep(session, cells, out, show)
    failed = len(result.failures)
    print_warnings([f"{failure.cell.title}: {failure.error}" for failure in result.failures])
    counts = {"total": result.total, "reused": result.reused, "failed": failed}
    if as_json:
        print_json({"results": str(result.results), **counts})
        return
    print_table(
        ["sweep", "combinations"],
        [
            ["computed now", f"{result.total - result.reused - failed:,}"],
            ["kept from before", f"{result.reused:,}"],
            ["failed", f"{failed:,}"],
        ],
        title=f"{result.results}",
    )
