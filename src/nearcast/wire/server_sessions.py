"""All sessions of an edge server: datagrams in, events up; orders down, datagrams out.

A pass of the server is: `receive` a batch, handle the events, give orders (`acknowledge`,
`notify`, ...), `flush`. What one pass has for one client shares its datagrams. Nothing that a
client sends raises an exception: what is not acceptable is counted in `drops` by its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from nearcast.errors import WireError
from nearcast.trust.credentials import ClientCredential
from nearcast.wire.actions import Datagram, Deliver, Home, ServerEvent, SessionClosed
from nearcast.wire.clock_difference import ClockDifference
from nearcast.wire.codec import FRAME_LIMIT, Refused, encode
from nearcast.wire.flights import pack_frames
from nearcast.wire.framing import SEALED_OVERHEAD, SESSION_HEADERS, URGENT_HEADER
from nearcast.wire.group_messages import GroupReceived
from nearcast.wire.group_sender import GroupSender
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.handshake_gate import Admit, HandshakeGate
from nearcast.wire.messages import (
    TOKEN_BYTES,
    Busy,
    Close,
    CloseReason,
    Confirm,
    Echo,
    Heartbeat,
    Message,
    Nack,
    Notify,
    Proof,
    Redirect,
    Report,
    Resume,
    Subscribe,
    Unsubscribe,
)
from nearcast.wire.pace import Paces
from nearcast.wire.publication import Publication
from nearcast.wire.server_frames import decode_for_server, split_too_large
from nearcast.wire.server_session import ServerSession
from nearcast.wire.session_index import index_prefix
from nearcast.wire.session_opener import SessionOpener
from nearcast.wire.session_sender import SessionSender
from nearcast.wire.session_table import SessionTable
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["ServerSessions"]


class ServerSessions:
    """The sessions of one server.

    Parameters
    ----------
    static_key
        The server's X25519 private key.
    admit
        Returns the credential of a client that shows it, or raises TrustError.
    random_bytes
        Source of keys, session indices and tokens: unpredictable, in simulations seeded.
    group
        Where many clients are told at once; None: nowhere.
    counts
        Takes what is told there, for metrics.
    """

    def __init__(
        self,
        static_key: bytes,
        admit: Admit,
        random_bytes: RandomBytes,
        settings: WireSettings | None = None,
        group: GroupSettings | None = None,
        counts: Counter[str] | None = None,
    ) -> None:
        self._settings = settings or WireSettings()
        self._random_bytes = random_bytes
        self.handshakes = HandshakeGate(static_key, admit, random_bytes, self._settings)
        self.drops: Counter[str] = Counter()
        """What was refused, by reason."""
        table = self._table = SessionTable(self._settings, index_prefix(static_key))
        self.epoch_of, self.is_meant = table.epoch_of, table.is_meant
        self.address_of, self.heard_at = table.address_of, table.heard_at
        self.is_visitor, self.has_room = table.is_visitor, table.has_room
        self.note_lost = table.note_lost
        self._sender = SessionSender(self._settings)
        self._outgoing, self._mark = self._sender.outgoing, self._sender.mark
        self.unconfirmed = self._sender.unconfirmed
        ways = self._outgoing, self._mark, Counter[str]() if counts is None else counts
        known = self._settings, random_bytes, *ways
        self.group = None if group is None else GroupSender(group, *known)
        self.has_newly_muted = False
        """Whether a client was muted since `muted` was asked."""
        self.paces = Paces(self._settings.session_limit)
        self._opener = SessionOpener(
            self.handshakes, self._table, self.paces, random_bytes, self._settings, self._outgoing
        )
        self._events: list[ServerEvent] = []
        self.unsettled_since, self.site_clock = float("inf"), ClockDifference()
        """Since when clients here miss something; how far the site's time is ahead."""

    def __len__(self) -> int:
        return len(self._table.by_index)

    def __contains__(self, client: str) -> bool:
        return client in self._table.by_client

    @property
    def half_open(self) -> int:
        """Sessions whose client has not shown yet that it received the answer."""
        return len(self._table.by_index) - len(self._table.by_client)

    @property
    def clients(self) -> Sequence[str]:
        """Clients with a session, in the order in which they came."""
        return tuple(self._table.by_client)

    def muted(self, now: float) -> frozenset[int]:
        """Return the indices of sessions that are not heard for a moment: they send far too much."""
        self.has_newly_muted = False
        muted = map(self._table.by_client.get, self.paces.muted(now))
        return frozenset(one.index for one in muted if one is not None)

    # Datagrams in

    def receive(self, datagrams: Iterable[tuple[bytes, Address]], now: float) -> list[ServerEvent]:
        """Take a batch of datagrams with their senders; return what to handle."""
        now_us = int(now * 1e6)
        by_index, limit = self._table.by_index, self._settings.datagram_limit
        for data, address in datagrams:
            try:
                if len(data) > limit:
                    raise Refused("too_long")
                if data[:2] in SESSION_HEADERS:  # nearly all do
                    session = by_index.get(int.from_bytes(data[2:6], "big"))
                    if session is None:
                        self._opener.on_unknown(data, address, now)
                    if now < session.pace.muted_until:  # before all that costs
                        self.drops["muted"] += 1
                        continue
                    self._on_sealed(session, data, address, now, now_us)
                    if data[:2] == URGENT_HEADER:
                        session.pace.spend_urgent(session.credential.rights.classes)
                else:
                    self._opener.on_stranger(data, address, now)
            except Refused as refusal:
                self.drops[refusal.reason] += 1
        events, self._events = self._events, []
        return events

    def _on_sealed(
        self, session: ServerSession, data: bytes, address: Address, now: float, now_us: int
    ) -> None:
        pace = session.pace
        payload = session.channel.open(data)
        if pace.credit < pace.low:
            pace.refill(now)
        if pace.credit < 0.0:
            self.paces.mute(session.client, pace, now)
            self.has_newly_muted = True
            raise Refused("muted")
        try:
            contents = decode_for_server(payload, session.client, now_us)
        except Refused:
            pace.credit -= FRAME_LIMIT  # it may have been read to its last frame
            raise
        pace.credit -= 1 + len(contents)
        if len(data) > session.payload_room:  # one large publication, or several
            contents, refused = split_too_large(contents, session.payload_room)
            self.drops["payload_too_large"] += len(refused)
            for refuse in refused:
                self._queue(session, refuse)
        if session.is_confirmed and address == session.address:
            session.last_heard = now
        else:
            if not session.is_confirmed:
                self._confirm(session, address, now)
            question = session.heard_from(address, len(data), self._random_bytes, now)
            if question is not None:
                self._outgoing.append(question)
        for message in contents:
            if not session.is_open:
                return  # closed by the message before
            if type(message) is Publication:
                self._events.append(message)
                continue
            if type(message) is tuple:
                if session.on_received(*message, now):
                    self._outgoing += session.resend(now)
                if session.frames:
                    self._mark(session)
                continue
            try:
                self._on_message(session, message, address, now)  # type: ignore[arg-type]
            except Refused as refusal:
                self.drops[refusal.reason] += 1

    def _confirm(self, session: ServerSession, address: Address, now: float) -> None:
        """Put a new session in the place of the client's last one."""
        if not session.has_cookie:
            self.handshakes.count_opening(session.credential, now)
        old = self._table.confirm(session)
        if old is not None:
            old.is_open = False
            if old.epoch == session.epoch:
                session.frames += old.unconfirmed()
                self._mark(session)
            if self.group is not None:
                self.group.forget(old, is_revoked=False)
        self._events.append(session.opened(address, old))

    def _on_message(
        self, session: ServerSession, message: Message, address: Address, now: float
    ) -> None:
        match message:
            case Subscribe() | Unsubscribe() | Resume() | Proof():
                self._events.append(Deliver(session.client, message))
            case Report():
                self._events.append(Deliver(session.client, message))
                since, time_us = self.unsettled_since, self.site_clock.there_us(now)
                self._queue(session, session.redirect or session.heartbeat(since, now, time_us))
                if self.group is not None:
                    self.group.offer(session)
            case GroupReceived() if self.group and self.group.on_received(session, message):
                pass
            case Heartbeat(answer=True):
                self._outgoing += session.on_answer(address, message.token, now)
                self._mark(session)  # what waited for a proved address
            case Heartbeat(token=token) if len(token) <= TOKEN_BYTES:
                if token:
                    self._queue(session, Heartbeat(token, answer=True))
            case Echo(answer=False):
                self._queue(session, Echo(message.payload, answer=True))
            case Close():
                moved = message.reason == CloseReason.MOVED
                self._end(session, CloseReason.MOVED if moved else CloseReason.DONE)
            case _:
                raise Refused("unexpected_message")

    # Orders from above. A client without a session is passed over: it has gone.

    def acknowledge(self, client: str, topic: str, epoch: int, up_to: int, level: int = 1) -> None:
        """Tell a publisher what is safe: only after the sync."""
        session = self._table.by_client.get(client)
        if session is not None:
            session.queue_acknowledgement(topic, epoch, up_to, level)
            self._mark(session)

    def tell(self, client: str, message: Message) -> None:
        """Say something to a client, once."""
        session = self._table.by_client.get(client)
        if session is not None:
            self._queue(session, message)

    def nack(self, client: str, topic: str, epoch: int, expected: int, missing: int = 1) -> None:
        """Ask for publications again, from `expected` on."""
        self.tell(client, Nack(topic, epoch, expected, min(missing, 0xFFFFFFFF)))

    def busy(self, client: str, retry_after_s: float, topic: str = "") -> None:
        """Ask a publisher to wait: with one topic, or with all."""
        self.tell(client, Busy(topic, round(retry_after_s * 1000)))

    def confirm(self, client: str, request: int, accepted: bool, reason: str = "") -> None:
        """Answer a Subscribe or Unsubscribe."""
        self.tell(client, Confirm(request, accepted, reason))

    def notify(self, client: str, notifications: Iterable[Notify | bytes]) -> bool:
        """Send notifications until the client confirms them; False when it has no session.

        WireError says that one is too large for a datagram; none of them is sent then.
        """
        session = self._table.by_client.get(client)
        if session is None:
            return False
        frames = [item if isinstance(item, bytes) else encode(item) for item in notifications]
        for frame in frames:
            self.check_notification(frame)
        session.frames += frames
        self._mark(session)
        return True

    def check_notification(self, frame: bytes) -> None:
        """Raise WireError when a notification is too large for a datagram."""
        room = self._settings.datagram_limit - SEALED_OVERHEAD
        if len(frame) > room:
            raise WireError(f"a notification of {len(frame)} bytes exceeds the limit of {room}")

    def notify_urgently(self, clients: Iterable[str], frame: bytes, left_out: str) -> list[str]:
        """Send one before all that is not urgent, else as `notify_all`."""
        some = [client for client in clients if client != left_out]
        return self._sender.notify_urgently(self._table.by_client, some, frame)

    def notify_all(self, clients: Iterable[str], frame: bytes, left_out: str = "") -> list[str]:
        """Send one checked notification to all clients but one; return those without a session."""
        by_client, queued, missing = self._table.by_client, self._sender.queued, []
        for client in clients:
            session = by_client.get(client)
            if client == left_out:
                continue
            if session is None:
                missing.append(client)
            else:
                session.frames.append(frame)
                if not session.is_queued:
                    session.is_queued = True
                    queued.append(session)
        return missing

    def redirect(self, client: str, home: Home | None) -> list[bytes]:
        """Send a client to another home until it has gone, or let it stay; return what it lacks."""
        if (session := self._table.by_client.get(client)) is None:
            return []
        session.redirect = None
        if home is not None:
            session.redirect = Redirect(*home.address, home.server_key, home.credential)
            self._queue(session, session.redirect)
        return session.unconfirmed()

    def close(self, client: str, reason: CloseReason, now: float) -> None:
        """End a client's session, which the next events tell; revoked clients stay away."""
        session = self._table.by_client.get(client)
        if session is not None:
            self._queue(session, Close(reason))
            packets = pack_frames(session.take_frames(now), session.room, now)
            session.send(packets, self._outgoing)
            self._end(session, reason)

    def end_invalid(
        self, reason_of: Callable[[ClientCredential], CloseReason | None], now: float
    ) -> None:
        """End all sessions whose credential no longer counts, half-open ones too.

        Parameters
        ----------
        reason_of
            Returns why a credential does not count; None when it does.
        """
        for session in list(self._table.by_index.values()):
            reason = reason_of(session.credential)
            if reason is not None and session.is_confirmed:
                self.close(session.client, reason, now)
            elif reason is not None:
                self._end(session, reason)
        if self.group is not None:
            self.group.end_invalid(lambda credential: reason_of(credential) is not None)

    # Time and datagrams out

    def prune(self, now: float) -> list[ServerEvent]:
        """End the sessions that missed their reports, or whose keys are too old; return which."""
        for session in self._table.silent(now):
            self._end(session, CloseReason.SILENT)
        for session in self._table.rekey_overdue(now):
            self.close(session.client, CloseReason.REKEY, now)
        return self.take_events()

    def flush(self, now: float) -> list[Datagram]:
        """End a pass: return all datagrams to send, those to the group before the others."""
        if self.group is not None:
            self.group.flush(now)
        return self._sender.flush(now)

    def next_wakeup(self) -> float:
        """Return when `flush` may have something to repeat; infinity when nothing waits."""
        at = self._sender.next_wakeup()
        return at if self.group is None else min(at, self.group.next_wakeup())

    @property
    def notifications_dropped(self) -> int:
        """Unconfirmed notifications that were given up, of sessions past and present."""
        return self._table.notifications_dropped

    def _queue(self, session: ServerSession, message: Message) -> None:
        frame = encode(message)
        if len(frame) > session.room:
            self.drops["answer_too_large"] += 1
            return
        session.queue(frame)
        self._mark(session)

    def _end(self, session: ServerSession, reason: CloseReason) -> None:
        self._table.remove(session)
        session.is_open = False
        self._sender.forget(session)
        if session.is_confirmed:
            left = tuple(session.unconfirmed())
            closed = SessionClosed(session.client, reason, left, session.init.visits, session.epoch)
            self._events.append(closed)
        if self.group is not None:
            self.group.on_end(session, reason)

    def take_events(self) -> list[ServerEvent]:
        """Return events that orders caused: what `close` ended, say."""
        events, self._events = self._events, []
        return events
