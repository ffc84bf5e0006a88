"""All sessions of an edge server: datagrams in, events up; orders down, datagrams out.

A pass of the server is: `receive` a batch, handle the events, give orders (`acknowledge`,
`notify`, ...), `flush`. What one pass has for one client shares its datagrams. Nothing that a
client sends raises an exception: what is not acceptable is counted in `drops` by its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nearcast.errors import WireError
from nearcast.wire.actions import (
    Deliver,
    Home,
    SendDatagram,
    ServerEvent,
    SessionClosed,
    SessionOpened,
)
from nearcast.wire.codec import Refused, decode, encode
from nearcast.wire.doorkeeper import Authorise, CookieNeeded, Doorkeeper
from nearcast.wire.framing import Kind, read_header
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
    Publish,
    Published,
    Received,
    Redirect,
    Report,
    Subscribe,
    Unsubscribe,
)
from nearcast.wire.server_session import ServerSession
from nearcast.wire.session_table import SessionTable
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["ServerSessions"]


class ServerSessions:
    """The sessions of one server.

    Parameters
    ----------
    static_key
        The server's X25519 private key.
    authorise
        Returns the id of the client enrolled with a static public key, or None.
    random_bytes
        Source of keys, session indices and tokens: unpredictable in life, seeded in simulations.
    """

    def __init__(
        self,
        static_key: bytes,
        authorise: Authorise,
        random_bytes: RandomBytes,
        settings: WireSettings | None = None,
    ) -> None:
        self._settings = settings or WireSettings()
        self._random_bytes = random_bytes
        self.door = Doorkeeper(static_key, authorise, random_bytes, self._settings)
        self.drops: Counter[str] = Counter()
        """What was refused, by reason."""
        self._table = SessionTable(self._settings)
        self._dirty: dict[int, ServerSession] = {}
        """Sessions with something to send, in the order in which it came up."""
        self._outgoing: list[SendDatagram] = []
        self._events: list[ServerEvent] = []
        self._next_resend = float("inf")

    def __len__(self) -> int:
        return len(self._table.by_index)

    @property
    def clients(self) -> Sequence[str]:
        """Clients with a session, in the order in which they came."""
        return tuple(self._table.by_client)

    def address_of(self, client: str) -> Address | None:
        """Return where a client has proved to receive."""
        session = self._table.by_client.get(client)
        return session.address if session else None

    # Datagrams in

    def receive(self, datagrams: Iterable[tuple[bytes, Address]], now: float) -> list[ServerEvent]:
        """Take a batch of datagrams with their senders; return what to handle."""
        touched: dict[int, ServerSession] = {}
        for data, address in datagrams:
            try:
                if len(data) > self._settings.datagram_limit:
                    raise Refused("too_long")
                header = read_header(data)
                if header.kind is Kind.SEALED:
                    session = self._table.by_index.get(header.receiver)
                    if session is None:
                        raise Refused("unknown_session")
                    self._on_sealed(session, data, address, now)
                    touched[session.index] = session
                elif header.kind is Kind.INIT:
                    self._on_init(data, address, now)
                else:
                    raise Refused("unexpected_kind")
            except Refused as refusal:
                self.drops[refusal.reason] += 1
        for session in touched.values():
            if session.index in self._table.by_index:
                for nack in session.streams.gaps(now):
                    self._queue(session, nack)
        return self.take_events()

    def _on_init(self, data: bytes, address: Address, now: float) -> None:
        try:
            admission = self.door.admit(data, address, now)
        except CookieNeeded as needed:
            self._outgoing.append(SendDatagram(address, needed.reply))
            raise
        if not self._table.make_room(admission.client):
            raise Refused("sessions_full")
        index = self._table.new_index(self._random_bytes)
        channel, reply = self.door.welcome(admission, index, now)
        assert len(reply) <= len(data)  # the address is not proved
        self._outgoing.append(SendDatagram(address, reply))
        self._table.add(
            ServerSession(
                admission.client, index, channel, address, admission.init, now, self._settings
            )
        )

    def _on_sealed(self, session: ServerSession, data: bytes, address: Address, now: float) -> None:
        messages = decode(session.channel.open(data))
        if not session.is_confirmed:
            self._confirm(session, address)
        question = session.heard_from(address, len(data), self._random_bytes, now)
        if question is not None:
            self._outgoing.append(question)
        for message, _ in messages:
            if session.index not in self._table.by_index:
                return  # closed by the message before
            try:
                self._on_message(session, message, address, now)
            except Refused as refusal:
                self.drops[refusal.reason] += 1

    def _confirm(self, session: ServerSession, address: Address) -> None:
        """Put a new session in the place of the client's last one."""
        old = self._table.confirm(session)
        if old is not None:
            self._dirty.pop(old.index, None)
            for frame in old.unconfirmed():
                session.queue(frame)
            self._dirty[session.index] = session
        self._events.append(SessionOpened(session.client, session.init, address))

    def _on_message(
        self, session: ServerSession, message: Message, address: Address, now: float
    ) -> None:
        match message:
            case Publish(durable=True):
                ready, again = session.streams.accept(message)
                self._events.extend(Deliver(session.client, item, now) for item in ready)
                if again is not None:
                    session.queue_acknowledgement(again)
                    self._dirty[session.index] = session
            case Publish() | Subscribe() | Unsubscribe():
                self._events.append(Deliver(session.client, message, now))
            case Report():
                self._events.append(Deliver(session.client, message, now))
                self._queue(session, session.redirect or Heartbeat())
            case Received():
                session.on_received(message)
            case Heartbeat(answer=True):
                session.on_answer(address, message.token)
                self._dirty[session.index] = session  # what waited for a proved address
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

    def acknowledge(self, client: str, topic: str, epoch: int, up_to: int) -> None:
        """Tell a publisher what is safe: only after the sync."""
        session = self._table.by_client.get(client)
        if session is not None:
            session.streams.acknowledge(topic, epoch, up_to)
            session.queue_acknowledgement(Published(topic, epoch, up_to))
            self._dirty[session.index] = session

    def nack(self, client: str, topic: str, epoch: int, expected: int) -> None:
        """Ask for publications again, from `expected` on."""
        session = self._table.by_client.get(client)
        if session is not None:
            missing = session.streams.rewind(topic, epoch, expected)
            self._queue(session, Nack(topic, epoch, expected, missing))

    def busy(self, client: str, retry_after_s: float, refused: Publish | None = None) -> None:
        """Ask a publisher to wait: with one topic when a publication was refused, else with all.

        The refused publication and those after it count as not delivered.
        """
        session = self._table.by_client.get(client)
        if session is not None:
            if refused is not None:
                session.streams.rewind(refused.topic, refused.epoch, refused.sequence)
            topic = refused.topic if refused is not None else ""
            self._queue(session, Busy(topic, round(retry_after_s * 1000)))

    def confirm(self, client: str, request: int, accepted: bool, reason: str = "") -> None:
        """Answer a Subscribe or Unsubscribe."""
        session = self._table.by_client.get(client)
        if session is not None:
            self._queue(session, Confirm(request, accepted, reason))

    def notify(self, client: str, notifications: Iterable[Notify | bytes]) -> bool:
        """Send notifications until the client confirms them; False when it has no session.

        A notification for many clients is encoded once by `codec.encode` and passed as bytes.
        WireError says that one is too large for a datagram; none of them is sent then.
        """
        session = self._table.by_client.get(client)
        if session is None:
            return False
        frames = [item if isinstance(item, bytes) else encode(item) for item in notifications]
        for frame in frames:
            if len(frame) > session.room:
                raise WireError(
                    f"a notification of {len(frame)} bytes exceeds the limit of {session.room}"
                )
        for frame in frames:
            session.queue(frame)
        self._dirty[session.index] = session
        return True

    def redirect(self, client: str, home: Home) -> None:
        """Send a client to another home, until it has gone."""
        session = self._table.by_client.get(client)
        if session is not None:
            host, port = home.address
            session.redirect = Redirect(host, port, home.server_key)
            self._queue(session, session.redirect)

    def close(self, client: str, reason: CloseReason, now: float) -> None:
        """End a client's session, which the next events tell; revoked clients stay away."""
        session = self._table.by_client.get(client)
        if session is not None:
            self._queue(session, Close(reason))
            self._outgoing.extend(session.flush(now))
            self._end(session, reason)

    # Time and datagrams out

    def prune(self, now: float) -> list[ServerEvent]:
        """End the sessions that missed their reports; return which."""
        for session in self._table.silent(now):
            self._end(session, CloseReason.SILENT)
        return self.take_events()

    def flush(self, now: float) -> list[SendDatagram]:
        """Return all datagrams to send: what is queued, and notifications due again."""
        sent, self._outgoing = self._outgoing, []
        dirty, self._dirty = self._dirty, {}
        if now >= self._next_resend:
            for session in list(self._table.by_client.values()):
                sent.extend(session.resend(now))
            self._next_resend = min(
                (session.next_resend() for session in self._table.by_client.values()),
                default=float("inf"),
            )
        for session in dirty.values():
            sent.extend(session.flush(now))
            if session.awaits_receipts:
                self._next_resend = min(self._next_resend, now + self._settings.first_retry_s)
            if session.channel.is_worn:
                self.close(session.client, CloseReason.WORN, now)
        sent.extend(self._outgoing)
        self._outgoing = []
        return sent

    def next_wakeup(self) -> float:
        """Return when `flush` may have something to repeat; infinity when nothing waits."""
        return float("-inf") if self._dirty or self._outgoing else self._next_resend

    def _queue(self, session: ServerSession, message: Message) -> None:
        frame = encode(message)
        if len(frame) > session.room:
            self.drops["answer_too_large"] += 1
            return
        session.queue(frame)
        self._dirty[session.index] = session

    def _end(self, session: ServerSession, reason: CloseReason) -> None:
        self._table.remove(session)
        self._dirty.pop(session.index, None)
        if session.is_confirmed:
            left = tuple(session.unconfirmed())
            self._events.append(SessionClosed(session.client, reason, left))

    def take_events(self) -> list[ServerEvent]:
        """Return events that orders caused: what `close` ended, say."""
        events, self._events = self._events, []
        return events
