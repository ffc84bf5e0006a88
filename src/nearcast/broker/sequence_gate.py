"""Every publication once and in order: the gate before a topic's spool.

Per publisher it keeps a `Stream`: the epoch, the last sequence number up to which nothing is
missing, and the few publications that came too early. Those wait for the missing ones, which are
asked for, never skipped: the order in the spool is the order of publication.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from nearcast.spool.changes import Position
from nearcast.wire.publication import NUMBER_END, Origin, Publication

__all__ = [
    "MARK",
    "Ranges",
    "SequenceGate",
    "Stream",
    "Verdict",
    "is_far_ahead",
    "is_well_formed",
]

Ranges = tuple[tuple[int, int], ...]
"""Sequence numbers as (first, last) pairs."""

_FREE_EPOCHS = 1 << 61
_EPOCH_STEP = 1 << 32
"""How far above the one in force an epoch may be that is above `_FREE_EPOCHS`: whoever stole a key
could use the last one, and keep its client out for ever."""
_LONGEST_ID_BYTES = 1024
_NEVER = float("-inf")
_ASK_AGAIN_S = 0.1
"""Least time between two requests for missing publications of a stream."""
MARK = "\0"
"""What names begin with that stand among the publishers and are none: no client may have such."""


class Verdict(Enum):
    """What became of a publication at the gate."""

    TAKEN = auto()
    """Next in order: to be spooled, with those that had waited for it."""
    DUPLICATE = auto()
    """Was taken before, or waits already."""
    HELD = auto()
    """Came before others that are missing; waits for them."""
    STALE_EPOCH = auto()
    """Its publisher has begun a newer epoch."""
    TOO_EARLY = auto()
    """Too far ahead to wait, or too many wait already: the publisher must send it again."""
    TOO_MANY_PUBLISHERS = auto()
    """The topic has as many publishers as its broker remembers."""
    TOO_MANY_TOPICS = auto()
    """Nobody ordered its topic here, and there is no room for another one."""
    NO_SECOND_SERVER = auto()
    """Durable here, and on no second server in time, as its topic wants it."""
    MALFORMED = auto()
    """Epoch or sequence number out of range, or an id that is too long or not text."""


class Stream:
    """All that a broker knows about one publisher of a topic."""

    __slots__ = (
        "asked_at_s",
        "asked_from",
        "asked_through",
        "durable",
        "epoch",
        "held",
        "home",
        "is_owned",
        "looked_at",
        "pending",
        "publisher",
        "sequence",
        "settled",
        "told",
        "wants_ack",
    )

    def __init__(self, publisher: str, epoch: int, sequence: int) -> None:
        self.publisher = publisher
        self.epoch = epoch
        self.sequence = sequence
        """All publications of the epoch up to and with this one were taken."""
        self.held: dict[int, Publication] = {}
        """Those that came too early, by sequence."""
        self.asked_at_s = _NEVER
        """When missing ones were last asked for, or seen to come."""
        self.asked_from = self.asked_through = 0
        """How far it was then, and the last one that was asked for."""
        self.home: str | None = None
        """The server that forwards the publications; None when the publisher has a session here."""
        self.is_owned = False
        """Whether this broker processes it: see `ownership`."""
        self.wants_ack = False
        """Whether its publisher has to be told when publications are durable."""
        self.looked_at: Position | None = None
        """How far it was when `forget_idle` last looked at it."""
        self.pending = 0
        """Publications that were taken and are not settled yet."""
        self.settled: Position | None = None
        """How far it is processed and spooled."""
        self.durable: Position | None = None
        """How far it was settled when the log was last synced."""
        self.told = (epoch, sequence)
        """Epoch and sequence that all subscribers were told of last, by whichever server."""

    def own(self) -> None:
        """Process it here from now on: others have told all that was taken before."""
        self.is_owned, self.told = True, (self.epoch, self.sequence)

    def may_ask(self, through: int, now_s: float) -> bool:
        """Note that missing publications are asked for; False when they are on their way.

        A long history takes its time: to ask again meanwhile would have most of it sent twice.
        """
        if now_s < self.asked_at_s + _ASK_AGAIN_S:
            return False
        is_coming = self.asked_from < self.sequence < self.asked_through
        self.asked_at_s, self.asked_from = now_s, self.sequence
        if not is_coming:
            self.asked_through = through
        return not is_coming

    @property
    def position(self) -> Position:
        """How far its publications were taken."""
        return Position(self.publisher, self.epoch, self.sequence)

    @property
    def is_durable(self) -> bool:
        """Whether all that was taken is settled and synced."""
        return not self.pending and (not self.sequence or self.durable == self.position)


class SequenceGate:
    """Takes each publication of a topic once, in the order of its publisher.

    Parameters
    ----------
    window
        How far ahead of a missing publication another may be to wait for it. Copies may be
        further ahead: their broker goes on while it sends a long history.
    held_limit
        How many publications may wait in all; copies fill no more than half of it.
    """

    def __init__(self, window: int = 64, held_limit: int = 4096) -> None:
        self._window, self._held_limit = window, held_limit
        self.streams: dict[str, Stream] = {}
        """By publisher."""
        self.held = 0
        """Publications that wait."""

    def admit(self, publication: Publication) -> tuple[Verdict, list[Publication]]:
        """Return the verdict and the publications to be spooled now, in order."""
        known = self.streams.get(publication.publisher)
        if known is not None and publication.epoch < known.epoch:
            return Verdict.STALE_EPOCH, []
        if not is_well_formed(publication) or (
            publication.epoch > _FREE_EPOCHS and not self.may_take(publication)
        ):
            return Verdict.MALFORMED, []
        stream = self.begin(publication.publisher, publication.epoch)
        sequence = publication.sequence
        if sequence == stream.sequence + 1:
            stream.sequence = sequence
            return Verdict.TAKEN, [publication, *self._released(stream)]
        if sequence <= stream.sequence or sequence in stream.held:
            return Verdict.DUPLICATE, []
        if publication.origin is Origin.COPY:
            is_too_early = self.held >= self._held_limit // 2
        else:
            is_far = sequence > stream.sequence + self._window
            is_too_early = is_far or self.held >= self._held_limit
        if is_too_early:
            return Verdict.TOO_EARLY, []
        stream.held[sequence] = publication
        self.held += 1
        return Verdict.HELD, []

    def may_take(self, publication: Publication) -> bool:
        """Return whether a publication has an epoch and a number that its publisher may need."""
        known = self.streams.get(publication.publisher)
        in_force = known.epoch if known is not None else 0
        return is_well_formed(publication) and not is_far_ahead(publication, in_force)

    def advance(self, publisher: str, epoch: int, through: int) -> list[Publication]:
        """Stop waiting for publications up to `through`, which their sender says is settled.

        Returns the waiting ones that are next in order then.
        """
        stream = self.begin(publisher, epoch)
        if epoch < stream.epoch or through <= stream.sequence:
            return []
        early = sorted(one for one in stream.held if one <= through)
        settled = [stream.held.pop(one) for one in early]
        self.held -= len(settled)
        stream.sequence = through
        return settled + self._released(stream)

    def begin(self, publisher: str, epoch: int) -> Stream:
        """Return a stream, which begins anew if its epoch is a later one."""
        stream = self.streams.get(publisher)
        if stream is None or epoch > stream.epoch:
            stream = self._begin(publisher, epoch, 0)
        return stream

    def drop_held(self, stream: Stream) -> None:
        """Forget what came too early: it was never acknowledged."""
        self.held -= len(stream.held)
        stream.held = {}

    def forget_idle(self) -> list[str]:
        """Forget the streams that are as they were at the last call; return their publishers.

        Only those that are durable: their publishers know all that there is to know.
        """
        idle = []
        for stream in self.streams.values():
            is_mark = stream.publisher.startswith(MARK)
            is_done = stream.is_durable and not stream.held and not is_mark
            if stream.looked_at == stream.position and is_done:
                idle.append(stream.publisher)
            else:
                stream.looked_at = stream.position
        for publisher in idle:
            del self.streams[publisher]
        return idle

    def missing(self, publisher: str, through: int = 0) -> Ranges:
        """Return what is missing before the newest waiting publication, or up to `through`."""
        stream = self.streams[publisher]
        ranges, expected = [], stream.sequence + 1
        for sequence in sorted(stream.held):
            if sequence > expected:
                ranges.append((expected, sequence - 1))
            expected = sequence + 1
        if through >= expected:
            ranges.append((expected, through))
        return tuple(ranges)

    def took(self, publication: Publication) -> bool:
        """Return whether a publication went through before."""
        stream = self.streams.get(publication.publisher)
        return (
            stream is not None
            and publication.epoch == stream.epoch
            and publication.sequence <= stream.sequence
        )

    def positions(self) -> tuple[Position, ...]:
        """Return how far all publishers have come."""
        return tuple(stream.position for stream in self.streams.values())

    def restore(self, positions: Iterable[Position], spooled: Iterable[Publication]) -> None:
        """Begin where a log ends; spooled publications stand in where a position was damaged."""
        for one in positions:
            self._begin(one.publisher, one.epoch, one.sequence)
        for publication in spooled:
            self.advance(publication.publisher, publication.epoch, publication.sequence)

    def _begin(self, publisher: str, epoch: int, sequence: int) -> Stream:
        stream = self.streams.get(publisher)
        if stream is None:
            stream = self.streams[publisher] = Stream(publisher, epoch, sequence)
        else:
            self.drop_held(stream)
            stream.epoch, stream.sequence = epoch, sequence
        return stream

    def _released(self, stream: Stream) -> list[Publication]:
        released = []
        while stream.held and stream.sequence + 1 in stream.held:
            stream.sequence += 1
            released.append(stream.held.pop(stream.sequence))
        self.held -= len(released)
        return released


def is_well_formed(publication: Publication) -> bool:
    """Return whether the gate can take a publication at all."""
    try:
        id_bytes = len(publication.publisher.encode())
    except UnicodeEncodeError:
        return False
    return (
        id_bytes <= _LONGEST_ID_BYTES
        and not publication.publisher.startswith(MARK)
        and 1 <= publication.sequence < NUMBER_END
        and 0 <= publication.epoch < NUMBER_END
    )


def is_far_ahead(publication: Publication, in_force: int) -> bool:
    """Return whether an epoch is one that nobody needs, as against the one in force."""
    is_far = publication.epoch > max(_FREE_EPOCHS, in_force + _EPOCH_STEP)
    return is_far and publication.origin is not Origin.COPY
