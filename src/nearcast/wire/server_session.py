"""One client's session at the server: its address, what waits to be sent, what is unconfirmed."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.wire.actions import SendDatagram
from nearcast.wire.channel import Channel
from nearcast.wire.codec import COPY, encode, mark_copy
from nearcast.wire.framing import SEALED_OVERHEAD, pack
from nearcast.wire.messages import (
    TOKEN_BYTES,
    Heartbeat,
    Init,
    Notify,
    Published,
    Received,
    Redirect,
)
from nearcast.wire.publish_streams import PublishStreams
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["ServerSession"]

_WAITING_LIMIT = 1_024
"""Most frames that wait until an address is proved."""
_NOTIFY = encode(Notify("t", "", 0, 0, False, 0, b""))[0]


def _is_notification(frame: bytes) -> bool:
    return frame[0] & ~COPY == _NOTIFY


@dataclass(slots=True)
class _Flight:
    """The notifications of one datagram, until the client says that it arrived."""

    frames: list[bytes]
    due: float
    wait_s: float


@dataclass(slots=True)
class _Candidate:
    """An address that the client seems to have moved to; it gets no more than it sent."""

    address: Address
    token: bytes
    credit_bytes: int = 0
    asked_at: float = float("-inf")


class ServerSession:
    """State of a session; `flush` turns what has gathered into as few datagrams as possible."""

    def __init__(
        self,
        client: str,
        index: int,
        channel: Channel,
        address: Address,
        init: Init,
        now: float,
        settings: WireSettings,
    ) -> None:
        self.client = client
        self.index = index
        self.address: Address | None = None
        """Where the client has proved to receive."""
        self._init_address = address
        self.init = init
        self.last_heard = now
        self.is_confirmed = False
        """Whether the client has shown, by a sealed datagram, that it received the answer."""
        self.channel = channel
        self.streams = PublishStreams(
            topic_limit=settings.topic_limit,
            window=settings.publish_window,
            ask_again_s=settings.least_retry_s,
        )
        self.redirect: Redirect | None = None
        """Where the client shall go; repeated after each report until it has gone."""
        self.notifications_dropped = 0
        self._settings = settings
        self._acks: dict[str, Published] = {}
        self._frames: list[bytes] = []
        self._flights: dict[int, _Flight] = {}
        """By the counter of the datagram."""
        self._candidate: _Candidate | None = None

    @property
    def room(self) -> int:
        """Most bytes of one frame."""
        return self._settings.datagram_limit - SEALED_OVERHEAD

    def queue(self, frame: bytes) -> None:
        """Put a frame, no larger than `room`, into the next datagram."""
        self._frames.append(frame)

    def queue_acknowledgement(self, published: Published) -> None:
        """Put an acknowledgement into the next datagram: the last one per topic says it all."""
        last = self._acks.get(published.topic)
        if last is None or (published.epoch, published.up_to) >= (last.epoch, last.up_to):
            self._acks[published.topic] = published

    def unconfirmed(self) -> list[bytes]:
        """Return the notifications that the client may not have: sent ones marked as copies."""
        sent = [mark_copy(frame) for flight in self._flights.values() for frame in flight.frames]
        return sent + [frame for frame in self._frames if _is_notification(frame)]

    def on_received(self, received: Received) -> None:
        """Forget the notifications that arrived."""
        for counter in list(self._flights):
            age = received.highest - counter
            if 0 <= age < 64 and received.bitmap >> age & 1:
                del self._flights[counter]

    @property
    def awaits_receipts(self) -> bool:
        """Whether notifications are unconfirmed."""
        return bool(self._flights)

    def next_resend(self) -> float:
        """Return when the next notification is due again."""
        return min((flight.due for flight in self._flights.values()), default=float("inf"))

    def resend(self, now: float) -> list[SendDatagram]:
        """Return the datagrams that repeat what nobody confirmed in time."""
        sent: list[SendDatagram] = []
        for counter, flight in list(self._flights.items()):
            if flight.due <= now and self.address is not None and not self.channel.is_spent:
                del self._flights[counter]
                wait_s = min(2 * flight.wait_s, self._settings.longest_retry_s)
                copies = [mark_copy(frame) for frame in flight.frames]
                sent.append(self._seal(copies, self.address, now, wait_s))
        return sent

    def flush(self, now: float) -> list[SendDatagram]:
        """Return the datagrams that hold all that is queued."""
        if self.address is None:
            del self._frames[:-_WAITING_LIMIT]
            return []
        frames = [encode(ack) for ack in self._acks.values()]
        frames += self._frames
        self._acks, self._frames = {}, []
        sent: list[SendDatagram] = []
        for group in pack(frames, self.room):
            if self.channel.is_spent:
                break
            sent.append(self._seal(group, self.address, now, self._settings.first_retry_s))
        return sent

    def _seal(
        self, group: list[bytes], address: Address, now: float, wait_s: float
    ) -> SendDatagram:
        notifications = [frame for frame in group if _is_notification(frame)]
        if notifications and self._settings.notification_limit:
            if len(self._flights) >= self._settings.notification_limit:
                lost = self._flights.pop(next(iter(self._flights)))
                self.notifications_dropped += len(lost.frames)
            self._flights[self.channel.counter] = _Flight(notifications, now + wait_s, wait_s)
        return SendDatagram(address, self.channel.seal(b"".join(group)))

    def heard_from(
        self, address: Address, size: int, random_bytes: RandomBytes, now: float
    ) -> SendDatagram | None:
        """Note where a fresh datagram came from; return the question to a new address, if any.

        Until the new address answers, the proved one stays in use, and the new one gets no more
        bytes than came from it.
        """
        self.last_heard = now
        if not self.is_confirmed:
            # Whoever seals has received the answer to its INIT: at this address, if it is the same.
            self.is_confirmed = True
            self.address = address if address == self._init_address else None
        if address == self.address:
            return None
        candidate = self._candidate
        if candidate is None or candidate.address != address:
            candidate = self._candidate = _Candidate(address, random_bytes(TOKEN_BYTES))
        candidate.credit_bytes += size
        if now - candidate.asked_at < self._settings.least_retry_s or self.channel.is_spent:
            return None
        question = encode(Heartbeat(candidate.token))
        if candidate.credit_bytes < len(question) + SEALED_OVERHEAD:
            return None
        data = self.channel.seal(question)
        candidate.credit_bytes -= len(data)
        candidate.asked_at = now
        return SendDatagram(address, data)

    def on_answer(self, address: Address, token: bytes) -> None:
        """Move to the new address once it has returned its token."""
        candidate = self._candidate
        if candidate is not None and (candidate.address, candidate.token) == (address, token):
            self.address, self._candidate = address, None
