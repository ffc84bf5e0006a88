"""One client's session at the server: its address, what waits to be sent, what is unconfirmed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from nearcast.trust.credentials import ClientCredential
from nearcast.wire.actions import Datagram, SendDatagram, SessionOpened
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.channel import RECEIPT_BITS, REPLAY_WINDOW, Channel
from nearcast.wire.codec import COPY, GAP, encode, mark_copy
from nearcast.wire.flights import Flight, Packet, UnsealedDatagram, is_notification
from nearcast.wire.framing import SEALED_OVERHEAD
from nearcast.wire.hot_frames import NOTIFY, published_frame
from nearcast.wire.limits import payload_room
from nearcast.wire.messages import (
    TOKEN_BYTES,
    Heartbeat,
    Init,
    Redirect,
)
from nearcast.wire.pace import Pace
from nearcast.wire.round_trip import RoundTrip
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["Membership", "ServerSession"]

_WAITING_LIMIT = 4_096
"""Most frames that wait: for an address to be proved, or for notifications to be confirmed."""
_TOLD = frozenset((NOTIFY, GAP))
"""Frames that wait for room, in their order."""


@dataclass(slots=True)
class _Candidate:
    """An address that the client seems to have moved to; it gets no more than it sent."""

    address: Address
    token: bytes
    credit_bytes: int = 0
    asked_at: float = float("-inf")


class Membership(Protocol):
    """What a session knows of the group that its client is a member of."""

    def unconfirmed(self) -> list[bytes]:
        """Return the notifications that were told by group and may not have arrived."""
        ...

    def since(self) -> float:
        """Return when the first of them was told; infinity: there are none."""
        ...


class ServerSession:
    """State of a session; `ServerSessions` packs and sends what has gathered in it."""

    __slots__ = (
        "_acks",
        "_candidate",
        "_flights",
        "_init_address",
        "_receipt_time",
        "_settings",
        "address",
        "channel",
        "client",
        "credential",
        "epoch",
        "frames",
        "has_cookie",
        "has_lost",
        "index",
        "init",
        "is_confirmed",
        "is_open",
        "is_queued",
        "last_heard",
        "membership",
        "notifications_dropped",
        "opened_at",
        "pace",
        "payload_room",
        "redirect",
        "room",
        "urgent",
        "waits_since",
    )

    def __init__(
        self,
        credential: ClientCredential,
        index: int,
        channel: Channel,
        address: Address,
        init: Init,
        now: float,
        settings: WireSettings,
        pace: Pace,
        *,
        has_cookie: bool = False,
        epoch: int = 0,
    ) -> None:
        self.client = credential.client
        self.credential = credential
        """What the authority says of the client: the one source of what it may do."""
        self.index = index
        self.address: Address | None = None
        """Where the client has proved to receive."""
        self._init_address = address
        self.init = init
        self.epoch = epoch
        """Of the client's program, which was issued to it in its first session."""
        self.pace = pace
        """What the client may still send, in this session and the next."""
        self.has_cookie = has_cookie
        """Whether the INIT had one, so that it cannot be a replayer's."""
        self.opened_at = self.last_heard = now
        self.is_confirmed = False
        """Whether the client has shown, by a sealed datagram, that it received the answer."""
        self.is_open = True
        self.is_queued = False
        """Whether the next flush will send what is in it; `ServerSessions` sets it."""
        self.channel = channel
        self.membership: Membership | None = None
        """In the server's multicast group, once the client was offered its key."""
        self.redirect: Redirect | None = None
        """Where the client shall go; repeated after each report until it has gone."""
        self.notifications_dropped = 0
        """Unconfirmed notifications that were given up, because too many waited."""
        self.has_lost = False
        """Whether the client has to ask for something again that others have lost."""
        self.room = settings.datagram_limit - SEALED_OVERHEAD
        """Most bytes of one frame."""
        self._settings = settings
        self._acks: dict[str, tuple[int, int, int]] = {}
        self.payload_room = payload_room(self.client, settings.datagram_limit)
        """No datagram up to this size holds a publication that is too large to be notified."""
        self.frames: list[bytes] = []
        """What the next flushes send; none is larger than `room`."""
        self.urgent = 0
        """How many of them, the first ones, are urgent."""
        self.waits_since: float | None = None
        """Since when some of them wait, because as many datagrams as may be are unconfirmed."""
        self._flights: dict[int, Flight] = {}
        """By the counter of the datagram, which rises."""
        self._receipt_time = RoundTrip(settings)
        """From a notification to the client's receipt."""
        self._candidate: _Candidate | None = None

    def queue(self, frame: bytes) -> None:
        """Put a frame, no larger than `room`, into the next datagram."""
        self.frames.append(frame)

    def queue_urgent(self, frame: bytes) -> None:
        """Put a notification behind other urgent ones, and before the rest."""
        self.frames.insert(self.urgent, frame)
        self.urgent += 1

    def queue_acknowledgement(self, topic: str, epoch: int, up_to: int, level: int) -> None:
        """Put an acknowledgement into the next datagram: the last one per topic says it all."""
        reached, last = (epoch, up_to, level), self._acks.get(topic)
        if last is None or reached > last:
            self._acks[topic] = reached

    @property
    def has_room(self) -> bool:
        """Whether many more frames may wait without any loss."""
        return len(self.frames) < _WAITING_LIMIT // 2

    def _drop_oldest(self) -> None:
        start = min(self.urgent, _WAITING_LIMIT)
        end = start + max(0, len(self.frames) - _WAITING_LIMIT)
        self.notifications_dropped += sum(map(is_notification, self.frames[start:end]))
        del self.frames[start:end]
        self.urgent = start

    def _take_some(self, room: int) -> list[bytes]:
        """Take as many notifications as there is room for; what says how far these are waits with the others."""
        urgent, self.urgent = self.urgent, 0
        if 0 < urgent <= room + self._settings.notification_limit:  # these do not wait for room
            room = max(room, urgent)
        taken, waiting = list[bytes](), list[bytes]()
        for frame in self.frames:
            is_told = frame[0] & ~COPY in _TOLD
            if is_told and (waiting or room <= 0):
                waiting.append(frame)
            else:
                taken.append(frame)
                room -= is_told
        self.frames = waiting
        self._drop_oldest()
        return taken

    def take_frames(self, now: float) -> list[bytes]:
        """Return what may be sent, acknowledgements first; nothing before an address is proved."""
        if self.address is None:
            self._drop_oldest()
            return []
        frames, limit = self.frames, self._settings.notification_limit
        room = limit - len(self._flights)
        if limit and len(frames) > room:  # one datagram for each, at worst
            frames = self._take_some(room)
            self.waits_since = now if self.waits_since is None else self.waits_since
        else:
            self.frames, self.waits_since, self.urgent = [], None, 0
        if self._acks:
            frames[:0] = [published_frame(topic, *ack) for topic, ack in self._acks.items()]
            self._acks = {}
        return frames

    def send(self, packets: Iterable[Packet], sent: list[Datagram]) -> bool:
        """Add the datagrams with packets to `sent`; tell whether any awaits a receipt.

        Those for which there is no counter left are dropped.
        """
        channel, address, flights = self.channel, self.address, self._flights
        if address is None:
            return False
        is_repeated = self._settings.notification_limit > 0
        for payload, flight in packets:
            counter = channel.take_counter()
            if counter < 0:
                break
            if flight is not None and is_repeated:
                flights[counter] = flight
            sent.append(UnsealedDatagram(address, channel, counter, payload))
        return bool(flights)

    def unconfirmed(self) -> list[bytes]:
        """Return the notifications that the client may not have: sent ones marked as copies."""
        sent = [mark_copy(frame) for flight in self._flights.values() for frame in flight.frames]
        if self.membership is not None:
            sent += self.membership.unconfirmed()
        return sent + [frame for frame in self.frames if is_notification(frame)]

    def on_received(self, highest: int, bitmap: int, all_below: int, now: float) -> bool:
        """Forget the notifications that arrived; see `Received`. Tell whether some are missing.

        What was sent before something that arrived, and is within the bitmap, is missing and due
        again at once: but only once, or a client could have it sent to itself as often as it
        says so.
        """
        flights, first, is_missing = self._flights, highest - REPLAY_WINDOW + 1, False
        oldest: Flight | None = None
        for counter in list(flights):
            if counter > highest:
                break
            age = highest - counter
            if first <= counter < all_below or (age < RECEIPT_BITS and bitmap >> age & 1):
                arrived = flights.pop(counter)
                oldest = oldest or arrived  # the one that waited longest for this receipt
            elif age < RECEIPT_BITS and not (flight := flights[counter]).wait_s:
                flights[counter], is_missing = flight._replace(sent_at=float("-inf")), True
        if oldest is not None and oldest.sent_at > float("-inf"):
            # what is sent again has another counter: it is known which of the two arrived
            self._receipt_time.learn(now - oldest.sent_at)
        return is_missing

    @property
    def _first_wait_s(self) -> float:
        """How long to wait for a first receipt: a client far away, or busy, gets more time."""
        return max(self._settings.notification_retry_s, self._receipt_time.wait_s)

    @property
    def awaits_receipts(self) -> bool:
        """Whether notifications are unconfirmed."""
        return bool(self._flights)

    @property
    def lacks_something(self) -> bool:
        """Whether the client will not get all that it was to be told in this session."""
        return self.has_lost or self.notifications_dropped > 0

    def heartbeat(self, missing_since: float, now: float, time_us: int) -> Heartbeat:
        """Return the answer to a Report: it says what the client can be sure to have.

        Parameters
        ----------
        missing_since
            Since when the server itself waits for what clients should have been sent.
        time_us
            The site's time.
        """
        since = min((one.since for one in self._flights.values()), default=missing_since)
        if self.waits_since is not None:
            since = min(since, self.waits_since)
        if self.membership is not None:
            since = min(since, self.membership.since())
        unsettled_s = now - min(since, missing_since)
        unsettled_ms = 1 + int(unsettled_s * 1000) if unsettled_s >= 0 else 0
        return Heartbeat(unsettled_ms=unsettled_ms, lost=self.lacks_something, time_us=time_us)

    def opened(self, address: Address, old: ServerSession | None) -> SessionOpened:
        """Return the event that the client is here; it may have had an old session."""
        goes_on = old is not None and old.epoch == self.epoch and not old.lacks_something
        supersedes = old is not None and old.epoch != self.epoch
        return SessionOpened(self.client, self.init, address, self.credential, goes_on, supersedes)

    def next_resend(self) -> float:
        """Return when the next notification is due again."""
        first_wait_s = self._first_wait_s
        return min(
            (one.sent_at + (one.wait_s or first_wait_s) for one in self._flights.values()),
            default=float("inf"),
        )

    def resend(self, now: float, *, moved: bool = False) -> list[Datagram]:
        """Return the datagrams that repeat what nobody confirmed in time.

        All that is unconfirmed, when the client has moved: it is on its way to the old address.
        """
        sent: list[Datagram] = []
        settings, first_wait_s = self._settings, self._first_wait_s
        for counter, flight in list(self._flights.items()):
            before_s = 0.0 if moved else flight.wait_s or first_wait_s
            is_due = moved or flight.sent_at + before_s <= now
            if is_due and self.address is not None and not self.channel.is_exhausted:
                del self._flights[counter]
                wait_s = next_wait_s(
                    before_s, settings.longest_retry_s, settings.notification_retry_s
                )
                copies = [mark_copy(frame) for frame in flight.frames]
                again = Flight(flight.frames, now, wait_s, flight.since)
                self.send([Packet(b"".join(copies), again)], sent)
        return sent

    def heard_from(
        self, address: Address, size: int, random_bytes: RandomBytes, now: float
    ) -> SendDatagram | None:
        """Note where a fresh datagram came from; return the question to a new address, if any.

        Until the new address answers, the proved one stays in use, and the new one gets no more
        bytes than came from it.
        """
        self.last_heard = now
        if not self.is_confirmed:
            # Who seals has received the answer to its INIT: at this address, if it is the same.
            self.is_confirmed = True
            self.address = address if address == self._init_address else None
        if address == self.address:
            return None
        candidate = self._candidate
        if candidate is None or candidate.address != address:
            candidate = self._candidate = _Candidate(address, random_bytes(TOKEN_BYTES))
        candidate.credit_bytes += size
        if now - candidate.asked_at < self._settings.least_retry_s or self.channel.is_exhausted:
            return None
        question = encode(Heartbeat(candidate.token))
        if candidate.credit_bytes < len(question) + SEALED_OVERHEAD:
            return None
        data = self.channel.seal(question)
        candidate.credit_bytes -= len(data)
        candidate.asked_at = now
        return SendDatagram(address, data)

    def on_answer(self, address: Address, token: bytes, now: float) -> list[Datagram]:
        """Move to the new address once it has returned its token.

        Returns what was sent to the old one, again: it comes before what is new.
        """
        candidate = self._candidate
        if candidate is None or (candidate.address, candidate.token) != (address, token):
            return []
        self.address, self._candidate = address, None
        return self.resend(now, moved=True)
