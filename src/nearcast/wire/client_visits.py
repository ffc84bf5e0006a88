"""Servers that process some of a client's topics: it publishes those straight to them.

The home says which (`Route`). A visit is a session besides the one at home, for publications
only. While there is none, or the server does not answer, the topic goes through the home again,
which forwards it: the stream moves from one outbox to the other, and brokers take nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from nearcast.wire.actions import Home
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.client_connection import ClientConnection
from nearcast.wire.client_context import ClientContext
from nearcast.wire.codec import Refused
from nearcast.wire.framing import Header
from nearcast.wire.messages import Close, CloseReason, Message, Route

__all__ = ["ClientVisits"]

_VISIT_LIMIT = 16
"""Most servers visited at a time; what belongs to others goes through the home."""
_TOPIC_LIMIT = 4_096
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0
"""Between two attempts to visit a server that did not answer."""


class _Visit:
    """A server and the topics that are published to it."""

    def __init__(self, context: ClientContext, server: Home, now: float) -> None:
        self.connection = ClientConnection(context, server, visits=True)
        self.connection.connect(now)
        self.topics: dict[str, None] = {}
        self.pause_s = 0.0
        self.retry_at = float("inf")
        """When to try again; only while it is given up."""


class ClientVisits:
    """All visits of a client; `home` has the streams of all other topics."""

    def __init__(self, context: ClientContext, home: ClientConnection) -> None:
        self._context, self._home = context, home
        self._visits: dict[Home, _Visit] = {}
        self._by_topic: dict[str, _Visit] = {}

    def __len__(self) -> int:
        """How many durable publications wait for an acknowledgement there."""
        return sum(len(one.outbox) for one in self.connections())

    def connections(self) -> Iterator[ClientConnection]:
        """Yield the connection of each visit."""
        return (visit.connection for visit in self._visits.values())

    def connection_of(self, topic: str) -> ClientConnection:
        """Return where a topic is published: at its server if the client is there, else at home."""
        visit = self._by_topic.get(topic)
        if visit is None or visit.connection.link is None:
            return self._home
        return visit.connection

    def follow(self, route: Route, now: float) -> None:
        """Publish a topic where the route says, as soon as there is a session."""
        topic = route.topic
        if not route.host:
            self._leave(topic)
            return
        server = self._context.servers.server(route, now)
        visit = self._visits.get(server)
        if server == self._home.server or self._by_topic.get(topic) not in (None, visit):
            self._leave(topic)
        if server == self._home.server or topic in self._by_topic:
            return
        if visit is None:
            if len(self._visits) >= _VISIT_LIMIT:
                raise Refused("too_many_visits")
            visit = self._visits[server] = _Visit(self._context, server, now)
        if len(self._by_topic) >= _TOPIC_LIMIT:
            raise Refused("too_many_routes")
        visit.topics[topic] = None
        self._by_topic[topic] = visit
        if visit.connection.link is not None:
            self._home.outbox.move(topic, visit.connection.outbox)

    def leave_revoked(self) -> None:
        """End visits to servers that were revoked: their topics go through the home."""
        for visit in list(self._visits.values()):
            if self._context.servers.is_revoked(visit.connection.server):
                for topic in list(visit.topics):
                    self._leave(topic)

    def on_home(self) -> None:
        """End a visit to the server that is the home now."""
        visit = self._visits.get(self._home.server)
        for topic in list(visit.topics) if visit is not None else ():
            self._leave(topic)

    def _leave(self, topic: str) -> None:
        """Publish a topic at home again; a visit without topics ends."""
        visit = self._by_topic.pop(topic, None)
        if visit is None:
            return
        connection = visit.connection
        connection.outbox.move(topic, self._home.outbox)
        del visit.topics[topic]
        if not visit.topics:
            if connection.server != self._home.server:
                connection.say_close(CloseReason.DONE)
            del self._visits[connection.server]

    # Datagrams in

    def on_handshake(self, header: Header, data: bytes, now: float) -> None:
        """Take an answer to an INIT; the topics of a visit that stands go along."""
        for visit in self._visits.values():
            if not visit.connection.waits_for(header):
                continue
            if visit.connection.on_handshake(header, data, now):
                visit.pause_s = 0.0
                for topic in visit.topics:
                    self._home.outbox.move(topic, visit.connection.outbox)
            return
        raise Refused("unknown_session")

    def on_message(self, connection: ClientConnection, message: Message, now: float) -> None:
        """Take what a visited server says."""
        match message:
            case Route(topic=topic, host=""):
                self._leave(topic)
            case Close(reason=reason):
                pause_s = 0.0 if reason == CloseReason.REKEY else _FIRST_PAUSE_S
                self._give_up(self._visits[connection.server], now, pause_s)
            case _:
                connection.on_message(message, now)

    # Time and datagrams out

    def poll(self, now: float) -> None:
        """Send what is due, and give up servers that do not answer."""
        for visit in self._visits.values():
            connection = visit.connection
            if now >= visit.retry_at:
                visit.retry_at = float("inf")
                connection.connect(now)
            connection.watch(now)
            connection.try_handshakes(now)
            is_idle = connection.link is None and connection.handshake is None
            if connection.is_lost or (is_idle and visit.retry_at == float("inf")):
                pause_s = next_wait_s(visit.pause_s, _LONGEST_PAUSE_S, _FIRST_PAUSE_S)
                self._give_up(visit, now, pause_s)
            connection.send(now, [])

    def next_due(self) -> float:
        """Return when there is something to do at the latest."""
        return min(
            (min(one.retry_at, one.connection.next_due()) for one in self._visits.values()),
            default=float("inf"),
        )

    def _give_up(self, visit: _Visit, now: float, pause_s: float) -> None:
        """Publish at home what belongs to a server that does not answer, and try it later."""
        connection = visit.connection
        connection.abandon()
        for topic in visit.topics:
            connection.outbox.move(topic, self._home.outbox)
        visit.pause_s = pause_s
        # many clients lose the same server at once
        visit.retry_at = now + pause_s * (1 + self._context.random_bytes(1)[0] / 512)

    def close(self, reason: CloseReason | None) -> None:
        """End all visits, with a word or without; what waits goes back to the home's outbox."""
        for connection in self.connections():
            if reason is not None:
                connection.say_close(reason)
            connection.abandon()
        for topic, visit in self._by_topic.items():
            visit.connection.outbox.move(topic, self._home.outbox)
        self._visits.clear()
        self._by_topic.clear()
