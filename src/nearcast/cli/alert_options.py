"""Options of commands that tell a site's subscribers of alerts from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = ["alert_options"]

_OPTIONS = (
    click.option(
        "--credentials",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        required=True,
        help="Of a client that may publish to the alerts' topics.",
    ),
    click.option(
        "--before",
        default="alerts/",
        show_default=True,
        help="Put before an alert's topic: subscribe to alerts/road/north.",
    ),
)


def alert_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
