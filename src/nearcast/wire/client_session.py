"""A client and its home: connects, publishes, subscribes, reports, follows redirections.

Calls change the state; `poll` returns what follows from it: datagrams to send and events. Call it
after every other call and at `next_wakeup`. Publications and subscriptions outlive sessions: after
a loss of connection, a restart of the server or a redirection they are sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from nearcast.errors import WireError
from nearcast.trust.revoked_servers import SignedPage
from nearcast.wire.actions import (
    ClientEvent,
    Connected,
    Disconnected,
    EchoReturned,
    Home,
    SendDatagram,
)
from nearcast.wire.client_connection import ClientConnection
from nearcast.wire.client_context import ClientContext
from nearcast.wire.client_hearing import ClientHearing
from nearcast.wire.client_link import ClientLink
from nearcast.wire.client_trust import ClientTrust
from nearcast.wire.client_visits import ClientVisits
from nearcast.wire.codec import Refused, decode_for_client, encode
from nearcast.wire.cursors import SavedCursors
from nearcast.wire.echoes import Echoes
from nearcast.wire.framing import Kind, check_fits, read_header
from nearcast.wire.group_hearing import GroupHearing
from nearcast.wire.group_messages import GroupKey
from nearcast.wire.messages import (
    Close,
    CloseReason,
    Confirm,
    Echo,
    Gap,
    Heartbeat,
    Message,
    Prove,
    Redirect,
    Report,
    Revoked,
    Route,
    Way,
)
from nearcast.wire.server_check import ServerCheck
from nearcast.wire.settings import RandomBytes, WireSettings
from nearcast.wire.terms import NO_TERMS, Terms
from nearcast.wire.ways import Ways

__all__ = ["ClientSession"]

_AT_ONCE = float("-inf")


class ClientSession:
    """One client.

    Parameters
    ----------
    static_key
        Its X25519 private key.
    credential
        What the site's authority signed about it; shown to each server.
    client
        Its id: a longer one leaves less room for payloads.
    servers
        Other ways into its site; its home tells it more.
    cursors
        Where an earlier client was: notifications since then are asked for.
    authority
        The public key of the site's authority: other servers that the home names need a credential
        of it. Without one the home is believed.
    revoked
        What an earlier client knew of servers that no longer count.
    """

    def __init__(
        self,
        static_key: bytes,
        home: Home,
        random_bytes: RandomBytes,
        settings: WireSettings | None = None,
        credential: bytes = b"",
        client: str = "",
        servers: Sequence[Home] = (),
        cursors: SavedCursors | None = None,
        authority: bytes = b"",
        revoked: Iterable[SignedPage] = (),
    ) -> None:
        self._settings = settings or WireSettings()
        check, made = ServerCheck(authority, revoked), self._settings
        self._context = ClientContext(static_key, random_bytes, made, credential, client, check)
        self.drops, self.site_clock = self._context.drops, self._context.site_clock
        """What was refused or not sent, by reason; how far the site's time is ahead."""
        self._ways = Ways((*servers, home), check.is_revoked)
        self._home = ClientConnection(self._context, home, ways=self._ways)
        self._visits = ClientVisits(self._context, self._home)
        self._trust = ClientTrust(self._context, self._ways, self._home, self._visits)
        self._hearing = ClientHearing(self._context, cursors)
        self.group = GroupHearing(self._context, self._hearing.hear)
        """What is heard in the multicast group of the home."""
        self._echoes = Echoes()
        self._due = _AT_ONCE
        """Nothing has to be done before; notifications leave it as it is but for their receipt."""
        self._has_published = False
        """Whether something may be due earlier, because of a publication since the last poll."""

    @property
    def home(self) -> Home:
        """The home that the client has or wants."""
        return self._home.server

    @property
    def servers(self) -> tuple[Home, ...]:
        """Other ways into the site, as far as the client knows."""
        return tuple(server for server in self._ways.servers if server != self.home)

    @property
    def revoked(self) -> tuple[SignedPage, ...]:
        """What it knows of servers that no longer count, for a later client."""
        return self._context.servers.revoked

    @property
    def is_connected(self) -> bool:
        """Whether there is a session."""
        return self._home.link is not None

    @property
    def epoch(self) -> int:
        """Issued by the first home; it stays as long as this object."""
        return self._context.epochs.issued

    @property
    def unacknowledged(self) -> int:
        """How many durable publications are not known to be safe."""
        return len(self._home.outbox) + len(self._visits)

    @property
    def cursors(self) -> SavedCursors:
        """How far this client has heard what it subscribes to, for a later one to go on."""
        return structs.replace(self._hearing.cursors.saved, revoked=self.revoked)

    # Calls of the application

    def connect(self, now: float, home: Home | None = None) -> None:
        """Open a session with the home, or with a new one; a session at hand stays until then."""
        self._home.connect(now, home)
        self._trust.leave_revoked(now)
        self._due = _AT_ONCE

    def report(self, report: Report) -> None:
        """Set what the next reports say; they go out at the server's interval."""
        encode(report)
        self._context.report = report

    def moved(self, now: float) -> None:
        """Report at once: the client's address changed, and its server does not know yet."""
        for connection in (self._home, *self._visits.connections()):
            if connection.link is not None:
                connection.link.report_due = now
                self._due = _AT_ONCE

    def publish(
        self,
        topic: str,
        payload: bytes,
        now: float,
        *,
        durable: bool = True,
        position: tuple[float, float] | None = None,
        envelope: bytes = b"",
        urgent: bool = False,
    ) -> int:
        """Publish; return the sequence. WireError when it is too large or too many are waiting.

        Durable publications arrive in order and are repeated until an Acknowledged event covers
        them. The others are sent once, and not at all without a session.
        """
        self._has_published = True
        published_us = self._context.site_clock.there_us(now)
        connection = self._visits.connection_of(topic)
        if not durable:
            self._due = _AT_ONCE
        elif (waiting := self.unacknowledged) >= self._settings.publish_limit:
            problem = f"{waiting} publications wait for their acknowledgement; publish later"
            raise WireError(problem)
        send = connection.outbox.add if durable else connection.publish_once
        return send(topic, payload, position, published_us, envelope, urgent=urgent)

    def subscribe(self, topic: str, terms: Terms = NO_TERMS) -> None:
        """Ask for the notifications of a topic, in this session and the following ones.

        With terms only for those that these let through; the last ones count.
        """
        self._hearing.want(topic, True, terms)
        self._due = _AT_ONCE

    def unsubscribe(self, topic: str) -> None:
        """Ask for no more notifications of a topic."""
        self._hearing.want(topic, False)
        self._due = _AT_ONCE

    def echo(self, payload: bytes, now: float) -> None:
        """Send a payload that the server returns; sent once, not at all without a session."""
        check_fits(len(encode(Echo(payload, answer=True))), self._settings.datagram_limit)
        if self._home.link is None:
            self.drops["not_connected"] += 1
            return
        self._home.frames.append(encode(Echo(payload)))
        self._echoes.sent(payload, now)
        self._due = _AT_ONCE

    def close(self) -> None:
        """End the session and all attempts; unacknowledged publications stay here."""
        self._hearing.order.release_all()
        self.group.restart()
        self._visits.close(CloseReason.DONE)
        self._home.say_close(CloseReason.DONE)
        self._home.abandon()
        self._trust.stop()

    def abandon(self) -> None:
        """Forget the session without a word: somebody else has it."""
        self._visits.close(None)
        self._home.abandon()
        self._trust.stop()
        self._context.outgoing.clear()

    # Datagrams in

    def receive(self, datagrams: Iterable[bytes], now: float) -> None:
        """Take datagrams of the server."""
        for data in datagrams:
            try:
                if len(data) > self._settings.datagram_limit:
                    raise Refused("too_long")
                link = self._home.link
                if link is not None and data.startswith(link.header):
                    self._on_sealed(self._home, link, data, now)
                else:
                    self._on_other(data, now)
            except Refused as refusal:
                self.drops[refusal.reason] += 1

    def _on_other(self, data: bytes, now: float) -> None:
        header, home, visits = read_header(data), self._home, self._visits
        if header.kind is Kind.GROUP:
            self.group.receive(header.receiver, data, now)
            self._due = min(self._due, self.group.due)
            return
        self._due = _AT_ONCE
        if header.kind is Kind.UNKNOWN:
            if not any(one.on_unknown(data, now) for one in (home, *visits.connections())):
                raise Refused("unknown_forged")
        elif header.kind is Kind.SEALED:
            for one in visits.connections():
                if one.link is not None and data.startswith(one.link.header):
                    self._on_sealed(one, one.link, data, now)
                    return
            raise Refused("unknown_session")
        elif self._trust.waits_for(header):
            self._trust.on_handshake(header, data, now)
        elif not home.waits_for(header):
            visits.on_handshake(header, data, now)
        elif home.on_handshake(header, data, now):
            visits.on_home()
            self._trust.on_home(now)
            self._hearing.restart()
            self.group.restart()
            self._context.events.append(Connected(self.home, self.epoch))

    def _on_sealed(
        self, connection: ClientConnection, link: ClientLink, data: bytes, now: float
    ) -> None:
        has_notifications, hearing = False, self._hearing
        inbox, cursors, order = hearing.inbox, hearing.cursors, hearing.order
        arrived_us = self._context.site_clock.there_us(now)
        for message in decode_for_client(link.open(data, now)):
            if isinstance(message, tuple):
                has_notifications, hearing.now = True, now
                notification = inbox.accept(message, arrived_us)
                if notification is not None and (
                    not notification.offset or cursors.note(notification, now)
                ):
                    order.put(notification, now)
                continue
            self._due = _AT_ONCE
            try:
                if isinstance(message, Revoked):
                    self._trust.on_revoked(message, now)
                elif connection is self._home:
                    self._on_message(message, now)
                else:
                    self._visits.on_message(connection, message, now)
            except Refused as refusal:
                self.drops[refusal.reason] += 1
        if has_notifications:
            link.note_notifications(now)
            self._due = min(self._due, link.receipt_due)

    def _on_message(self, message: Message, now: float) -> None:
        match message:
            case Confirm():
                self._hearing.on_confirm(message)
            case Gap():
                self._hearing.on_gap(message)
            case GroupKey():
                self.group.on_key(message, now)
            case Heartbeat(token=b"", answer=False, lost=False):
                self._home.hear_time(message.time_us, now)
                # one that was overtaken says nothing of what overtook it
                if self._home.link is not None and self._home.link.is_newest:
                    self._hearing.cursors.on_settled(message.unsettled_ms / 1000, now)
            case Heartbeat(token=b"", answer=False):
                if self._home.handshake is None:
                    self.connect(now)  # in a new session it can be asked for
            case Echo(payload=payload, answer=True):
                round_trip_s = self._echoes.returned(payload, now)
                if round_trip_s is None:
                    raise Refused("unexpected_message")
                self._context.events.append(EchoReturned(payload, round_trip_s))
            case Way():
                server = self._context.servers.server(message, now)
                if not self._ways.learn(message, server):
                    raise Refused("unusable_way")
                self._trust.note_credential(server)
            case Prove():
                proof = self._context.prover.answer(message, self.home.server_key, now)
                self._home.frames.append(encode(proof))
            case Route():
                self._visits.follow(message, now)
            case Redirect():
                home, handshake = self._context.servers.server(message, now), self._home.handshake
                if home not in (self.home, handshake and handshake.home):
                    self.connect(now, home)
            case Close():
                self._on_close(message.reason, now)
            case _:
                self._home.on_message(message, now)

    def _on_close(self, number: int, now: float) -> None:
        known = CloseReason.__members__.values()
        reason = CloseReason(number) if number in known else CloseReason.STOPPED
        self._home.link = None
        self._context.events.append(Disconnected(self.home, reason))
        self.group.restart()
        if reason is CloseReason.REVOKED:
            self._home.handshake = None
            self._visits.close(CloseReason.DONE)
        elif self._home.handshake is None:
            self.connect(now)

    # Time and datagrams out

    def send_publications(self, now: float) -> list[SendDatagram]:
        """Return what was published since the last poll, which does all else that is due."""
        if self._home.outbox.has_fresh:
            self._home.send(now, [])
        return self._context.take_outgoing()

    def poll(self, now: float) -> list[SendDatagram | ClientEvent]:
        """Return all that follows from the last calls and from the time."""
        context, home = self._context, self._home
        if self._has_published:
            self._has_published, self._due = False, min(self._due, self._next_due())
        if now >= self._due:
            if home.watch(now):
                context.events.append(Disconnected(self.home, CloseReason.SILENT))
            home.try_handshakes(now)
            if home.link is not None:
                is_report_due = home.link.report_due <= now
                home.frames += self.group.take_receipt(now, travels_along=is_report_due)
                home.send(now, self._hearing.requests(now))
            self._visits.poll(now)
            self._trust.poll(now)
            self._hearing.cursors.expire(now)
            self._due = self._next_due()
        self._hearing.release(now)
        events, context.events = context.events, []
        return [*context.take_outgoing(), *events]

    def next_wakeup(self) -> float:
        """Return when to poll again at the latest; infinity when only datagrams matter."""
        context, hearing = self._context, self._hearing
        if self._has_published or context.outgoing or context.events or hearing.cursors.released:
            return _AT_ONCE
        return min(self._due, hearing.order.due)

    def _next_due(self) -> float:
        due = min(self._home.next_due(), self._visits.next_due(), self._trust.next_due())
        if self._home.link is None:
            return due
        return min(due, self._hearing.next_due(), self.group.due)
