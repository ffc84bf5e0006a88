"""Notifications between servers, and as a home sends and logs them."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.broker.notifications import OutgoingNotification
from nearcast.server.log_rows import NotificationRow
from nearcast.server.mesh_messages import Notice
from nearcast.server.outputs import StageDelays
from nearcast.wire.messages import Notify

__all__ = ["microseconds", "notice_of", "notification_rows", "notify_of", "stage_delays"]


def microseconds(time_s: float) -> int:
    """Return a time or duration in whole microseconds, the nearest."""
    return round(time_s * 1e6)


def notice_of(one: OutgoingNotification, clients: Iterable[str], processed_s: float) -> Notice:
    """Return what the home of some of a notification's recipients gets."""
    return Notice(
        one.topic,
        one.publisher,
        one.epoch,
        one.sequence,
        one.durable_publication,
        one.number,
        one.payload,
        tuple(clients),
        microseconds(one.published_at_s),
        microseconds(one.received_at_s),
        max(0, microseconds(processed_s - one.arrived_at_s)),
        microseconds(processed_s),
    )


def notify_of(notice: Notice, notified_us: int) -> Notify:
    """Return what clients get."""
    return Notify(
        notice.topic,
        notice.publisher,
        notice.epoch,
        notice.sequence,
        notice.durable,
        notice.part,
        notice.payload,
        notice.published_us,
        notice.received_us,
        notice.processed_us,
        notified_us,
        notice.processing_us,
    )


def stage_delays(notice: Notice, notified_us: int) -> StageDelays:
    """Return where a notification spent its time so far."""
    between_us = notified_us - notice.received_us - notice.processing_us
    return StageDelays(
        (notice.received_us - notice.published_us) / 1e6,
        notice.processing_us / 1e6,
        between_us / 1e6,
    )


def notification_rows(
    notice: Notice, clients: Iterable[str], server: str, notified_us: int
) -> list[NotificationRow]:
    """Return the row of the event log, if anyone was notified."""
    receivers = tuple(clients)
    if not receivers:
        return []
    return [
        NotificationRow(
            notice.topic,
            notice.publisher,
            notice.epoch,
            notice.sequence,
            notice.part,
            receivers,
            server,
            notice.published_us,
            notice.received_us,
            notice.processing_us,
            notice.processed_us,
            notified_us,
            len(notice.payload),
            notice.durable,
        )
    ]
