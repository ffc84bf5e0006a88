"""A client's session with one server, the attempts to open it, and what is published in it."""

from __future__ import annotations

from dataclasses import replace

from nearcast.wire.actions import Acknowledged, Home, HomeUnreachable, PublicationRefused
from nearcast.wire.client_context import ClientContext
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.client_link import ClientLink
from nearcast.wire.codec import (
    Refused,
    encode,
    encode_publish_head,
    encode_publish_tail,
    join_publish,
)
from nearcast.wire.framing import PATIENT_HEADER, SEALED_HEADER, URGENT_HEADER, Header, Kind
from nearcast.wire.limits import check_payload, content_bytes
from nearcast.wire.messages import (
    TOKEN_BYTES,
    Busy,
    Close,
    CloseReason,
    Heartbeat,
    Message,
    Nack,
    Published,
    Refuse,
    RefuseReason,
)
from nearcast.wire.noise import NoiseError
from nearcast.wire.outbox import Outbox
from nearcast.wire.ways import Ways

__all__ = ["ClientConnection"]

_UNKNOWN_PAUSE_S = 1.0
"""Least time between two handshakes because a server does not know the session: a repeated or
forged answer costs no more than that."""
_VISIT_ANSWERS_S = 2.0
"""As `answer_within_s`, where the home can stand in."""
_PROBE = encode(Heartbeat(b"there?"))


