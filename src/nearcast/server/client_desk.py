"""The clients of an edge server: sessions, publications, subscriptions, comings and goings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nearcast.broker.messages import Message, encode_message
from nearcast.server.departures import Departures
from nearcast.server.home_clients import HomeClients
from nearcast.server.log_rows import LogAction, PublicationRow
from nearcast.server.mesh_channel import MeshChannels
from nearcast.server.mesh_messages import Forward, Moved, Subscribers, Undelivered, Unsubscribed
from nearcast.server.node import Node
from nearcast.server.node_settings import NodeSettings
from nearcast.server.subscriber_news import News, SubscriberNews
from nearcast.spool.changes import LiveTopic
from nearcast.wire.actions import Deliver, Home, ServerEvent, SessionClosed, SessionOpened
from nearcast.wire.messages import CloseReason, Init, Publish, Report, Subscribe, Unsubscribe
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.settings import RandomBytes, WireSettings

__all__ = ["ClientDesk", "EdgeSettings"]


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """What an edge server has besides a node."""

    queue_patience_s: float = 0.1
    """A queue that is gone after so long was a hiccup: to turn publishers away would cost more."""
    queue_age_s: float = 0.05
    """Publishers are told to wait when datagrams have waited longer than this."""
    commit_age_s: float = 1.0
    """The same for groups that wait to be written."""
    prune_interval_s: float = 1.0
    least_move_km: float = 0.001
    """Brokers are told of a subscriber's place when it moved further."""
    grace_s: float = 3.0
    """How long a client may take from one home or session to the next."""


