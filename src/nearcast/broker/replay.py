"""Notifications again, from the notices that the spool keeps, for who missed them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nearcast.broker.notices import Notice, notices_of
from nearcast.broker.notifications import notify_of
from nearcast.spool.changes import GENERATION
from nearcast.wire.envelope import open_envelope
from nearcast.wire.messages import Notify
from nearcast.wire.publication import Origin, Publication

__all__ = ["Replay", "ReplayedNotification", "replay"]


class ReplayedNotification(NamedTuple):
    """A notification that is told again."""

    notify: Notify
    clients: tuple[str, ...] | None
    """To whom; None: all subscribers but the publisher."""
    place: tuple[float, float]
    """Where the message happened."""


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
    kept = [one for one in spool if one.offset <= through and one.origin is not Origin.ONCE]
    first = next((one.offset for one in kept if one.offset), through + 1)
    missed = first % GENERATION - since % GENERATION - 1 if since < first else 0
    told = list[ReplayedNotification]()
    last: dict[str, Publication] = {}
    """Of each publisher, what all subscribers were told of: copies by another broker."""
    for one in kept:
        before, notices = last.get(one.publisher), notices_of(one)
        previous = before.sequence if before is not None and before.epoch == one.epoch else 0
        told += [
            ReplayedNotification(
                notify_of(one, notice.part, notice.payload, broker, 0, previous, notice.envelope),
                notice.clients,
                (one.x_km, one.y_km),
            )
            for notice in notices
            if one.offset > since and (not client or _is_told(client, one, notice.clients))
        ]
        if not one.offset or any(_is_for_all(notice, one) for notice in notices):
            last[one.publisher] = one
    return Replay(told, max(0, missed), through)


def _is_told(client: str, cause: Publication, clients: tuple[str, ...] | None) -> bool:
    return client != cause.publisher if clients is None else client in clients


def _is_for_all(notice: Notice, cause: Publication) -> bool:
    envelope = cause.envelope if notice.envelope is None else notice.envelope
    return notice.clients is None and (not envelope or open_envelope(envelope).is_for_all)
