"""What waits in a topic until it is settled: processed, spooled and ready to be stored.

With a processor in this process the queue is empty again at once. One in a host process has one
batch at a time; meanwhile everything waits, copies too, so that each publisher's order is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from nearcast.broker.actions import Ack, Actions, Copy
from nearcast.broker.audiences import SubscriberLookup
from nearcast.broker.handled import Handled
from nearcast.broker.messages import Origin, encode_message
from nearcast.broker.outgoing import address
from nearcast.broker.requests import Ending, ProcessRequest, ProcessResult
from nearcast.broker.sequence_gate import Arrival
from nearcast.broker.topic_processing import TopicProcessing
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import TopicSpool
from nearcast.spool.changes import Position, TopicChange

__all__ = ["SettlingQueue"]

Step = Arrival | Position
"""A message to be settled, or a position that is reached without one."""

_COPIES_PER_PENDING = 4
"""Nobody can be told to send a copy later, so there is more room for copies to wait."""


class SettlingQueue:
    """Steps of a topic in the order in which they take effect."""

    def __init__(
        self,
        settings: TopicSettings,
        processing: TopicProcessing,
        spool: TopicSpool,
        lookup: SubscriberLookup,
        next_request: Callable[[], int],
    ) -> None:
        self.settings, self._processing, self._spool = settings, processing, spool
        self._lookup, self._next_request = lookup, next_request
        self._pending: deque[Step] = deque()
        self._out: tuple[ProcessRequest, list[Arrival]] | None = None
        self._singly = 0
        """So many at the head of the queue go one by one: together they ended the process."""
        self._unsettled: dict[str, int] = {}
        """Steps of a publisher that are in the queue or with the host."""
        self._ack_to: dict[str, dict[str | None, None]] = {}
        """By publisher, whom to tell when its messages are settled; None: the publisher."""
        self._stored_state = processing.state
        self.settled: dict[str, Position] = {}
        """How far publishers have come, by id."""
        self.durable: dict[str, Position] = {}
        """How far they had come when the log was last synced."""

    def __len__(self) -> int:
        return len(self._pending) + (len(self._out[1]) if self._out else 0)

    def begin(self, positions: Iterable[Position]) -> None:
        """Begin where a log ends, with the processor's state of then."""
        self.settled = {one.publisher: one for one in positions}
        self._stored_state = self._processing.state

    def is_full(self, origin: Origin) -> bool:
        """Return whether too many wait to take one more."""
        if self.settings.inline:
            return False
        copies = _COPIES_PER_PENDING if origin is Origin.COPY else 1
        return len(self._pending) >= self.settings.pending_limit * copies

    def push(self, arrivals: Iterable[Arrival]) -> None:
        """Let messages wait; who sent them directly will be told."""
        for one in arrivals:
            self._pending.append(one)
            publisher, origin = one.message.publisher, one.message.origin
            if origin is not Origin.ONCE:
                self._unsettled[publisher] = self._unsettled.get(publisher, 0) + 1
            if origin is Origin.DIRECT:
                self.acknowledge_to(publisher, None)

    def push_position(self, position: Position) -> None:
        """Let a position wait that is reached without its message."""
        last = self._pending[-1] if self._pending else None
        if isinstance(last, Position) and last.publisher == position.publisher:
            self._pending[-1] = position
        else:
            self._pending.append(position)
            self._unsettled[position.publisher] = self._unsettled.get(position.publisher, 0) + 1

    def acknowledge_to(self, publisher: str, server: str | None) -> None:
        """Tell a server, or the publisher itself, when the publisher's messages are durable."""
        self._ack_to.setdefault(publisher, {})[server] = None

    def advance(
        self,
        now_s: float,
        actions: Actions,
        heard: Iterable[str] = (),
        handled: Handled | None = None,
    ) -> Handled:
        """Settle what need not wait, ask the host for the next batch; say what to store."""
        handled = handled or Handled()
        while self._pending and self._out is None:
            kept, batch = self._take_run()
            if kept:
                self._keep(kept)
                self._settle(kept, handled)
            if batch:
                self._process(batch, now_s, actions, handled)
        for publisher in heard:  # a duplicate may tell of somebody else to be acknowledged to
            if publisher not in self._unsettled and publisher in self.settled:
                handled.positions.setdefault(publisher, self.settled[publisher])
        self._store(handled)
        return handled

    def on_processed(self, result: ProcessResult, now_s: float, actions: Actions) -> Handled:
        """Go on with what the host made of the batch that it has."""
        if self._out is None or self._out[0].request != result.request:
            return Handled()
        (request, batch), self._out = self._out, None
        handled = Handled()
        if result.ending is Ending.DONE:
            self._keep(batch)
            self._finish(batch, result, now_s, actions, handled)
        elif result.ending is Ending.CANCELLED:
            self._processing.asked = False
            self._pending.extendleft(reversed(batch))
        else:
            self._processing.asked = False
            actions.reports += self._processing.judge_kill(request.batch, result, now_s)
            if len(batch) > 1:
                self._pending.extendleft(reversed(batch))
                self._singly = len(batch)
            else:
                self._keep(batch)
                self._settle(batch, handled)
        return self.advance(now_s, actions, handled=handled)

    def on_durable(self, positions: Iterable[Position]) -> None:
        """Note that a change is synced; duplicates up to there may be acknowledged at once."""
        for position in positions:
            known = self.durable.get(position.publisher)
            if known is None or (known.epoch, known.sequence) < (position.epoch, position.sequence):
                self.durable[position.publisher] = position

    def _take_run(self) -> tuple[list[Step], list[Arrival]]:
        """Return what comes next in the queue: steps to be spooled only, then a batch."""
        kept: list[Step] = []
        batch: list[Arrival] = []
        limit = len(self._pending) if self.settings.inline else self.settings.batch_limit
        while self._pending and len(batch) < (1 if self._singly else limit):
            step = self._pending[0]
            if not isinstance(step, Position) and step.message.origin is not Origin.COPY:
                batch.append(step)
            elif not batch:
                kept.append(step)
            else:
                break
            self._pending.popleft()
        self._singly = max(0, self._singly - len(batch))
        return kept, batch

    def _process(
        self, batch: list[Arrival], now_s: float, actions: Actions, handled: Handled
    ) -> None:
        may_run, reports = self._processing.may_run(len(batch), now_s)
        actions.reports += reports
        messages = tuple(one.message for one in batch)
        if not may_run:
            self._keep(batch)
            self._settle(batch, handled)
        elif self.settings.inline:
            self._keep(batch)
            result = self._processing.run(messages, self._spool.view())
            self._finish(batch, result, now_s, actions, handled)
        else:
            request = self._processing.ask(self._next_request(), messages, self._spool.view())
            self._out = (request, batch)
            actions.to_process.append(request)

    def _finish(
        self,
        batch: Sequence[Arrival],
        result: ProcessResult,
        now_s: float,
        actions: Actions,
        handled: Handled,
    ) -> None:
        """Take over what a processor made of a batch."""
        messages = [one.message for one in batch]
        actions.reports += self._processing.judge(messages, result, now_s)
        after_sync = self.settings.notify_after_sync
        for told in address(
            result.notifications, batch, self._lookup, actions.reports, after_sync=after_sync
        ):
            (handled if told.durable else actions).notifications.append(told)
        self._settle(batch, handled)

    def _keep(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if not isinstance(step, Position):
                self._spool.append(step.message)

    def _settle(self, steps: Iterable[Step], handled: Handled) -> None:
        """Note what is to be stored, copied and acknowledged of steps that are done."""
        direct, reached = [], dict[str, Step]()
        unsettled = self._unsettled
        for step in steps:
            if isinstance(step, Position):
                publisher = step.publisher
            else:
                message = step.message
                if message.origin is Origin.ONCE:
                    continue
                if message.origin is Origin.DIRECT:
                    direct.append(message)
                handled.records.append(encode_message(message))
                publisher = message.publisher
            reached[publisher] = step
            unsettled[publisher] -= 1
            if not unsettled[publisher]:
                del unsettled[publisher]
        for publisher, step in reached.items():
            handled.positions[publisher] = self.settled[publisher] = _position(step)
        if direct:
            # only when durable: then a copy means that the message has had its effect for good
            handled.copies += [
                Copy(server, self.settings.topic, tuple(direct))
                for server in self.settings.other_brokers
            ]

    def _store(self, handled: Handled) -> None:
        """Put records, positions and state into one change, and say whom to tell of it."""
        topic, state = self.settings.topic, self._processing.state
        moved = {
            publisher: position
            for publisher, position in handled.positions.items()
            if position != self.durable.get(publisher)
        }
        if moved:
            handled.change = TopicChange(
                topic,
                tuple(handled.records),
                self._spool.durable,
                tuple(moved.values()),
                state if state != self._stored_state else None,
            )
            self._stored_state = state
            handled.acks += [
                Ack(topic, publisher, position.epoch, position.sequence, server)
                for publisher, position in moved.items()
                for server in self._ack_to.get(publisher, ())
            ]
        for publisher in handled.positions:
            if publisher not in self._unsettled:
                self._ack_to.pop(publisher, None)


def _position(step: Step) -> Position:
    if isinstance(step, Position):
        return step
    message = step.message
    return Position(message.publisher, message.epoch, message.sequence)