class ClientDesk(Node):
    """A node with clients of its own.

    Parameters
    ----------
    static_key
        Its X25519 private key.
    random_bytes
        Source of keys and session indices.
    """

    def __init__(
        self,
        settings: NodeSettings,
        channels: MeshChannels,
        clock: Callable[[], float],
        static_key: bytes,
        random_bytes: RandomBytes,
        recovered: Mapping[str, LiveTopic] | None = None,
        wire: WireSettings | None = None,
        edge: EdgeSettings | None = None,
    ) -> None:
        super().__init__(settings, channels, clock, recovered)
        self._edge = edge or EdgeSettings()
        self._keys: dict[bytes, str] = {}
        self._homes: dict[str, str] = {}
        self._addresses: dict[str, Home] = {}
        self.sessions = ServerSessions(static_key, self._keys.get, random_bytes, wire)
        self.clients = HomeClients()
        self._news = SubscriberNews(self.clients, self._servers, self.brokers_of)
        self._departures = Departures(self._edge.grace_s)
        self._redirected: dict[str, None] = {}
        """Clients that were told to go elsewhere and are still here."""
        self._next_prune = float("-inf")
        self._queue_since = float("inf")
        """Since when datagrams have waited too long."""
        self.commit_wait_s = 0.0
        """How long the oldest group waits to be written; the shell sets it."""

    def _on_events(
        self, events: Sequence[ServerEvent], now: float, *, overloaded: bool = False
    ) -> None:
        published: list[tuple[str, Publish, float]] = []
        for event in events:
            match event:
                case Deliver(client, Publish() as publish, received_s):
                    if overloaded and publish.durable:
                        self.counts["busy"] += 1
                        self.sessions.busy(client, self.settings.retry_after_s, publish)
                    else:
                        published.append((client, publish, received_s))
                case Deliver(client, Report() as report, received_s):
                    self._on_report(client, report, received_s)
                case Deliver(client, Subscribe(request, topic), received_s):
                    self.clients.subscribe(client, topic)
                    self._log(client, topic, "subscribe", received_s)
                    self._tell(self._news.subscribed(client, topic))
                    self.sessions.confirm(client, request, True)
                case Deliver(client, Unsubscribe(request, topic), received_s):
                    self.clients.unsubscribe(client, topic)
                    self._log(client, topic, "unsubscribe", received_s)
                    self._tell(self._news.unsubscribed(client, [topic]))
                    self.sessions.confirm(client, request, True)
                case SessionOpened(client, init):
                    self._on_opened(client, init, now)
                case SessionClosed():
                    self._on_closed(event, now)
        if published:
            self._on_published(published, now)

    def _on_published(self, published: Sequence[tuple[str, Publish, float]], now: float) -> None:
        """Send each publication to the server that processes it, those for one together."""
        batches: dict[tuple[str, str, bool], tuple[list[Message], list[int]]] = {}
        self.counts["publications"] += len(published)
        own = self.settings.server
        for client, publish, received_s in published:
            message = self._message(client, publish, received_s)
            target = self.targets.target(publish.topic, client)
            key = ("" if target == own else publish.topic, target, publish.durable)
            messages, oldest = batches.setdefault(key, ([], []))
            messages.append(message)
            oldest.append(publish.oldest)
            if target == own:
                self._stream_home.pop((publish.topic, client), None)
        for (topic, target, durable), (messages, oldest) in batches.items():
            if target == own:
                for one in messages:
                    self._ensure_managed(one.topic)
                self.take(messages, oldest, now, durable=durable)
            else:
                self.counts["forwarded_out"] += len(messages)
                records = tuple(map(encode_message, messages))
                self._send(target, Forward(topic, records, tuple(oldest), durable))

    def _message(self, client: str, publish: Publish, received_s: float) -> Message:
        x_km, y_km = (
            (publish.x_km, publish.y_km) if publish.has_position else self.clients.place(client)
        )
        topic, epoch, sequence = publish.topic, publish.epoch, publish.sequence
        self._out.log.append(
            PublicationRow(
                topic,
                client,
                round(received_s * 1e6),
                x_km,
                y_km,
                len(publish.payload),
                "publish",
                sequence,
                epoch,
                publish.durable,
                self.settings.server,
            )
        )
        return Message(
            topic,
            client,
            epoch,
            sequence,
            publish.published_us,
            round(received_s * 1e6),
            x_km,
            y_km,
            publish.payload,
        )

    def _on_report(self, client: str, report: Report, now: float) -> None:
        self.counts["reports"] += 1
        moved_km = self.clients.move(client, report.x_km, report.y_km)
        self._log(client, None, "report", now)
        if moved_km > self._edge.least_move_km:
            self._tell(self._news.moved(client))

    def _on_opened(self, client: str, init: Init, now: float) -> None:
        self.counts["sessions_opened"] += 1
        if client not in self._homes:  # revoked while it connected
            self.sessions.close(client, CloseReason.REVOKED, now)
            self._on_events(self.sessions.take_events(), now)
            return
        self.clients.begin_session(client, now + self._edge.grace_s)
        self._on_report(client, Report(init.x_km, init.y_km), now)
        self.sessions.notify(client, self._departures.arrive(client))
        self._redirect_if_moved(client)

    def _on_closed(self, closed: SessionClosed, now: float) -> None:
        client = closed.client
        self.counts[f"sessions_closed_{closed.reason.name.lower()}"] += 1
        topics = self.clients.forget(client)
        home = self._homes.get(client, self.settings.server)
        if home == self.settings.server and closed.reason is not CloseReason.MOVED:
            self._tell(self._news.unsubscribed(client, topics))
            self.counts["notifications_undelivered"] += len(closed.undelivered)
            return
        self._departures.leave(client, topics, now)
        if closed.undelivered:
            self._pass_on(client, closed.undelivered, now)

    def _pass_on(self, client: str, frames: Sequence[bytes], now: float) -> None:
        """Send what a client may not have to its home, or keep it until the client is here."""
        home = self._homes.get(client)
        if home is not None and home != self.settings.server:
            revision = self.orders.revision if self.orders is not None else 0
            self._send(home, Undelivered(client, tuple(frames), revision))
        elif home is None or not self._departures.keep(client, frames, now):
            self.counts["notifications_undelivered"] += len(frames)

    def _redirect_if_moved(self, client: str) -> None:
        """Send a client to its home; `_repeat_redirects` does so again until it has gone."""
        address = self._addresses.get(self._homes.get(client, ""))
        if self._homes.get(client) == self.settings.server or address is None:
            self._redirected.pop(client, None)
        else:
            self.counts["redirects"] += client not in self._redirected
            self._redirected[client] = None
            self.sessions.redirect(client, address)

    def _repeat_redirects(self) -> None:
        for client in list(self._redirected):
            if self.sessions.address_of(client) is None:
                del self._redirected[client]
            else:
                self._redirect_if_moved(client)

    def _log(self, client: str, topic: str | None, action: LogAction, now: float) -> None:
        x_km, y_km = self.clients.place(client)
        own = self.settings.server
        row = PublicationRow(
            topic, client, round(now * 1e6), x_km, y_km, 0, action, 0, 0, False, own
        )
        self._out.log.append(row)

    # Subscribers of brokers

    def _servers(self) -> Iterable[str]:
        return (self.settings.server, *self._others)

    def _tell(self, news: Iterable[News]) -> None:
        """Tell brokers about subscribers; this server may be one of them."""
        own = self.settings.server
        for server, message in news:
            if server != own:
                self._send(server, message)
            elif isinstance(message, Subscribers):
                self.subscribers.on_subscribers(own, message)
            elif isinstance(message, Unsubscribed):
                self.subscribers.on_unsubscribed(own, message)
            elif isinstance(message, Moved):
                self.subscribers.on_moved(own, message)
