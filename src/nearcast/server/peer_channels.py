"""Messages between servers over links that may lose and reorder: in order, until taken.

There are two streams to each server, for ordinary messages and for bulk: pieces of large transfers,
of which only a few are in flight at a time. Messages of a stream are numbered from 1 for the whole
incarnation of their sender. An incarnation is a random number, so that no clock and no file has to
survive a restart: one that was not heard before is a new one, and the one before it is ignored
for a while, as long as its frames may be under way. Each frame names the first number that is not acknowledged, so that a
receiver that starts anew knows where to begin: it misses what its last incarnation took, and
`take_restarted` lets both sides tell each other again what they need. A frame that comes before
its turn is dropped; after a timeout one frame at a time goes out until the other side has caught
up.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from nearcast.server.peer_channel import (
    NEVER,
    PeerFrame,
    PeerSettings,
    PeerStream,
    decode_frame,
    encode_frame,
)
from nearcast.wire.backoff import next_wait_s

__all__ = ["PeerChannels", "draw_incarnation"]

_INCARNATION_BITS = 62
_PAST_LIMIT = 16
"""Incarnations of a server within `late_s`: no further one is believed."""


def draw_incarnation(random_bytes: Callable[[int], bytes]) -> int:
    """Return the name of a server's new incarnation, above 0."""
    return int.from_bytes(random_bytes(8), "big") >> (64 - _INCARNATION_BITS) or 1


class _Peer:
    """A server: its incarnation and the two streams."""

    __slots__ = ("bulk", "has_dropped", "incarnation", "ordinary", "past")

    def __init__(self, server: str, retry_s: float) -> None:
        self.ordinary = PeerStream(server, retry_s, is_bulk=False)
        self.bulk = PeerStream(server, retry_s, is_bulk=True)
        self.incarnation = 0
        self.past: dict[int, float] = {}
        """Incarnations that are over, and since when."""
        self.has_dropped = False
        """Whether messages were dropped since the other side was last heard."""


class _Batch(NamedTuple):
    messages: list[bytes]
    size_bytes: int


