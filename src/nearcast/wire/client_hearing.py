"""What a client hears: its subscriptions, each notification once and in order, what it missed."""

from __future__ import annotations

from nearcast.errors import ConfigError, WireError
from nearcast.trust.topic_pattern import check_pattern
from nearcast.wire.areas import heading_of
from nearcast.wire.client_context import ClientContext
from nearcast.wire.codec import decode_for_client, encode
from nearcast.wire.cursors import Cursors, SavedCursors
from nearcast.wire.delivery_order import DeliveryOrder
from nearcast.wire.envelope import open_envelope
from nearcast.wire.framing import check_fits
from nearcast.wire.inbox import Inbox
from nearcast.wire.messages import Confirm, Gap, Subscribe
from nearcast.wire.notification import Notification
from nearcast.wire.subscriptions import Subscriptions
from nearcast.wire.terms import NO_TERMS, Terms, check_terms

__all__ = ["ClientHearing"]


class ClientHearing:
    """Outlives sessions: in a new one everything is asked for again, from where it was."""

    def __init__(self, context: ClientContext, cursors: SavedCursors | None) -> None:
        self._context = context
        self.inbox = Inbox()
        self.cursors = Cursors(context.settings, cursors)
        self.order = DeliveryOrder(context.settings.order_wait_s, self._deliver)
        self._subscriptions = Subscriptions(context.settings)
        self.now = 0.0
        """The time of the last event."""

    def want(self, topic: str, subscribed: bool, terms: Terms = NO_TERMS) -> None:
        """Ask for the notifications of a topic or pattern, or for their end."""
        try:
            check_pattern(topic)
        except ConfigError as error:
            raise WireError(str(error)) from None
        try:
            check_terms(terms)
        except WireError as error:
            raise WireError(f"{topic}: {error}") from None
        frame = encode(Subscribe(0xFFFFFFFF, topic, True, terms.where, terms.area, terms.follows))
        check_fits(len(frame), self._context.settings.datagram_limit)
        self._subscriptions.want(topic, subscribed, terms)
        if not subscribed:
            self.cursors.ended(topic)
            self.order.forget(topic)

    def restart(self) -> None:
        """Ask for everything again: the session is a new one."""
        self._subscriptions.restart()
        self.cursors.restart()

    def hear(self, payload: bytes, now: float) -> None:
        """Take the notifications among the frames of a payload."""
        self.now, arrived_us = now, round(now * 1e6)
        for message in decode_for_client(payload):
            if isinstance(message, tuple):
                one = self.inbox.accept(message, arrived_us)
                if one is not None and (not one.offset or self.cursors.note(one, now)):
                    self.order.put(one, now)

    def on_confirm(self, confirm: Confirm) -> None:
        """Take the answer to a subscription or its end."""
        topic = self._subscriptions.topic_of(confirm.request)
        if topic is None or not self.cursors.has_starts(topic, confirm.starts):
            return  # the request is repeated, and so is the answer
        confirmed = self._subscriptions.confirm(confirm)
        if confirmed is not None:
            if confirmed.subscribed and confirmed.accepted:
                self.cursors.confirmed(topic)
            self._context.events.append(confirmed)

    def on_gap(self, gap: Gap) -> None:
        """Take where a subscription starts, or what a broker no longer has."""
        missed = self.cursors.on_gap(gap)
        if missed is not None:
            self._context.events.append(missed)

    def requests(self, now: float) -> list[bytes]:
        """Return the frames of what is to be asked now."""
        asked = (*self._subscriptions.due(now, self.cursors.resumes), *self.cursors.due(now))
        return [encode(request) for request in asked]

    def release(self, now: float) -> None:
        """Deliver what need not wait any more."""
        self.now = now
        if self.cursors.released:
            released, self.cursors.released = self.cursors.released, []
            for one in released:
                self.order.put(one, now)
        if self.order.due <= now:
            self.order.expire(now)

    def _deliver(self, notification: Notification) -> None:
        reason = self._reason_against(notification) if notification.envelope else ""
        if reason:
            self._context.drops[reason] += 1
        else:
            self._context.events.append(notification)

    def _reason_against(self, notification: Notification) -> str:
        """Return why what has come is not delivered: its time has passed, or the client moved on."""
        envelope, report = open_envelope(notification.envelope), self._context.report
        now = self.now + self._context.site_clock.ahead_s
        if envelope.is_over(now):
            return "expired"
        heading_deg = heading_of(report.direction_deg, report.speed_mps)
        if not envelope.selects(report.x_km, report.y_km, heading_deg, now):
            return "outside_area"
        return ""

    def next_due(self) -> float:
        """Return when there is something to ask, or to release, at the latest."""
        return min(self._subscriptions.next_due(), self.cursors.next_due())
