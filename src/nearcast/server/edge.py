"""An edge server: a node with clients of its own.

A pass takes a batch of datagrams as one: sessions open it, the broker here or another server gets
the publications by topic, and all that comes of it for one client or server is packed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nearcast.broker.messages import Message
from nearcast.errors import WireError
from nearcast.server.client_desk import ClientDesk
from nearcast.server.mesh_messages import (
    ForwardAck,
    ForwardBusy,
    ForwardNack,
    MeshMessage,
    Notice,
    Undelivered,
)
from nearcast.server.notices import microseconds, notification_rows, notify_of, stage_delays
from nearcast.server.outputs import Outputs
from nearcast.server.site_orders import Orders
from nearcast.server.subscriber_news import News
from nearcast.wire.actions import Home
from nearcast.wire.codec import Refused, decode, encode
from nearcast.wire.messages import CloseReason, Notify, Publish
from nearcast.wire.settings import Address

__all__ = ["EdgeServer"]


class EdgeServer(ClientDesk):
    """A server with clients; `ClientDesk` explains what it is made with."""

    # Events

    def on_datagrams(
        self, batch: Sequence[tuple[bytes, Address]], now: float, queue_age_s: float = 0.0
    ) -> Outputs:
        """Take datagrams of clients; the first of them has waited so long in the kernel."""
        if queue_age_s <= self._edge.queue_age_s:
            self._queue_since = float("inf")
        else:
            self._queue_since = min(self._queue_since, now)
        overloaded = (
            now - self._queue_since > self._edge.queue_patience_s
            or self.commit_wait_s > self._edge.commit_age_s
            or not self.is_informed(now)
        )
        self._on_events(self.sessions.receive(batch, now), now, overloaded=overloaded)
        return self._finish(now)

    def on_timer(self, now: float) -> Outputs:
        """Do what has become due."""
        if now >= self._next_prune:
            self._next_prune = now + self._edge.prune_interval_s
            self._on_events(self.sessions.prune(now), now)
            self._repeat_redirects()
            gone, given_up = self._departures.expire(now)
            self.counts["notifications_undelivered"] += given_up
            for client, topics in [*gone, *self.clients.take_outdated(now)]:
                self._tell(self._news.unsubscribed(client, topics))
        self.sessions_open = len(self.sessions)
        return super().on_timer(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return min(super().next_wakeup(), self.sessions.next_wakeup(), self._next_prune)

    def stop(self, now: float) -> Outputs:
        """Say farewell to all clients; they will look for this home again."""
        for client in self.sessions.clients:
            self.sessions.close(client, CloseReason.STOPPED, now)
        return self._finish(now)

    # Orders and other servers

    def _take_orders(self, orders: Orders, now: float) -> None:
        super()._take_orders(orders, now)
        self._keys.clear()
        self._keys.update((one.public_key, one.client) for one in orders.clients)
        self._homes = {one.client: one.home for one in orders.clients}
        self._addresses = {
            one.server: Home((one.host, one.port), one.public_key)
            for one in orders.servers
            if one.host
        }
        for client in self.sessions.clients:
            if client not in self._homes:
                self.sessions.close(client, CloseReason.REVOKED, now)
            else:
                self._redirect_if_moved(client)
        self._on_events(self.sessions.take_events(), now)

    def _on_manages(self, server: str, topic: str) -> None:
        super()._on_manages(server, topic)
        self._tell([self._news.complete(server, topic)])

    def _subscribers_here(self, server: str) -> Iterable[News]:
        return self._news.introduce(server)

    def _on_message(self, server: str, message: MeshMessage, now: float) -> None:
        match message:
            case ForwardAck(topic, publisher, epoch, through):
                if min(epoch, through) < 0 or not self.targets.knows(topic, publisher):
                    raise WireError(f"no stream of {publisher!r} was forwarded")
                self.sessions.acknowledge(publisher, topic, epoch, through)
            case ForwardNack(topic, publisher, epoch, expected):
                self.sessions.nack(publisher, topic, epoch, expected)
            case ForwardBusy(topic, publisher, epoch, sequence, retry_after_s):
                refused = Publish(topic, epoch, sequence, sequence, True, b"")
                self.sessions.busy(publisher, retry_after_s, refused)
            case Undelivered(client, frames, revision):
                self._on_undelivered(client, frames, revision, now)
            case _:
                super()._on_message(server, message, now)

    def _on_undelivered(
        self, client: str, frames: Sequence[bytes], revision: int, now: float
    ) -> None:
        """Bring what another home of the client could not, pass it on, or keep it."""
        try:
            contents = [one for frame in frames for one, _ in decode(frame)]
        except Refused as refusal:
            raise WireError(f"Undelivered: {refusal}") from None
        if len(contents) != len(frames) or not all(isinstance(one, Notify) for one in contents):
            raise WireError("Undelivered holds something that is no notification")
        if self.sessions.notify(client, frames):
            return
        if self.orders is not None and revision > self.orders.revision:
            # the sender has newer orders: whoever passes it on by older ones sends it in circles
            self._departures.keep(client, frames, now)
        else:
            self._pass_on(client, frames, now)

    # Towards publishers and subscribers

    def _deliver(self, notice: Notice) -> None:
        notified_us = microseconds(self._clock())
        try:
            frame = encode(notify_of(notice, notified_us))
            reached = [one for one in notice.clients if self.sessions.notify(one, (frame,))]
        except WireError as error:
            self.counts["notifications_too_large"] += len(notice.clients)
            self._incident("notification_too_large", topic=notice.topic, reason=str(error))
            return
        self.counts["notifications"] += len(reached)
        for client in sorted(set(notice.clients) - set(reached)):
            # it has left, however long ago: what comes late, lost and repeated, follows it
            self._pass_on(client, (frame,), self._clock())
        self._out.delays.append(stage_delays(notice, notified_us))
        self._out.log += notification_rows(notice, reached, self.settings.server, notified_us)

    def _acknowledge(self, topic: str, publisher: str, epoch: int, through: int) -> None:
        if (topic, publisher) in self._stream_home:
            super()._acknowledge(topic, publisher, epoch, through)
        else:
            self.sessions.acknowledge(publisher, topic, epoch, through)

    def _ask_again(self, topic: str, publisher: str, epoch: int, expected: int) -> None:
        if (topic, publisher) in self._stream_home:
            super()._ask_again(topic, publisher, epoch, expected)
        else:
            self.sessions.nack(publisher, topic, epoch, expected)

    def _refuse_for_now(self, message: Message) -> None:
        if (message.topic, message.publisher) in self._stream_home:
            super()._refuse_for_now(message)
            return
        refused = Publish(
            message.topic, message.epoch, message.sequence, message.sequence, True, b""
        )
        self.sessions.busy(message.publisher, self.settings.retry_after_s, refused)

    def _finish(self, now: float) -> Outputs:
        out = super()._finish(now)
        out.datagrams = self.sessions.flush(now)
        return out
