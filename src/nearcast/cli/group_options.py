"""The option for group delivery, of the verbs that start edge servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nearcast.wire.group_settings import GroupSettings

__all__ = ["group_option"]


def group_option(more: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``--group``, which gives the command a `GroupSettings`, or None.

    Parameters
    ----------
    more
        What this verb makes of it, after the common help.
    """
    return click.option(
        "--group",
        metavar="ADDRESS:PORT",
        callback=_read,
        help="Tell many clients of one message at once, in this IPv4 multicast group, such as "
        f"239.192.7.1:7401{more}: docs/group-delivery.md.",
    )


def _read(_ctx: click.Context, _option: click.Parameter, text: str | None) -> GroupSettings | None:
    from nearcast.errors import ConfigError
    from nearcast.wire.group_settings import GroupSettings

    if text is None:
        return None
    host, _, port = text.rpartition(":")
    try:
        return GroupSettings(host, int(port) if port.isascii() and port.isdigit() else 0)
    except ValueError as error:
        raise ConfigError(f"--group {text!r:.40}: is ADDRESS:PORT: {error}") from None
