"""Command-line options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from nearcast.cli.local_path import LocalPath
from nearcast.domain.plan import Model, Objective

__all__ = [
    "bound_limit_option",
    "format_option",
    "iterations_option",
    "model_option",
    "objective_option",
    "out_option",
    "overwrite_option",
    "parse_regions",
    "regions_option",
    "seed_option",
    "time_limit_option",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

format_option: Decorator = click.option(
    "--table-format",
    type=click.Choice(["auto", "csv", "parquet"]),
    default="auto",
    show_default=True,
    help="Format of the tables; auto takes Parquet from 200,000 members on.",
)
out_option: Decorator = click.option(
    "--out", type=LocalPath(), required=True, help="Folder to write; made new."
)
overwrite_option: Decorator = click.option(
    "--overwrite", is_flag=True, help="Replace the folder if it holds an earlier result."
)
seed_option: Decorator = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Same seed, same result.",
)
model_option: Decorator = click.option(
    "--model",
    type=click.Choice([model.value for model in Model]),
    default=None,
    help="Delay model: connections (2020), ratio (2021), placement (2022).  [default: ratio]",
)
objective_option: Decorator = click.option(
    "--objective",
    type=click.Choice([objective.value for objective in Objective]),
    default=None,
    help="Placement only: d1 all pairs alike, d2 near pairs first, d3 only what exceeds the "
    "permissible delay.  [default: d1]",
)


time_limit_option: Decorator = click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    help="Seconds of search (optimised, exact). Without it the length is fixed in iterations and "
    "the result depends on the seed alone.",
)
iterations_option: Decorator = click.option(
    "--iterations", type=int, help="Length of the search in steps: reproducible on any machine."
)
bound_limit_option: Decorator = click.option(
    "--bound-limit",
    "bound_limit_s",
    type=float,
    help="Seconds for the proven bound of `optimised`, on top of the search.  "
    "[default: as the size needs]",
)


def parse_regions(_ctx: click.Context, _parameter: click.Parameter, value: str) -> int | None:
    """Return K, or None for auto."""
    if value == "auto":
        return None
    if not value.isdigit() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a positive number nor 'auto'")
    return int(value)


regions_option: Decorator = click.option(
    "--regions",
    default="auto",
    show_default=True,
    callback=parse_regions,
    help="K of RELOC's K-means over servers; auto chooses it from the data.",
)