class ClientConnection:
    """One server, as long as the client wants it; sessions come and go.

    Parameters
    ----------
    visits
        Whether the client only publishes there.
    ways
        Other servers that do as well when this one is gone.
    """

    def __init__(
        self,
        context: ClientContext,
        server: Home,
        *,
        visits: bool = False,
        ways: Ways | None = None,
    ) -> None:
        self._context, self._visits, self._ways = context, visits, ways or Ways()
        self._settings = context.settings
        if visits:
            self._settings = replace(self._settings, answer_within_s=_VISIT_ANSWERS_S)
        self.server = server
        """The server that the client has or wants."""
        self.link: ClientLink | None = None
        """The session, if there is one."""
        self.handshake: ClientHandshake | None = None
        """The attempt to open one, or a better one."""
        self._detour: ClientHandshake | None = None
        """The attempt to open one with another server, while this one does not answer."""
        self.is_lost = False
        """Whether the server of the session has fallen silent."""
        self.outbox = Outbox(context.settings, context.epochs, context.client)
        self.frames: list[bytes] = []
        """What goes out with the next datagram."""
        self.urgent_frames: list[bytes] = []
        """The same in datagrams that are marked as urgent."""
        self._unknown_at = float("-inf")
        """When the server last said that it does not know the session."""

    def connect(self, now: float, server: Home | None = None) -> None:
        """Open a session, or one with another server; a session at hand stays until then."""
        self.handshake, self._detour = self._begin(server or self.server, now), None
        self._ways.begin()

    def _begin(self, server: Home, now: float) -> ClientHandshake:
        context = self._context
        return ClientHandshake(
            context.static_key, server, context.random_bytes, context.settings, now
        )

    def leave(self, now: float) -> None:
        """Go to another server at once: this one no longer counts."""
        self.say_close(CloseReason.MOVED)
        self.abandon()
        context, left = self._context, self.server
        others = [one for one in self._ways.servers if one != left]
        if not others:
            context.events.append(HomeUnreachable(left, 0))
            return
        counting = (one for one in others if context.servers.counts(one, now))
        self.server, self.is_lost = next(counting, others[0]), True
        self.connect(now)

    def forget_revoked(self) -> None:
        """End attempts to open a session with a server that was revoked."""
        is_revoked = self._context.servers.is_revoked
        if self.handshake is not None and is_revoked(self.handshake.home):
            self.handshake = None
        if self._detour is not None and is_revoked(self._detour.home):
            self._detour = None

    def publish_once(
        self,
        topic: str,
        payload: bytes,
        position: tuple[float, float] | None,
        published_us: int,
        envelope: bytes,
        *,
        urgent: bool,
    ) -> int:
        """Send a publication that nobody repeats, if there is a session; return its sequence."""
        context = self._context
        sequence = context.once[topic] + 1
        head = encode_publish_head(
            topic, sequence, payload, position, published_us, durable=False, envelope=envelope
        )
        size = content_bytes(payload, envelope)
        check_payload(topic, size, context.client, context.settings.datagram_limit)
        context.once[topic] = sequence
        if self.link is None:
            context.drops["not_connected"] += 1
            return sequence
        tail = encode_publish_tail(context.epochs.of(topic), sequence)
        (self.urgent_frames if urgent else self.frames).append(join_publish(head, tail))
        return sequence

    def say_close(self, reason: CloseReason) -> None:
        """Tell the server that the session ends."""
        if self.link is not None:
            self._context.outgoing.extend(self.link.seal([encode(Close(reason))]))

    def abandon(self) -> None:
        """Forget the session and all attempts, without a word."""
        self.link = self.handshake = self._detour = None
        self.is_lost = False

    # Datagrams in

    def waits_for(self, header: Header) -> bool:
        """Tell whether a datagram answers an INIT of this connection."""
        attempts = (self.handshake, self._detour)
        return any(one is not None and one.index == header.receiver for one in attempts)

    def on_handshake(self, header: Header, data: bytes, now: float) -> bool:
        """Take an answer to an INIT; tell whether there is a new session now."""
        handshake = self._attempt(header.receiver)
        if header.kind is Kind.COOKIE:
            handshake.read_cookie(data, now)
            return False
        if header.kind is not Kind.ACKNOWLEDGE:
            raise Refused("unexpected_kind")
        context = self._context
        channel, acknowledge = handshake.read_acknowledge(data)
        if self.server != handshake.home:
            self.say_close(CloseReason.MOVED)
        self.handshake = self._detour = None
        self.server, self.is_lost = handshake.home, False
        self.link = ClientLink(
            self.server,
            channel,
            handshake.index,
            acknowledge.report_interval_s,
            self._settings,
            now,
            context.random_bytes(1)[0] / 256,
        )
        context.epochs.issued = context.epochs.issued or acknowledge.epoch
        self.frames, self.urgent_frames = [], []
        self.outbox.restart()
        return True

    def hear_time(self, time_us: int, now: float) -> None:
        """Learn the site's time from the answer to a report."""
        asked_at = self.link.take_answered() if self.link is not None else None
        if asked_at is not None and time_us:
            self._context.site_clock.learn(asked_at, time_us / 1e6, now)

    def _attempt(self, index: int) -> ClientHandshake:
        for attempt in (self.handshake, self._detour):
            if attempt is not None and attempt.index == index:
                return attempt
        raise Refused("unknown_session")

    def on_unknown(self, data: bytes, now: float) -> bool:
        """Connect again when the server does not know the session: it has restarted, say.

        The session stays until then. Returns whether the datagram answers one of this session.
        """
        if self.link is None or not self.link.has_sent(data):
            return False
        if self.handshake is None and now - self._unknown_at >= _UNKNOWN_PAUSE_S:
            self._unknown_at = now
            self.connect(now)
        return True

    def on_message(self, message: Message, now: float) -> None:
        """Take what any server says of publications; Refused for the rest."""
        events = self._context.events
        match message:
            case Published(topic=topic, epoch=epoch, up_to=up_to, level=level):
                if self.outbox.acknowledge(topic, epoch, up_to, now):
                    events.append(Acknowledged(topic, up_to, max(1, level)))
            case Nack(topic=topic, epoch=epoch):
                self.outbox.send_again(topic, epoch, message.expected, message.missing, now)
            case Busy(topic=topic):
                part = self._context.random_bytes(1)[0] / 256
                self.outbox.pause(topic, now, message.retry_after_ms / 1000, part)
            case Refuse():
                self._on_refuse(message)
            case Heartbeat(token=token) if len(token) <= TOKEN_BYTES:
                if token and not message.answer:
                    self.frames.append(encode(Heartbeat(token, answer=True)))
            case _:
                raise Refused("unexpected_message")

    def _on_refuse(self, refuse: Refuse) -> None:
        topic, known = refuse.topic, refuse.reason in RefuseReason.__members__.values()
        reason = RefuseReason(refuse.reason) if known else RefuseReason.OTHER
        if reason is RefuseReason.STALE_EPOCH:
            step = 1 + int.from_bytes(self._context.random_bytes(3), "big")
            if self._context.epochs.raise_above(topic, refuse.epoch, step):
                self.outbox.restart_topic(topic)
        elif not refuse.durable or self.outbox.give_up(topic, refuse.sequence):
            event = PublicationRefused(topic, refuse.sequence, refuse.durable, reason)
            self._context.events.append(event)

    # Time and datagrams out

    def watch(self, now: float) -> bool:
        """Replace a session that is silent or whose rekey is due; tell whether it was lost."""
        link = self.link
        if link is None:
            return False
        if link.is_silent(now):
            self.link = None
        is_suspect = link.take_suspicion(now)  # the server may have restarted
        self.is_lost |= self.link is None or is_suspect
        is_due = self.link is None or link.is_rekey_due(now) or is_suspect
        if self.handshake is None and is_due:
            self.connect(now)
        return self.link is None

    def try_handshakes(self, now: float) -> None:
        """Send the INITs that are due."""
        handshake, context = self.handshake, self._context
        if handshake is None:
            return
        if now >= handshake.due:
            if handshake.tries and handshake.tries % context.settings.handshake_tries == 0:
                if self._visits:
                    self.handshake = None
                    return
                context.events.append(HomeUnreachable(handshake.home, handshake.tries))
                if self.link is not None and handshake.home != self.server:
                    self.handshake = None  # the present home works: a redirection is repeated
                    return
            self._send_init(handshake, now)
        detour = self._detour
        if detour is None or (now >= detour.due and detour.tries >= self._ways.patience):
            detour = self._detour = self._next_detour(handshake, now)
        if detour is not None and now >= detour.due:
            self._send_init(detour, now)

    def _next_detour(self, handshake: ClientHandshake, now: float) -> ClientHandshake | None:
        """Try another server, once the wanted one has had its time."""
        settings = self._context.settings
        patience = settings.lost_home_tries if self.is_lost else settings.handshake_tries
        is_heard = self.link is not None and self.link.last_heard >= handshake.began
        if handshake.tries < patience or is_heard or handshake.home != self.server:
            return None
        server = self._ways.next(self.server)
        return self._begin(server, now) if server is not None else None

    def _send_init(self, handshake: ClientHandshake, now: float) -> None:
        context = self._context
        try:
            init = context.make_init(visits=self._visits)
            context.outgoing.append(handshake.write_init(init, now))
        except NoiseError:  # no public key of any server
            context.drops["unusable_home"] += 1
            if handshake is self.handshake:
                self.handshake = None
            self._detour = None

    def send(self, now: float, requests: list[bytes]) -> None:
        """Send what has gathered: answers first, then what has become due, and requests."""
        link, context = self.link, self._context
        if link is None:
            return
        frames, self.frames = self.frames, []
        answers = len(frames)
        if link.take_report_turn(now):
            frames.append(encode(context.report))
        frames.extend(requests)
        frames.extend(self.outbox.frames(now))
        urgent = self.urgent_frames + self.outbox.urgent_frames
        if urgent:
            self.urgent_frames, self.outbox.urgent_frames = [], []
            link.note_question(now)
            context.outgoing.extend(link.seal(urgent, URGENT_HEADER))
        if not frames and link.take_probe(now):
            frames.append(_PROBE)
        if len(frames) > answers:
            link.note_question(now)
        mark = SEALED_HEADER if frames or not link.is_receipt_patient else PATIENT_HEADER
        receipt = link.take_receipt(now, travels_along=bool(frames))
        if receipt is not None:
            frames.append(encode(receipt))
        context.outgoing.extend(link.seal(frames, mark))

    def next_due(self) -> float:
        """Return when there is something to do at the latest."""
        attempts = (self.handshake, self._detour)
        due = min((one.due for one in attempts if one is not None), default=float("inf"))
        if self.link is None:
            return due
        return min(due, self.link.next_due(), self.outbox.next_due())
