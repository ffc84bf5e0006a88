"""A client and its home: connects, publishes, subscribes, reports, follows redirections.

Calls change the state; `poll` returns what follows from it: datagrams to send and events. Call it
after every other call and at `next_wakeup`. Publications and subscriptions outlive sessions: after
a loss of connection, a restart of the server or a redirection they are sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import structs

from nearcast.errors import WireError
from nearcast.wire.actions import (
    Acknowledged,
    ClientEvent,
    Connected,
    Disconnected,
    EchoReturned,
    Home,
    HomeUnreachable,
    SendDatagram,
)
from nearcast.wire.channel import Channel
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.client_link import ClientLink
from nearcast.wire.codec import (
    Refused,
    decode_for_client,
    encode,
    encode_publish_head,
    encode_publish_tail,
    join_publish,
)
from nearcast.wire.framing import Kind, check_fits, check_publish_fits, read_header
from nearcast.wire.inbox import Inbox
from nearcast.wire.messages import (
    TOKEN_BYTES,
    Acknowledge,
    Busy,
    Close,
    CloseReason,
    Confirm,
    Echo,
    Heartbeat,
    Init,
    Message,
    Nack,
    Published,
    Redirect,
    Report,
    Subscribe,
)
from nearcast.wire.noise import NoiseError
from nearcast.wire.outbox import Outbox
from nearcast.wire.settings import RandomBytes, WireSettings
from nearcast.wire.subscriptions import Subscriptions

__all__ = ["ClientSession"]

_ECHO_LIMIT = 64
_AT_ONCE = float("-inf")


class ClientSession:
    """One client.

    Parameters
    ----------
    static_key
        Its X25519 private key.
    credential
        What the site's authority signed about it; shown to each server.
    """

    def __init__(
        self,
        static_key: bytes,
        home: Home,
        random_bytes: RandomBytes,
        settings: WireSettings | None = None,
        credential: bytes = b"",
    ) -> None:
        self._static_key, self._credential = static_key, credential
        self._random_bytes = random_bytes
        self._settings = settings or WireSettings()
        self.home = home
        """The home that the client has or wants."""
        self.drops: Counter[str] = Counter()
        """What was refused or not sent, by reason."""
        self.epoch = 0
        """Issued by the first home; it stays as long as this object."""
        self._report = Report(0.0, 0.0)
        self._outbox = Outbox(self._settings)
        self._inbox = Inbox()
        self._subscriptions = Subscriptions(self._settings)
        self._handshake: ClientHandshake | None = None
        self._last_init_us = 0
        self._link: ClientLink | None = None
        self._frames: list[bytes] = []
        self._once: Counter[str] = Counter()
        """Fire-and-forget publications so far, by topic."""
        self._echoes: dict[bytes, float] = {}
        self._outgoing: list[SendDatagram] = []
        self._events: list[ClientEvent] = []
        self._due = _AT_ONCE
        """Nothing has to be done before; notifications leave it as it is but for their receipt."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a session."""
        return self._link is not None

    @property
    def unacknowledged(self) -> int:
        """How many durable publications are not known to be safe."""
        return len(self._outbox)

    # Calls of the application

    def connect(self, now: float, home: Home | None = None) -> None:
        """Open a session with the home, or with a new one; a session at hand stays until then."""
        self._handshake = ClientHandshake(
            self._static_key, home or self.home, self._random_bytes, self._settings, now
        )
        self._due = _AT_ONCE

    def report(self, report: Report) -> None:
        """Set what the next reports say; they go out at the server's interval."""
        encode(report)
        self._report = report

    def moved(self, now: float) -> None:
        """Report at once: the client's address changed, and its server does not know yet."""
        if self._link is not None:
            self._link.report_due = now
            self._due = _AT_ONCE

    def publish(
        self,
        topic: str,
        payload: bytes,
        now: float,
        *,
        durable: bool = True,
        position: tuple[float, float] | None = None,
    ) -> int:
        """Publish; return the sequence. WireError when it is too large or too many are waiting.

        Durable publications arrive in order and are repeated until an Acknowledged event covers
        them. The others are sent once, and not at all without a session.
        """
        self._due = _AT_ONCE
        published_us = int(now * 1e6)
        if durable:
            return self._outbox.add(topic, payload, position, published_us)
        sequence = self._once[topic] + 1
        head = encode_publish_head(topic, sequence, payload, position, published_us, durable=False)
        check_publish_fits(head, self._settings.datagram_limit)
        self._once[topic] = sequence
        if self.is_connected:
            self._frames.append(join_publish(head, encode_publish_tail(self.epoch, sequence)))
        else:
            self.drops["not_connected"] += 1
        return sequence

    def subscribe(self, topic: str) -> None:
        """Ask for the notifications of a topic, in this session and the following ones."""
        self._want(topic, True)

    def unsubscribe(self, topic: str) -> None:
        """Ask for no more notifications of a topic."""
        self._want(topic, False)

    def _want(self, topic: str, subscribed: bool) -> None:
        check_fits(len(encode(Subscribe(0, topic))), self._settings.datagram_limit)
        self._subscriptions.want(topic, subscribed)
        self._due = _AT_ONCE

    def echo(self, payload: bytes, now: float) -> None:
        """Send a payload that the server returns; sent once, not at all without a session."""
        check_fits(len(encode(Echo(payload, answer=True))), self._settings.datagram_limit)
        if self._link is None:
            self.drops["not_connected"] += 1
            return
        self._frames.append(encode(Echo(payload)))
        self._due = _AT_ONCE
        self._echoes.pop(payload, None)
        self._echoes[payload] = now
        if len(self._echoes) > _ECHO_LIMIT:
            del self._echoes[next(iter(self._echoes))]

    def close(self) -> None:
        """End the session and all attempts; unacknowledged publications stay here."""
        self._say_close(CloseReason.DONE)
        self._link = self._handshake = None

    # Datagrams in

    def receive(self, datagrams: Iterable[bytes], now: float) -> None:
        """Take datagrams of the server."""
        for data in datagrams:
            try:
                if len(data) > self._settings.datagram_limit:
                    raise Refused("too_long")
                link = self._link
                if link is not None and data.startswith(link.header):
                    self._on_sealed(link, data, now)
                else:
                    self._on_handshake(data, now)
            except Refused as refusal:
                self.drops[refusal.reason] += 1

    def _on_handshake(self, data: bytes, now: float) -> None:
        header = read_header(data)
        handshake = self._handshake
        is_sealed = header.kind is Kind.SEALED  # and of another session
        if handshake is None or header.receiver != handshake.index or is_sealed:
            raise Refused("unknown_session")
        if header.kind is Kind.COOKIE:
            handshake.read_cookie(data, now)
        elif header.kind is Kind.ACKNOWLEDGE:
            self._on_connected(handshake, *handshake.read_acknowledge(data), now)
        else:
            raise Refused("unexpected_kind")
        self._due = _AT_ONCE

    def _on_connected(
        self, handshake: ClientHandshake, channel: Channel, acknowledge: Acknowledge, now: float
    ) -> None:
        if self.home != handshake.home:
            self._say_close(CloseReason.MOVED)
        self._handshake = None
        self.home = handshake.home
        interval_s = acknowledge.report_interval_s
        shift = self._random_bytes(1)[0] / 256
        self._link = ClientLink(
            self.home, channel, handshake.index, interval_s, self._settings, now, shift
        )
        self.epoch = self.epoch or acknowledge.epoch
        self._frames = []
        self._outbox.restart()
        self._subscriptions.restart()
        self._events.append(Connected(self.home, self.epoch))

    def _on_sealed(self, link: ClientLink, data: bytes, now: float) -> None:
        has_notifications = False
        arrived_us = round(now * 1e6)
        for message in decode_for_client(link.open(data, now)):
            if isinstance(message, tuple):
                has_notifications = True
                notification = self._inbox.accept(message, arrived_us)
                if notification is not None:
                    self._events.append(notification)
                continue
            self._due = _AT_ONCE
            try:
                self._on_message(message, now)
            except Refused as refusal:
                self.drops[refusal.reason] += 1
        if has_notifications:
            link.note_notifications(now)
            self._due = min(self._due, link.receipt_due)

    def _on_message(self, message: Message, now: float) -> None:
        match message:
            case Published(topic=topic, epoch=self.epoch, up_to=up_to):
                if self._outbox.acknowledge(topic, up_to, now):
                    self._events.append(Acknowledged(topic, up_to))
            case Nack(topic=topic, epoch=self.epoch):
                self._outbox.send_again(topic, message.expected, message.missing, now)
            case Busy(topic=topic):
                self._outbox.pause(topic, now + message.retry_after_ms / 1000)
            case Confirm():
                confirmed = self._subscriptions.confirm(message)
                if confirmed is not None:
                    self._events.append(confirmed)
            case Heartbeat(token=token, answer=False) if len(token) <= TOKEN_BYTES:
                if token:
                    self._frames.append(encode(Heartbeat(token, answer=True)))
            case Echo(answer=True) if message.payload in self._echoes:
                round_trip_s = now - self._echoes.pop(message.payload)
                self._events.append(EchoReturned(message.payload, round_trip_s))
            case Redirect():
                self._on_redirect(message, now)
            case Close():
                self._on_close(message.reason, now)
            case _:
                raise Refused("unexpected_message")

    def _on_redirect(self, redirect: Redirect, now: float) -> None:
        try:
            home = Home((redirect.host, redirect.port), redirect.server_key)
        except WireError:
            raise Refused("unusable_home") from None
        already = self._handshake is not None and self._handshake.home == home
        if home != self.home and not already:
            self.connect(now, home)

    def _on_close(self, number: int, now: float) -> None:
        known = number in CloseReason.__members__.values()
        reason = CloseReason(number) if known else CloseReason.STOPPED
        self._link = None
        self._events.append(Disconnected(self.home, reason))
        if reason is CloseReason.REVOKED:
            self._handshake = None
        elif self._handshake is None:
            self.connect(now)

    # Time and datagrams out

    def poll(self, now: float) -> list[SendDatagram | ClientEvent]:
        """Return all that follows from the last calls and from the time."""
        if now >= self._due:
            self._watch_link(now)
            self._try_handshake(now)
            if self._link is not None:
                self._outgoing.extend(self._link.seal(self._gather(self._link, now)))
            self._due = self._next_due()
        outgoing, self._outgoing = self._outgoing, []
        events, self._events = self._events, []
        return [*outgoing, *events] if outgoing else [*events]

    def next_wakeup(self) -> float:
        """Return when to poll again at the latest; infinity when only datagrams matter."""
        return _AT_ONCE if self._outgoing or self._events else self._due

    def _next_due(self) -> float:
        handshake_due = self._handshake.due if self._handshake is not None else float("inf")
        if self._link is None:
            return handshake_due
        return min(
            handshake_due,
            self._link.next_due(),
            self._subscriptions.next_due(),
            self._outbox.next_due(),
        )

    def _watch_link(self, now: float) -> None:
        """Replace a session that is silent or whose rekey is due."""
        link = self._link
        if link is None:
            return
        if link.is_silent(now):
            self._link = None
            self._events.append(Disconnected(self.home, CloseReason.SILENT))
        is_suspect = link.take_suspicion(now)  # the server may have restarted
        if self._handshake is None and (self._link is None or link.channel.rekey_due or is_suspect):
            self.connect(now)

    def _try_handshake(self, now: float) -> None:
        handshake = self._handshake
        if handshake is None or now < handshake.due:
            return
        if handshake.tries and handshake.tries % self._settings.handshake_tries == 0:
            self._events.append(HomeUnreachable(handshake.home, handshake.tries))
            if self._link is not None and handshake.home != self.home:
                self._handshake = None  # the present home works: a redirection is repeated
                return
        self._last_init_us = max(self._last_init_us + 1, int(now * 1e6))
        report = self._report
        init = Init(
            self._last_init_us,
            self.epoch,
            report.x_km,
            report.y_km,
            report.direction_deg,
            report.speed_mps,
            self._credential,
        )
        try:
            self._outgoing.append(handshake.write_init(init, now))
        except NoiseError:  # no public key of any server
            self.drops["unusable_home"] += 1
            self._handshake = None

    def _gather(self, link: ClientLink, now: float) -> list[bytes]:
        """Return the frames to send: answers first, then what has become due."""
        frames, self._frames = self._frames, []
        answers = len(frames)
        if link.take_report_turn(now):
            frames.append(encode(structs.replace(self._report, time_us=int(now * 1e6))))
        frames.extend(encode(request) for request in self._subscriptions.due(now))
        frames.extend(self._outbox.frames(now, self.epoch))
        if len(frames) > answers:
            link.note_question(now)
        receipt = link.take_receipt(now, travels_along=bool(frames))
        if receipt is not None:
            frames.append(encode(receipt))
        return frames

    def _say_close(self, reason: CloseReason) -> None:
        if self._link is not None:
            self._outgoing.extend(self._link.seal([encode(Close(reason))]))
