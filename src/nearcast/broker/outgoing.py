"""From what a processor says to what leaves the broker: recipients, ids and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nearcast.broker.audiences import SubscriberLookup, resolve
from nearcast.broker.guard import GuardEvent, ProcessorReport
from nearcast.broker.messages import Origin
from nearcast.broker.notifications import Notification, OutgoingNotification
from nearcast.broker.sequence_gate import Arrival

__all__ = ["address"]


def address(
    notifications: Iterable[Notification],
    batch: Sequence[Arrival],
    lookup: SubscriberLookup,
    reports: list[ProcessorReport],
    *,
    after_sync: bool,
) -> Iterator[OutgoingNotification]:
    """Return the notifications that a batch caused, as far as there is anybody to tell.

    Parameters
    ----------
    reports
        Gets what is wrong with an audience.
    after_sync
        Whether durable messages of the batch will be synced before anybody is told.
    """
    arrivals = {id(one.message): one.arrived_at_s for one in batch}
    numbers: dict[int, int] = {}
    for one in notifications:
        cause = one.cause
        if cause is None or id(cause) not in arrivals:  # whoever ran the processor sees to that
            raise ValueError("a notification was not caused by its batch")
        try:
            recipients = resolve(lookup, cause.topic, one.audience, cause.publisher)
        except Exception as error:  # an audience is users' work too
            detail = f"audience: {error!r}"
            reports.append(ProcessorReport(cause.topic, GuardEvent.FAILED, detail, cause))
            continue
        number = numbers.get(id(cause), 0)
        numbers[id(cause)] = number + 1
        if recipients:
            is_durable = cause.origin is not Origin.ONCE
            yield OutgoingNotification(
                cause.topic,
                cause.publisher,
                cause.epoch,
                cause.sequence,
                number,
                one.payload,
                recipients,
                after_sync and is_durable,
                cause.published_at_s,
                cause.received_at_s,
                arrivals[id(cause)],
                is_durable,
            )
