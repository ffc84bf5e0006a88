"""Notifications again, from the notices that the spool keeps, for who missed them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nearcast.broker.notices import notices_of
from nearcast.broker.notifications import notify_of
from nearcast.spool.changes import GENERATION
from nearcast.wire.messages import Notify
from nearcast.wire.publication import Publication

__all__ = ["Replay", "ReplayedNotification", "replay"]


class ReplayedNotification(NamedTuple):
    """A notification that is told again."""

    notify: Notify
    clients: tuple[str, ...] | None
    """To whom; None: all subscribers but the publisher."""


class Replay(NamedTuple):
    """What a topic's spool has after an offset."""

    notifications: list[ReplayedNotification]
    missed: int
    """Publications after the offset that are gone."""
    through: int
    """The last offset that was looked at; later ones are told as they come."""


def replay(
    spool: Iterable[Publication], broker: str, since: int, through: int, client: str = ""
) -> Replay:
    """Return what was told after `since`, up to and with `through`.

    Parameters
    ----------
    since
        An offset of this broker, durable or not; 0 for all. One that lies ahead is of a log that
        was lost: all that is here is newer then.
    client
        Only what it was told; empty: everybody.
    """
    if since > through:
        since = 0
    kept = [one for one in spool if 0 < one.offset <= through]
    first = kept[0].offset if kept else through + 1
    missed = first % GENERATION - since % GENERATION - 1 if since < first else 0
    told = [
        ReplayedNotification(notify_of(one, notice.part, notice.payload, broker, 0), notice.clients)
        for one in kept
        if one.offset > since
        for notice in notices_of(one)
        if not client or _is_told(client, one, notice.clients)
    ]
    return Replay(told, max(0, missed), through)


def _is_told(client: str, cause: Publication, clients: tuple[str, ...] | None) -> bool:
    return client != cause.publisher if clients is None else client in clients
