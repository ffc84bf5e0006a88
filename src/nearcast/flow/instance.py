"""An instance: a component at one server, with the indexes that it holds there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import msgspec

from nearcast.broker.processing import Outcome
from nearcast.broker.requests import Failure
from nearcast.flow.flow_settings import FlowSettings
from nearcast.flow.ledger import Ledger, covers, overlaps
from nearcast.flow.load_meter import LoadMeter
from nearcast.flow.messages import Done, Owner, Part, TakenFrom, Work, WorkItem
from nearcast.flow.queued import Queued, Source
from nearcast.flow.shedding import Splits
from nearcast.flow.stored import Inherited, StoredInstance
from nearcast.flow.taken_numbers import TakenNumbers
from nearcast.flow.worker import Worker
from nearcast.routing.keys import NetPath
from nearcast.wire.publication import decode_record

__all__ = ["Instance"]

_encode = msgspec.msgpack.Encoder().encode


class Instance:
    """Takes each message of the indexes that it holds once, in the order of its index.

    Parameters
    ----------
    server
        This one.
    where
        Flow, number of its run, component.
    make_worker
        Makes its processor, from a state; gets the list for what goes wrong.
    clock
        The time now: to measure what processing takes.
    """

    def __init__(
        self,
        server: str,
        where: tuple[str, int, str],
        settings: FlowSettings,
        make_worker: Callable[[bytes | None, list[Failure]], Worker],
        stored: StoredInstance,
        clock: Callable[[], float],
    ) -> None:
        self.load = LoadMeter(clock)
        self.server, self.where, self.settings = server, where, settings
        self.ledger = Ledger(stored.ledger)
        self.taken = {
            Source(one.server, one.topic, one.birth): TakenNumbers(one.floor, set(one.numbers))
            for one in stored.taken
        }
        self.inherited = list(stored.inherited)
        self.under_way = {one.message.number: one for one in stored.under_way}
        self.takings = {one.number: one for one in stored.takings}
        self.failures: list[Failure] = []
        """What is to be reported."""
        self.worker = make_worker(stored.state, self.failures)
        self.has_change = False
        """Whether it differs from what is stored."""
        self._queue: deque[Queued] = deque()
        self._queued: set[tuple[Source, int]] = set()
        self._queue_bytes = 0
        self._undurable: set[tuple[Source, int]] = set()
        """Processed, and not stored yet."""
        self.waiting: dict[int, set[str]] = {}
        """Servers that wait to hear who has a part, by hand-over."""
        self.processed = self.early = self.overflowed = 0

    @property
    def queued(self) -> int:
        """Messages that wait for the processor."""
        return len(self._queue)

    @property
    def queue_age_s(self) -> float:
        """How long the oldest of them has waited."""
        return self.load.clock() - self._queue[0].since_s if self._queue else 0.0

    @property
    def splits(self) -> Splits:
        """How its indexes may be divided among servers."""
        return self.worker.splits

    @property
    def has_work(self) -> bool:
        """Whether messages wait, and the processor takes some."""
        return bool(self._queue) and self.worker.has_room

    # Taking messages

    def on_work(self, sender: str, work: Work) -> list[Done | Owner]:
        """Queue messages; return what their outbox is told at once."""
        source = Source(sender, work.topic, work.birth)
        if source not in self.taken:
            self._forget_earlier(source)
        taken = self.taken.setdefault(source, TakenNumbers())
        taken.raise_floor(work.floor)
        done: list[int] = []
        moved: dict[Part, str] = {}
        for item in work.items:
            if self._is_taken(source, item.number, work.net, item.index):
                if (source, item.number) not in self._undurable:
                    done.append(item.number)
            elif (source, item.number) not in self._queued:
                server = self.ledger.server_of(work.net, item.index)
                if server == self.server:
                    self._enqueue(source, work.net, item, taken)
                elif not self._waits(sender, work.net, item.index):
                    moved[self.ledger.part_around(work.net, item.index)] = server
        answers: list[Done | Owner] = [
            Owner(*self.where, part, server) for part, server in moved.items()
        ]
        if done:
            answers.append(Done(*self.where, work.topic, work.birth, tuple(done), None))
        return answers

    def _forget_earlier(self, source: Source) -> None:
        """Forget an outbox that was lost: its server counts anew."""
        for one in [one for one in self.taken if one[:2] == source[:2]]:
            self._drop_source(one)

    def _drop_source(self, source: Source) -> None:
        self._left(one for one in self._queue if one.source == source)
        self._queue = deque(one for one in self._queue if one.source != source)
        del self.taken[source]

    def _enqueue(self, source: Source, net: NetPath, item: WorkItem, taken: TakenNumbers) -> None:
        after = (source, item.after)
        if (
            item.after
            and after not in self._queued
            and not self._is_taken(source, item.after, net, item.index)
        ):
            self.early += 1  # the one before it went elsewhere first; both will be sent again
            return
        try:
            publication = decode_record(source.topic, item.record)
        except ValueError:
            self.failures.append(Failure(f"{source.server} sent bytes that are not a record"))
            return
        size_bytes = self._queue_bytes + len(publication.payload)
        if (
            len(self._queue) >= self.settings.queue_messages
            or (size_bytes > self.settings.queue_bytes and self._queue)
            or len(taken.above) >= self.settings.taken_numbers
        ):
            self.overflowed += 1
            return
        self._queue_bytes = size_bytes
        self._queue.append(
            Queued(source, item.number, net, item.index, publication, self.load.clock())
        )
        self._queued.add((source, item.number))

    def _is_taken(self, source: Source, number: int, net: NetPath, index: int) -> bool:
        if number in self.taken[source]:
            return True
        return any(
            (one.server, one.topic, one.birth) == source
            and (number < one.floor or number in one.numbers)
            for inherited in self.inherited
            if covers(inherited.part, net, index)
            for one in inherited.taken
        )

    def _waits(self, sender: str, net: NetPath, index: int) -> bool:
        """Note who has to hear of a hand-over's end; tell whether the index is under way."""
        for number, one in self.under_way.items():
            if not one.is_taken and covers(one.message.part, net, index):
                self.waiting.setdefault(number, set()).add(sender)
                return True
        return False

    def drop_queued(self, part: Part) -> set[str]:
        """Forget messages of a part that were not begun; return the servers they came from."""
        gone = [one for one in self._queue if covers(part, one.net, one.index)]
        if gone:
            kept = [one for one in self._queue if not covers(part, one.net, one.index)]
            self._queue = deque(kept)
        self._left(gone)
        return {one.source.server for one in gone}

    def _left(self, messages: Iterable[Queued]) -> None:
        for one in messages:
            self._queued.discard(one.key)
            self._queue_bytes -= len(one.publication.payload)

    # Processing

    def process(self, then: Callable[[Sequence[Queued], Outcome], None]) -> None:
        """Process the next messages; what came of them counts when it is stored."""
        limit = self.load.batch_size(self.settings.batch, self.settings.batch_s)
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), limit))]
        self.worker.process(batch, partial(self._on_processed, then))

    def _on_processed(
        self,
        then: Callable[[Sequence[Queued], Outcome], None],
        batch: Sequence[Queued],
        outcome: Outcome,
        elapsed_s: float,
    ) -> None:
        self._left(batch)
        for one in batch:
            taken = self.taken.get(one.source)
            if taken is not None:  # its outbox is not gone since it was begun
                taken.above.add(one.number)
                self._undurable.add(one.key)
        self.failures += outcome.failures
        self.load.note([(one.net, one.index) for one in batch], elapsed_s)
        self.processed += len(batch)
        self.has_change = True
        then(batch, outcome)

    def on_durable(self, batch: Iterable[Queued]) -> list[tuple[str, Done]]:
        """Return what outboxes are told, now that a batch is stored."""
        done: dict[tuple[Source, Part | None], list[int]] = {}
        for one in batch:
            self._undurable.discard(one.key)
            held = self.ledger.server_of(one.net, one.index) == self.server
            part = self.ledger.part_around(one.net, one.index) if held else None
            done.setdefault((one.source, part), []).append(one.number)
        return [
            (source.server, Done(*self.where, *source[1:], tuple(numbers), part))
            for (source, part), numbers in done.items()
        ]

    # Parts come and go

    def gives(self, part: Part) -> bool:
        """Tell whether some of a part is under way to another server."""
        given = (one.message.part for one in self.under_way.values() if not one.is_taken)
        return any(overlaps(one, part) for one in given)

    def take_off(self, part: Part, then: Callable[[bool, bytes | None], bool]) -> None:
        """Take the state of a part off the processor's, once all that was begun is done.

        `then` hears whether that can be done and gets the state; it returns whether it is to be so.
        """
        self.worker.when_idle(partial(self._take_off, part, then))

    def _take_off(self, part: Part, then: Callable[[bool, bytes | None], bool]) -> None:
        worker = self.worker
        if worker.state is None:
            then(True, None)
        elif part.net is not None:
            then(False, None)
        elif worker.splits is Splits.ALL_NETS:
            worker.split(part.low, part.high, lambda state: then(state is not None, state))
        elif self.ledger.parts_of(self.server) != (part,):
            then(False, None)
        elif then(True, worker.state):
            worker.begin_anew()

    def take_in(self, state: bytes | None, then: Callable[[bool], bool]) -> None:
        """Go on from another state as well, once all that was begun is done.

        `then` hears whether that is possible; it returns whether it is to be so.
        """
        self.worker.when_idle(partial(self._take_in, state, then))

    def _take_in(self, state: bytes | None, then: Callable[[bool], bool]) -> None:
        own = self.worker.state
        if own is None or state is None:
            then(own is state and not self.worker.problem)
        else:
            self.worker.take_in(state, then)

    def all_taken(self, part: Part) -> tuple[TakenFrom, ...]:
        """Return which messages of a part were processed, here or before it came here."""
        taken = {
            source: TakenNumbers(one.floor, set(one.above)) for source, one in self.taken.items()
        }
        for inherited in self.inherited:
            if overlaps(inherited.part, part):
                for one in inherited.taken:
                    source = Source(one.server, one.topic, one.birth)
                    taken.setdefault(source, TakenNumbers()).unite(one.floor, one.numbers)
        return tuple(taken_from(taken))

    def inherit(self, part: Part, taken: Iterable[TakenFrom]) -> None:
        """Remember what earlier holders of a part have processed."""
        kept = tuple(one for one in taken if one.floor or one.numbers)
        if kept:
            self.inherited.append(Inherited(part, kept))

    @property
    def inherited_sources(self) -> set[tuple[str, str]]:
        """Servers with topics whose outboxes are asked how far they are done."""
        return {(one.server, one.topic) for each in self.inherited for one in each.taken}

    def on_floor(self, source: Source, floor: int) -> None:
        """Hear from an outbox how far it is done; forget what need not be remembered."""
        if source not in self.taken:
            self._forget_earlier(source)
        self.taken.setdefault(source, TakenNumbers()).raise_floor(floor)
        kept = []
        for one in self.inherited:
            taken = tuple(
                each
                for each in one.taken
                if not self._is_below(each) and not _is_earlier(each, source)
            )
            if taken:
                kept.append(Inherited(one.part, taken))
        self.inherited = kept

    def forget_sources(self, servers: Collection[str]) -> None:
        """Forget the outboxes of servers that are not among these."""
        for source in [one for one in self.taken if one.server not in servers]:
            self._drop_source(source)
        self.inherited = [
            Inherited(one.part, kept)
            for one in self.inherited
            if (kept := tuple(each for each in one.taken if each.server in servers))
        ]

    def _is_below(self, taken: TakenFrom) -> bool:
        own = self.taken.get(Source(taken.server, taken.topic, taken.birth))
        highest = max(taken.floor - 1, *taken.numbers[-1:], 0)
        return own is not None and highest < own.floor

    # Storing

    def stored(self) -> StoredInstance:
        """Return all that it would go on from."""
        return StoredInstance(
            self.worker.state,
            self.ledger.placed(),
            tuple(taken_from(self.taken)),
            tuple(self.inherited),
            tuple(self.under_way.values()),
            tuple(self.takings.values()),
        )

    def take_state(self) -> bytes:
        """Return what is to be stored now."""
        self.has_change = False
        return _encode(self.stored())

    def unsettled(self, net: NetPath, index: int) -> int:
        """Return the last hand-over that brought an index and is not settled; 0: none."""
        found = [one.number for one in self.takings.values() if covers(one.part, net, index)]
        return found[-1] if found else 0


def _is_earlier(taken: TakenFrom, source: Source) -> bool:
    """Tell whether something was taken from an outbox that was lost: its server counts anew."""
    return (taken.server, taken.topic) == source[:2] and taken.birth != source.birth


def taken_from(taken: dict[Source, TakenNumbers]) -> Iterable[TakenFrom]:
    """Return taken numbers as they are stored and sent."""
    for source, numbers in taken.items():
        yield TakenFrom(*source, numbers.floor, tuple(sorted(numbers.above)))
