"""Messages between servers over a pipe that may lose, repeat and reorder: in order, until taken.

Messages to one server are numbered from 1 for the whole life of their sender. Each frame names the
first number that is not acknowledged, so that a receiver that starts anew knows where to begin: it
misses what its last life took, and `take_new_lives` lets both sides tell each other again what
they need. After a timeout one frame at a time goes out until the other side has caught up.
"""

from __future__ import annotations

from collections.abc import Iterator

from nearcast.server.peer_channel import (
    NEVER,
    Frame,
    MeshSettings,
    PeerChannel,
    decode_frame,
    encode_frame,
)

__all__ = ["MeshChannels"]


class MeshChannels:
    """All channels of a server.

    Parameters
    ----------
    life
        Above 0, and rises with each start of this server: its start in microseconds, say.
    """

    def __init__(self, life: int, settings: MeshSettings | None = None) -> None:
        self._life, self._settings = life, settings or MeshSettings()
        self._channels: dict[str, PeerChannel] = {}
        self._dirty: dict[str, None] = {}
        self._new_lives: dict[str, None] = {}
        self._gaps: dict[str, None] = {}
        self._due = NEVER
        """No timer of any channel is due before; spares looking at all of them at each event."""
        self.dropped = 0
        """Messages given up because too many waited."""
        self.refused = 0
        """Frames that were none."""
        self.resent = 0
        """Messages that were sent again."""

    def send(self, server: str, message: bytes) -> None:
        """Queue a message; `poll` returns the frame it travels in."""
        channel, settings = self._channel(server), self._settings
        channel.waiting.append(message)
        channel.waiting_bytes += len(message)
        while len(channel.waiting) > settings.queue_limit or (
            channel.waiting_bytes > settings.queue_bytes and len(channel.waiting) > 1
        ):
            channel.drop_oldest()
            channel.has_dropped = True
            self.dropped += 1
        self._dirty[server] = None

    def receive(self, server: str, data: bytes, now: float) -> list[bytes]:
        """Take a frame; return the messages that are next in order."""
        frame = decode_frame(data)
        if frame is None:
            self.refused += 1
            return []
        channel = self._channel(server)
        if frame.life < channel.peer_life:
            return []  # a leftover of its last life
        if frame.life > channel.peer_life:
            if channel.peer_life:
                channel.go_back(now)
                self._due = min(self._due, channel.resend_at)
            channel.peer_life, channel.taken, channel.early = frame.life, 0, {}
            self._new_lives[server] = None
        if channel.has_dropped:
            channel.has_dropped = False
            self._gaps[server] = None
        if frame.ack_life == self._life:
            self._on_ack(server, channel, frame.acked, now)
        # what is before the base was taken by an earlier life of this server, or dropped
        channel.taken = max(channel.taken, frame.base - 1)
        if not frame.messages:
            return []
        channel.ack_at = min(channel.ack_at, now + self._settings.ack_delay_s)
        self._due = min(self._due, channel.ack_at)
        return channel.take(frame.first, frame.messages, self._settings.early_frames)

    def take_new_lives(self) -> list[str]:
        """Return the servers that were heard for the first time in their present lives."""
        found, self._new_lives = list(self._new_lives), {}
        return found

    def take_gaps(self) -> list[str]:
        """Return the servers that are back after messages to them had to be dropped."""
        found, self._gaps = list(self._gaps), {}
        return found

    def forget(self, server: str) -> None:
        """Give up a server that is no longer part of the site."""
        self._channels.pop(server, None)
        for noted in (self._dirty, self._new_lives, self._gaps):
            noted.pop(server, None)

    def poll(self, now: float) -> list[tuple[str, bytes]]:
        """Return the frames to send now, each with the server it goes to."""
        frames: list[tuple[str, bytes]] = []
        dirty, self._dirty = self._dirty, {}
        is_due = self._due <= now
        for server in self._channels if is_due else dirty:
            channel = self._channels[server]
            if channel.resend_at <= now:
                frames.append((server, self._resend(channel, now)))
            if server in dirty or channel.ack_at <= now:
                frames.extend((server, frame) for frame in self._fresh(channel, now))
            if channel.ack_at <= now:
                frames.append((server, self._frame(channel, 0, [])))
            self._due = min(self._due, channel.resend_at, channel.ack_at)
        if is_due:
            timers = (min(one.resend_at, one.ack_at) for one in self._channels.values())
            self._due = min(timers, default=NEVER)
        return frames

    def next_wakeup(self) -> float:
        """Return when to poll again at the latest."""
        return float("-inf") if self._dirty else self._due

    @property
    def servers(self) -> tuple[str, ...]:
        """All servers that something was sent to or heard from."""
        return tuple(self._channels)

    def waiting(self, server: str) -> int:
        """Return how many messages a server has not acknowledged."""
        channel = self._channels.get(server)
        return len(channel.waiting) if channel else 0

    def _channel(self, server: str) -> PeerChannel:
        channel = self._channels.get(server)
        if channel is None:
            channel = self._channels[server] = PeerChannel(self._settings.first_retry_s)
        return channel

    def _on_ack(self, server: str, channel: PeerChannel, acked: int, now: float) -> None:
        count = acked - channel.base + 1
        if not 0 < count <= channel.sent:
            return
        for _ in range(count):
            channel.drop_oldest()
        if 0 < channel.timed <= acked:
            sample_s = now - channel.timed_at
            known_s = channel.round_trip_s
            channel.round_trip_s = sample_s if known_s is None else 0.8 * known_s + 0.2 * sample_s
            channel.timed = 0
        if channel.round_trip_s is not None:  # else it stays as long as the last try taught
            channel.retry_s = max(self._settings.least_retry_s, 3 * channel.round_trip_s)
        if not channel.sent:
            channel.resend_at = NEVER
        elif channel.base <= channel.behind:
            channel.resend_at = now  # the next frame of those that are to be sent again
        else:
            channel.resend_at = now + channel.retry_s
        self._due = min(self._due, channel.resend_at)
        self._dirty[server] = None

    def _resend(self, channel: PeerChannel, now: float) -> bytes:
        """Return one frame from the first message on that is not acknowledged."""
        channel.behind = max(channel.behind, channel.base + channel.sent - 1)
        channel.timed = 0
        batch = next(self._batches(channel, 0))
        self.resent += min(len(batch), channel.sent)
        channel.sent = max(channel.sent, len(batch))
        channel.resend_at = now + channel.retry_s
        channel.retry_s = min(2 * channel.retry_s, self._settings.longest_retry_s)
        return self._frame(channel, 0, batch)

    def _fresh(self, channel: PeerChannel, now: float) -> Iterator[bytes]:
        """Yield frames with what was never sent; none before the other side has caught up."""
        if channel.sent and channel.base <= channel.behind:
            return
        for batch in self._batches(channel, channel.sent):
            frame = self._frame(channel, channel.sent, batch)
            channel.sent += len(batch)
            if channel.resend_at == NEVER:
                channel.resend_at = now + channel.retry_s
                channel.timed, channel.timed_at = channel.base + channel.sent - 1, now
            yield frame

    def _batches(self, channel: PeerChannel, start: int) -> Iterator[list[bytes]]:
        """Yield what fits into one frame each, from a place in the queue to the window's end."""
        batch: list[bytes] = []
        size = 0
        for at in range(start, min(len(channel.waiting), self._settings.window)):
            message = channel.waiting[at]
            if batch and size + len(message) > self._settings.frame_bytes:
                yield batch
                batch, size = [], 0
            batch.append(message)
            size += len(message)
        if batch:
            yield batch

    def _frame(self, channel: PeerChannel, at: int, batch: list[bytes]) -> bytes:
        channel.ack_at = NEVER
        return encode_frame(
            Frame(
                self._life,
                channel.base,
                channel.base + at,
                tuple(batch),
                channel.peer_life,
                channel.taken,
            )
        )
