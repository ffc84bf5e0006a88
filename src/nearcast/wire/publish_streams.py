"""The durable publications of one session at the server: handed up in order, per topic.

The server keeps no promise here, the spool does: this only puts datagrams back in order, asks for
what is missing and answers repetitions. Whatever is forgotten comes back, because each publication
names the oldest one that its publisher still needs acknowledged.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from nearcast.wire.codec import Refused
from nearcast.wire.messages import Nack, Publish, Published

__all__ = ["PublishStreams"]


@dataclass(slots=True)
class _Stream:
    epoch: int
    next_sequence: int
    acked: int
    held: dict[int, Publish] = field(default_factory=dict)
    """Publications behind a gap."""
    asked_at: float = float("-inf")
    """When the gap was last reported."""


class PublishStreams:
    """The streams of one session: one per topic, the least recently used forgotten first."""

    def __init__(self, *, topic_limit: int, window: int, ask_again_s: float) -> None:
        self._streams: OrderedDict[str, _Stream] = OrderedDict()
        self._topic_limit = topic_limit
        self._window = window
        self._ask_again_s = ask_again_s
        self._held = 0
        """Publications held in all streams: together no more than one window."""

    def accept(self, publish: Publish) -> tuple[list[Publish], Published | None]:
        """Take a publication; return what can be handed up now and an acknowledgement to repeat.

        A repetition that is not acknowledged yet is handed up again: what was forwarded the
        first time may have been lost.
        """
        stream = self._stream_of(publish)
        ready = self._release(stream)  # something only when the publisher skipped a gap
        sequence = publish.sequence
        if sequence <= stream.acked:
            return ready, Published(publish.topic, stream.epoch, stream.acked)
        if sequence < stream.next_sequence:
            return [*ready, publish], None
        if sequence > stream.next_sequence:
            self._hold(stream, publish)
            return ready, None
        self._drop_held(stream, sequence)
        stream.next_sequence += 1
        return [*ready, publish, *self._release(stream)], None

    def gaps(self, now: float) -> list[Nack]:
        """Return what to ask for again; each gap once in a while."""
        found = []
        for topic, stream in self._streams.items() if self._held else ():
            if stream.held and now - stream.asked_at >= self._ask_again_s:
                stream.asked_at = now
                missing = min(stream.held) - stream.next_sequence
                found.append(Nack(topic, stream.epoch, stream.next_sequence, missing))
        return found

    def acknowledge(self, topic: str, epoch: int, up_to: int) -> None:
        """Remember what is safe, to answer repetitions."""
        stream = self._streams.get(topic)
        if stream is not None and stream.epoch == epoch and up_to >= stream.acked:
            stream.acked = up_to

    def rewind(self, topic: str, epoch: int, expected: int) -> int:
        """Expect this sequence again, because it was not taken; return how many are missing."""
        stream = self._streams.get(topic)
        if stream is None or stream.epoch != epoch or expected >= stream.next_sequence:
            return 1
        missing = stream.next_sequence - expected
        stream.next_sequence = expected
        stream.acked = min(stream.acked, expected - 1)
        return missing

    def _stream_of(self, publish: Publish) -> _Stream:
        stream = self._streams.get(publish.topic)
        if stream is not None and publish.epoch < stream.epoch:
            raise Refused("stale_epoch")
        if stream is None or publish.epoch > stream.epoch:
            self._forget(publish.topic)
            stream = _Stream(publish.epoch, publish.oldest, publish.oldest - 1)
            self._streams[publish.topic] = stream
            if len(self._streams) > self._topic_limit:
                self._forget(next(iter(self._streams)))
        elif publish.oldest > stream.next_sequence:
            # Another home acknowledged what is missing here.
            for sequence in [held for held in stream.held if held < publish.oldest]:
                self._drop_held(stream, sequence)
            stream.next_sequence, stream.acked = publish.oldest, publish.oldest - 1
        self._streams.move_to_end(publish.topic)
        return stream

    def _hold(self, stream: _Stream, publish: Publish) -> None:
        """Keep it if there is room; what does not fit is sent again by its publisher."""
        ahead = publish.sequence - stream.next_sequence
        if publish.sequence not in stream.held and max(ahead, self._held) < self._window:
            stream.held[publish.sequence] = publish
            self._held += 1

    def _release(self, stream: _Stream) -> list[Publish]:
        ready = []
        while (publish := stream.held.pop(stream.next_sequence, None)) is not None:
            ready.append(publish)
            self._held -= 1
            stream.next_sequence += 1
        return ready

    def _drop_held(self, stream: _Stream, sequence: int) -> None:
        if stream.held.pop(sequence, None) is not None:
            self._held -= 1

    def _forget(self, topic: str) -> None:
        stream = self._streams.pop(topic, None)
        if stream is not None:
            self._held -= len(stream.held)