class PeerChannels:
    """All channels of a server.

    Parameters
    ----------
    incarnation
        Of `draw_incarnation`: another one at each start of this server.
    """

    def __init__(self, incarnation: int, settings: PeerSettings | None = None) -> None:
        self.incarnation, self._settings = incarnation, settings or PeerSettings()
        self._peers: dict[str, _Peer] = {}
        self._dirty: dict[PeerStream, None] = {}
        self._restarted: dict[str, None] = {}
        self._gaps: dict[str, None] = {}
        self._skipped: dict[str, None] = {}
        self._due = NEVER
        """No timer of any stream is due before; spares looking at all of them at each event."""
        self.dropped = 0
        """Messages given up because too many waited, or one was too large."""
        self.refused = 0
        """What came and was not a frame."""
        self.flips_refused = 0
        """Frames of servers that claim to have started too often."""
        self.resent = 0
        """Messages that were sent again."""

    def send(
        self, server: str, message: bytes, *, bulk: bool = False, urgent: bool = False
    ) -> None:
        """Queue a message; `poll` returns the frame it travels in.

        Bulk messages are in order among themselves, and never hold up ordinary ones. Urgent ones
        overtake what was not sent yet.
        """
        peer, settings = self._peer(server), self._settings
        if len(message) > settings.message_bytes:
            self.dropped += 1
            return
        stream = peer.bulk if bulk else peer.ordinary
        waiting = stream.waiting
        if urgent:
            stream.put_urgent(message)
        else:
            waiting.append(message)
        stream.waiting_bytes += len(message)
        while len(waiting) > settings.queue_limit or (
            stream.waiting_bytes > settings.queue_bytes and len(waiting) > 1
        ):
            stream.drop_oldest(1)
            peer.has_dropped = True
            self.dropped += 1
        self._dirty[stream] = None

    def withdraw(self, server: str, prefix: bytes) -> None:
        """Empty all messages that wait for a server and begin so; it may have taken some."""
        peer = self._peers.get(server)
        if peer is not None:
            waiting = peer.ordinary.waiting
            for at, message in enumerate(waiting):
                if message.startswith(prefix):
                    waiting[at] = b""
                    peer.ordinary.waiting_bytes -= len(message)
                    if at < peer.ordinary.sent:
                        peer.ordinary.in_flight_bytes -= len(message)

    def receive(self, server: str, frame: bytes, now: float) -> list[bytes]:
        """Take a frame; return the messages that are next in order."""
        found = decode_frame(frame)
        if found is None:
            self.refused += 1
            return []
        peer = self._peer(server)
        if found.incarnation != peer.incarnation:
            if now - peer.past.get(found.incarnation, -NEVER) < self._settings.late_s:
                return []  # a leftover of an incarnation that is over
            if sum(now - at < self._settings.late_s for at in peer.past.values()) >= _PAST_LIMIT:
                self.flips_refused += 1  # each costs telling it everything; it sends again
                return []
            self._begin_anew(server, peer, found.incarnation, now)
        if peer.has_dropped:
            peer.has_dropped = False
            self._gaps[server] = None
        stream = peer.bulk if found.is_bulk else peer.ordinary
        if found.ack_incarnation == self.incarnation and found.acked >= stream.base:
            self._on_ack(stream, found.acked, now)
        if found.base - 1 > stream.taken:
            # taken by an earlier incarnation of this server, or dropped by the sender
            stream.taken = found.base - 1
            self._skipped[server] = None
        if not found.messages:
            return []
        # a large transfer goes on as soon as it is acknowledged
        ack_at = now if found.is_bulk else now + self._settings.ack_delay_s
        if ack_at < stream.ack_at:
            stream.ack_at = ack_at
            self._due = min(self._due, ack_at)
        return stream.take(found.first, found.messages)

    def take_restarted(self) -> list[str]:
        """Return the servers that were heard for the first time in their present incarnations."""
        found, self._restarted = list(self._restarted), {}
        return found

    def take_gaps(self) -> list[str]:
        """Return the servers that are back after messages to them had to be dropped."""
        found, self._gaps = list(self._gaps), {}
        return found

    def take_skipped(self) -> list[str]:
        """Return the servers that dropped messages for this one, or sent them before its start."""
        found, self._skipped = list(self._skipped), {}
        return found

    def forget(self, server: str) -> None:
        """Give up a server that is no longer part of the site."""
        peer = self._peers.pop(server, None)
        if peer is not None:
            self._dirty.pop(peer.ordinary, None)
            self._dirty.pop(peer.bulk, None)
            self._restarted.pop(server, None)
            self._gaps.pop(server, None)
            self._skipped.pop(server, None)

    def poll(self, now: float) -> list[tuple[str, bytes]]:
        """Return the frames to send now, each with the server it goes to; bulk comes last."""
        is_due = self._due <= now
        if not is_due and not self._dirty:
            return []
        frames: list[tuple[str, bytes]] = []
        bulk_frames: list[tuple[str, bytes]] = []
        dirty, self._dirty = self._dirty, {}
        streams, due = (self._streams(), NEVER) if is_due else (dirty, self._due)
        for stream in streams:
            out = bulk_frames if stream.is_bulk else frames
            if stream.resend_at <= now:
                out.append((stream.server, self._resend(stream, now)))
            if stream in dirty or stream.ack_at <= now:
                self._send_fresh(stream, now, out)
            if stream.ack_at <= now:
                out.append((stream.server, self._frame(stream, 0, [])))
            if stream.resend_at < due:
                due = stream.resend_at
            if stream.ack_at < due:
                due = stream.ack_at
        self._due = due
        return frames + bulk_frames if bulk_frames else frames

    def next_wakeup(self) -> float:
        """Return when to poll again at the latest."""
        return float("-inf") if self._dirty else self._due

    @property
    def servers(self) -> tuple[str, ...]:
        """All servers that something was sent to or heard from."""
        return tuple(self._peers)

    def waiting(self, server: str) -> int:
        """Return how many messages, bulk included, a server has not acknowledged."""
        peer = self._peers.get(server)
        return len(peer.ordinary.waiting) + len(peer.bulk.waiting) if peer else 0

    def queued(self, server: str) -> int:
        """Return the number of the last message to a server that is not bulk."""
        peer = self._peers.get(server)
        return peer.ordinary.base + len(peer.ordinary.waiting) - 1 if peer else 0

    def has_settled(self, server: str, number: int) -> bool:
        """Tell whether a message and all before it were acknowledged, or given up."""
        peer = self._peers.get(server)
        return peer is None or peer.ordinary.base > number

    def is_away(self, server: str, now: float, after_s: float) -> bool:
        """Tell whether a server has acknowledged nothing of what was sent for a while."""
        peer = self._peers.get(server)
        return peer is not None and any(
            one.sent and now - one.waits_since >= after_s for one in (peer.ordinary, peer.bulk)
        )

    def _peer(self, server: str) -> _Peer:
        peer = self._peers.get(server)
        if peer is None:
            peer = self._peers[server] = _Peer(server, self._settings.first_retry_s)
        return peer

    def _streams(self) -> list[PeerStream]:
        return [one for peer in self._peers.values() for one in (peer.ordinary, peer.bulk)]

    def _begin_anew(self, server: str, peer: _Peer, incarnation: int, now: float) -> None:
        if peer.incarnation:
            peer.past[peer.incarnation] = now
            if len(peer.past) > _PAST_LIMIT:
                del peer.past[next(iter(peer.past))]
            for stream in (peer.ordinary, peer.bulk):
                stream.go_back(now)
                self._due = min(self._due, stream.resend_at)
        peer.past.pop(incarnation, None)
        peer.incarnation = incarnation
        self._restarted[server] = None

    def _on_ack(self, stream: PeerStream, acked: int, now: float) -> None:
        count = acked - stream.base + 1
        if count > stream.sent:
            return
        stream.drop_oldest(count)
        stream.waits_since = now
        if 0 < stream.timed <= acked:
            sample_s = now - stream.timed_at
            if stream.timed <= stream.behind:  # the answer to the first time, or to another one
                sample_s = min(sample_s, 2 * stream.retry_s)
            known_s = stream.round_trip_s
            stream.round_trip_s = sample_s if known_s is None else 0.8 * known_s + 0.2 * sample_s
            stream.timed = 0
        if stream.round_trip_s is not None:  # else it stays as long as the last try taught
            stream.retry_s = self._retry_s(stream.round_trip_s)
        if not stream.sent:
            stream.resend_at = NEVER
        elif stream.base <= stream.behind:
            stream.resend_at = now  # the next frame of those that are to be sent again
        else:
            stream.resend_at = now + stream.retry_s
        self._due = min(self._due, stream.resend_at)
        if len(stream.waiting) > stream.sent:
            self._dirty[stream] = None

    def _retry_s(self, round_trip_s: float) -> float:
        """Return how long an answer is waited for; on a long way little longer than it takes."""
        settings = self._settings
        longest_s = max(settings.longest_retry_s, 1.5 * round_trip_s)
        return min(max(settings.least_retry_s, 3 * round_trip_s), longest_s)

    def _resend(self, stream: PeerStream, now: float) -> bytes:
        """Return one frame from the first message on that is not acknowledged."""
        if stream.base > stream.behind:
            # else it goes on with what was to be sent again: what was sent for the first time since
            # is under way, and would be sent again with every answer, for ever on a long way
            stream.behind = stream.base + stream.sent - 1
        batch = self._batch(stream, 0, 0)
        count = len(batch.messages)
        self.resent += min(count, stream.sent)
        if count > stream.sent:
            stream.note_sent(count - stream.sent)
            stream.in_flight_bytes = batch.size_bytes
        stream.resend_at = now + stream.retry_s
        longest_s = max(stream.retry_s, self._settings.longest_retry_s)  # a way may take longer
        stream.retry_s = next_wait_s(stream.retry_s, longest_s)
        return self._frame(stream, 0, batch.messages)

    def _send_fresh(self, stream: PeerStream, now: float, out: list[tuple[str, bytes]]) -> None:
        """Add frames with what was never sent; not before the other side has caught up."""
        if stream.sent and stream.base <= stream.behind:
            return
        while len(stream.waiting) > stream.sent:
            batch = self._batch(stream, stream.sent, stream.in_flight_bytes)
            if not batch.messages:
                return
            frame = self._frame(stream, stream.sent, batch.messages)
            stream.note_sent(len(batch.messages))
            stream.in_flight_bytes += batch.size_bytes
            if stream.resend_at == NEVER:
                stream.resend_at = now + stream.retry_s
                stream.waits_since = now
            if not stream.timed:
                stream.timed, stream.timed_at = stream.base + stream.sent - 1, now
            out.append((stream.server, frame))

    def _batch(self, stream: PeerStream, start: int, in_flight_bytes: int) -> _Batch:
        """Return what fits into one frame and the window, from a place in the queue on."""
        settings, waiting = self._settings, stream.waiting
        if len(waiting) == 1:  # nearly always
            return _Batch([waiting[0]], len(waiting[0]))
        end, limit, room = settings.window, settings.frame_bytes, settings.queue_bytes
        if stream.is_bulk:
            end, limit = len(waiting), settings.bulk_frame_bytes
            room = settings.bulk_window_bytes - in_flight_bytes
        batch: list[bytes] = []
        size = 0
        for message in islice(waiting, start, end):
            after = size + len(message)
            if (batch and after > limit) or (after > room and (batch or in_flight_bytes)):
                break
            batch.append(message)
            size = after
        return _Batch(batch, size)

    def _frame(self, stream: PeerStream, at: int, batch: list[bytes]) -> bytes:
        stream.ack_at = NEVER
        return encode_frame(
            PeerFrame(
                self.incarnation,
                stream.is_bulk,
                stream.base,
                stream.base + at,
                batch,
                self._peers[stream.server].incarnation,
                stream.taken,
            )
        )
