"""From the gate to the log: publications of a topic are processed, spooled and ready to be stored.

With a processor in this process nothing waits. One in a host process has a few batches on their
way; whatever comes meanwhile waits behind them, copies too, so that each publisher's order is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from nearcast.broker.actions import Actions, Copy
from nearcast.broker.audiences import OutgoingNotification, SubscriberLookup, nearest_of, resolve
from nearcast.broker.guard import GuardEvent, ProcessorReport
from nearcast.broker.notices import Notice, encode_entry, encode_notices, told_clients
from nearcast.broker.notifications import AllSubscribers, notify_of, numbered, own_envelope
from nearcast.broker.requests import Ending, ProcessResult
from nearcast.broker.sequence_gate import SequenceGate
from nearcast.broker.topic_processing import TopicProcessing
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import TopicSpool
from nearcast.broker.urgency import put_urgent_first
from nearcast.spool.changes import Position, TopicChange
from nearcast.wire.envelope import EMPTY, open_envelope
from nearcast.wire.publication import AS_IT_IS, Origin, Publication

__all__ = ["Deferred", "Settlement"]

Step = Publication | Position
"""A publication to be settled, or a position that is reached without one."""

_COPIES_PER_PENDING = 4
"""Nobody can be told to send a copy later, so there is more room for copies to wait."""
_MOST_IN_FLIGHT = 4
"""Batches of a topic on their way to a host: one in work, and the next ones at hand."""
_DIRECT, _COPY, _ONCE = Origin.DIRECT, Origin.COPY, Origin.ONCE


class Deferred(msgspec.Struct):
    """What an event changed in a topic, and what may happen once that is durable."""

    change: TopicChange | None = None
    """Records, positions and state in one piece; None when there is nothing to store."""
    notifications: list[OutgoingNotification] = msgspec.field(default_factory=list)
    copies: list[Copy] = msgspec.field(default_factory=list)
    records: list[bytes] = msgspec.field(default_factory=list)
    positions: dict[str, Position] = msgspec.field(default_factory=dict)
    """How far publishers have come, by id."""
    processed: list[Publication] = msgspec.field(default_factory=list)
    """What was not copied here, in order."""


class _Run(msgspec.Struct):
    """Steps to be spooled only, then a batch to be processed."""

    kept: list[Step]
    batch: list[Publication]
    request: int = 0
    """What the host was asked; 0: nothing, it only waits for its turn."""


class Settlement:
    """Steps of a topic in the order in which they take effect."""

    def __init__(
        self,
        settings: TopicSettings,
        processing: TopicProcessing,
        spool: TopicSpool,
        gate: SequenceGate,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
        next_request: Callable[[], int],
        server: str,
    ) -> None:
        self.settings, self._processing, self._spool = settings, processing, spool
        self._gate, self._lookup, self._clock = gate, lookup, clock
        self._next_request, self._server = next_request, server
        self.pending: deque[Step] = deque()
        """What the gate took and nobody has begun."""
        self.is_mixed = False
        """Whether copies or positions may be among that, which are not processed."""
        self.has_urgent = False
        """Whether something of that may be more urgent than what is before it."""
        self.is_held_up = False
        """Whether nothing of publishers is taken, because a flow is behind."""
        self.forgotten: list[str] = []
        """Publishers that the log has to forget with the next change."""
        self.end = 0
        """The highest offset so far: it counts what was processed here."""
        self._in_flight: deque[_Run] = deque()
        self._singly = 0
        """Publications at the head of the queue that go one by one: together they ended a host."""
        self._untold: deque[Publication] = deque(maxlen=settings.spool)
        """Spooled publications that the host does not have, of those that it would still keep."""
        self._begun: tuple[list[Publication], Deferred] | None = None
        """A batch of this pass that was processed and is not settled yet."""
        self._stored_state, self._stored_aside = processing.state, processing.aside

    def __len__(self) -> int:
        return len(self.pending) + sum(len(run.kept) + len(run.batch) for run in self._in_flight)

    def begin(self) -> None:
        """Begin where a log ends, with the processor's state at that point."""
        for stream in self._gate.streams.values():
            stream.settled = stream.position
        self._stored_state = self._processing.state
        self._stored_aside = self._processing.aside

    def is_full(self, origin: Origin, urgency: int = 0) -> bool:
        """Return whether too many wait to take one more; twice as many for an urgent one."""
        if self.is_held_up and origin is not _COPY:
            return True
        more = _COPIES_PER_PENDING if origin is _COPY else 1 + (urgency > 0)
        return len(self.pending) >= self.settings.room * more

    def begin_batch(self, now_s: float, actions: Actions) -> None:
        """Process what waits, if nothing comes before that; `advance` in the same pass settles it.

        So subscribers can be told before all that need not be done first.
        """
        is_plain = self.settings.inline and not (self.is_mixed or self.has_urgent)
        if self.pending and is_plain and self._begun is None:
            batch, deferred = self._take_run().batch, Deferred()
            self._begun = batch, deferred
            self._process(batch, now_s, actions, deferred)

    def advance(self, now_s: float, actions: Actions, deferred: Deferred | None = None) -> Deferred:
        """Settle what need not wait, ask the host for the next batches; say what to store."""
        if self._begun is not None:
            (batch, deferred), self._begun = self._begun, None
            self._settle(batch, deferred)
        deferred = deferred or Deferred()
        if self.has_urgent:
            self.has_urgent = False
            put_urgent_first(self.pending)
        while self.pending and self._may_begin():
            self._begin_run(self._take_run(), now_s, actions, deferred)
        self._store(deferred)
        return deferred

    def on_processed(self, result: ProcessResult, now_s: float, actions: Actions) -> Deferred:
        """Go on with what the host made of the batch that it had longest."""
        if not self._in_flight or self._in_flight[0].request != result.request:
            return Deferred()  # of an earlier try
        deferred = Deferred()
        run = self._in_flight[0]
        if result.ending is Ending.DONE:
            self._in_flight.popleft()
            self._keep(run.kept)
            self._settle(run.kept, deferred)
            self._keep(run.batch)
            self._finish(run.batch, result, now_s, actions, deferred)
            self._settle(run.batch, deferred)
            self._settle_waiting(deferred)
        else:
            self._processing.asked = False  # the host has lost its processor
            if result.ending is not Ending.CANCELLED:
                batch = tuple(run.batch)
                actions.reports += self._processing.judge_kill(batch, result, now_s)
                if len(batch) == 1:
                    self._in_flight.popleft()
                    steps = [*run.kept, *batch]
                    self._keep(steps)
                    self._settle(steps, deferred)
                else:
                    self._singly = len(batch)
            self._put_back()
        return self.advance(now_s, actions, deferred)

    def _may_begin(self) -> bool:
        return self.settings.inline or len(self._in_flight) < (
            1 if self._singly else _MOST_IN_FLIGHT
        )

    def _take_run(self) -> _Run:
        """Return what comes next in the queue: steps to be spooled only, then a batch."""
        pending = self.pending
        if self.settings.inline and not self.is_mixed:
            whole = _Run([], list(pending))  # type: ignore[arg-type]
            pending.clear()
            return whole
        kept = list[Step]()
        batch = list[Publication]()
        limit = len(pending) if self.settings.inline else self.settings.batch_limit
        if self._singly:
            limit = 1
        while pending and len(batch) < limit:
            step = pending[0]
            if type(step) is Publication and step.origin is not _COPY:
                batch.append(step)
            elif not batch:
                kept.append(step)
            else:
                break
            pending.popleft()
        self._singly = max(0, self._singly - len(batch))
        self.is_mixed = self.is_mixed and bool(pending)
        return _Run(kept, batch)

    def _process(
        self, batch: list[Publication], now_s: float, actions: Actions, deferred: Deferred
    ) -> None:
        """Have the processor here take a batch, unless it rests."""
        may_run, reports = self._processing.may_run(len(batch), now_s)
        actions.reports += reports
        self._keep(batch)
        if may_run:
            result = self._processing.run(batch, self._spool.view())
            self._finish(batch, result, now_s, actions, deferred)

    def _begin_run(self, run: _Run, now_s: float, actions: Actions, deferred: Deferred) -> None:
        if self.settings.inline:  # then nothing is in flight
            if run.kept:
                self._keep(run.kept)
                self._settle(run.kept, deferred)
            if run.batch:
                self._process(run.batch, now_s, actions, deferred)
                self._settle(run.batch, deferred)
            return
        batch, may_run = run.batch, bool(run.batch)
        if batch:
            may_run, reports = self._processing.may_run(len(batch), now_s)
            actions.reports += reports
        if may_run:
            if not self._processing.asked:  # nothing of the topic is on its way then
                self._untold.clear()
                self._note_untold(self._spool.view())
            self._note_untold(run.kept)
            untold = tuple(self._untold)
            run.request = self._next_request()
            request = self._processing.ask(run.request, tuple(batch), untold)
            self._untold.clear()
            self._in_flight.append(run)
            actions.to_process.append(request)
            return
        steps = [*run.kept, *batch]
        self._note_untold(steps)
        if self._in_flight:
            self._in_flight.append(_Run(steps, []))
        else:
            self._keep(steps)
            self._settle(steps, deferred)

    def _note_untold(self, steps: Iterable[Step]) -> None:
        """Remember what the host has to spool before its next batch."""
        self._untold.extend(step for step in steps if type(step) is Publication)

    def _settle_waiting(self, deferred: Deferred) -> None:
        """Settle what only waited for the batch before it."""
        while self._in_flight and not self._in_flight[0].request:
            steps = self._in_flight.popleft().kept
            self._keep(steps)
            self._settle(steps, deferred)

    def _put_back(self) -> None:
        """Let all that is on its way wait again, in its order."""
        for run in reversed(self._in_flight):
            self.pending.extendleft(reversed((*run.kept, *run.batch)))
            self.is_mixed = self.is_mixed or bool(run.kept)
        self._in_flight.clear()

    def _finish(
        self,
        batch: Sequence[Publication],
        result: ProcessResult,
        now_s: float,
        actions: Actions,
        deferred: Deferred,
    ) -> None:
        """Take over what a processor made of a batch, which is to be settled after this."""
        actions.reports += self._processing.judge(batch, result, now_s)
        if result.notifications:
            self._address(result, now_s, actions, deferred)

    def _address(
        self, result: ProcessResult, now_s: float, actions: Actions, deferred: Deferred
    ) -> None:
        """Note notifications with their causes, and find the recipients of each that has some."""
        processed_us = int(self._clock() * 1e6)
        topic, lookup, server = self.settings.topic, self._lookup, self._server
        listed: dict[int, tuple[Publication, list[Notice]]] = {}
        for one, cause, part in numbered(result.notifications):
            try:
                own = own_envelope(one, cause)
                envelope = cause.envelope if own is None else own
                opened = open_envelope(envelope) if envelope else EMPTY
                is_chosen = opened is not EMPTY and opened.is_for_nearest
                recipients, left_out = (nearest_of if is_chosen else resolve)(
                    lookup,
                    topic,
                    one.audience,
                    cause.publisher,
                    opened,
                    (cause.x_km, cause.y_km),
                    now_s,
                )
            except Exception as error:  # an audience is users' work too, and so are attributes
                detail = f"audience: {error!r}"
                actions.reports.append(ProcessorReport(topic, GuardEvent.FAILED, detail, cause))
                continue
            if cause.origin is not _ONCE:
                audience = one.audience
                says_the_same = own is None and one.payload == cause.payload
                if type(audience) is AllSubscribers and says_the_same and not (part or is_chosen):
                    cause.notices = AS_IT_IS
                else:
                    clients = told_clients(audience, recipients.clients, is_chosen)
                    known = listed.setdefault(id(cause), (cause, []))[1]
                    known.append(Notice(part, one.payload, clients, own))
            if len(recipients.clients) > bool(left_out):
                after_sync = self.settings.notify_after_sync and cause.origin is not _ONCE
                is_for_all = type(one.audience) is AllSubscribers and (
                    opened is EMPTY or opened.is_for_all
                )
                previous = self._tell(cause) if is_for_all else 0
                notify = notify_of(
                    cause, part, one.payload, server, processed_us, previous, envelope
                )
                place = (cause.x_km, cause.y_km) if lookup.has_areas else None
                told = OutgoingNotification(notify, recipients, left_out, after_sync, place)
                (deferred if after_sync else actions).notifications.append(told)
        for cause, notices in listed.values():
            if cause.notices is AS_IT_IS:
                notices.insert(0, Notice(0, cause.payload))
            cause.notices = encode_notices(notices)

    def _tell(self, cause: Publication) -> int:
        """Note that all subscribers are told of a publication; return which they heard before."""
        if cause.origin is _ONCE:
            return 0  # such are worth little when they come late: they wait for none
        stream, before = self._gate.streams[cause.publisher], cause.sequence - 1
        epoch, told = stream.told
        if cause.epoch < epoch:
            return before
        if cause.epoch > epoch:
            told = 0
        stream.told = (cause.epoch, max(told, cause.sequence))
        return min(told, before)

    def _keep(self, steps: Iterable[Step]) -> None:
        append = self._spool.append
        for step in steps:
            if type(step) is Publication:
                if step.origin is _DIRECT:
                    self.end = step.offset = self.end + 1
                append(step)

    def _settle(self, steps: Iterable[Step], deferred: Deferred) -> None:
        """Note what is to be stored, copied and acknowledged of steps that are done."""
        direct, reached = [], dict[str, Step]()
        streams, records = self._gate.streams, deferred.records
        for step in steps:
            if type(step) is Publication:
                origin = step.origin
                if origin is not _COPY:
                    deferred.processed.append(step)
                if origin is _ONCE:
                    continue
                if origin is _DIRECT:
                    direct.append(step)
                records.append(encode_entry(step))
            else:  # others have told all up to here
                stream = streams[step.publisher]
                stream.told = max(stream.told, (step.epoch, step.sequence))
            publisher = step.publisher
            reached[publisher] = step
            streams[publisher].pending -= 1
        for publisher, step in reached.items():
            position = Position(publisher, step.epoch, step.sequence)
            deferred.positions[publisher] = streams[publisher].settled = position
        settings = self.settings
        if direct and settings.keepers:
            # only when durable: then a copy means that the message has had its effect for good
            deferred.copies += [
                Copy(server, settings.topic, tuple(direct), settings.level > 1)
                for server in settings.keepers
            ]

    def _store(self, deferred: Deferred) -> None:
        """Put records, positions and state into one change."""
        if deferred.positions:
            for publisher in self.forgotten:
                deferred.positions.setdefault(publisher, Position(publisher, 0, 0))
            self.forgotten.clear()
            state, aside = self._processing.state, self._processing.aside
            deferred.change = TopicChange(
                self.settings.topic,
                tuple(deferred.records),
                self._spool.durable,
                tuple(deferred.positions.values()),
                (state or b"") if state != self._stored_state else None,
                end=self.end,
                aside=aside if aside != self._stored_aside else None,
            )
            self._stored_state, self._stored_aside = state, aside
