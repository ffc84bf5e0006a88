"""Options that the verbs of ``nearcast client`` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = [
    "credentials_option",
    "degrees_option",
    "discover_option",
    "lines_option",
    "timeout_option",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

credentials_option: Decorator = click.option(
    "--credentials",
    type=click.Path(path_type=Path),
    required=True,
    help="The client's file, as `nearcast client enrol` writes it.",
)
discover_option: Decorator = click.option(
    "--discover",
    default="",
    metavar="HOW",
    help="Look for servers first: dns:DOMAIN, dns:DOMAIN@HOST:PORT of a name server, or mdns. Those "
    "that the site's authority has signed are tried before those of the file.",
)
timeout_option: Decorator = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds to wait for a connection or an answer.",
)
degrees_option: Decorator = click.option(
    "--degrees",
    is_flag=True,
    help="Positions and areas are longitude and latitude (WGS84), not km.",
)
lines_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout, one object per line."
)
