"""The broker of one topic: gate, spool and processor in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from nearcast.broker.actions import Ack, Actions, Copy, Nack, Refusal
from nearcast.broker.audiences import SubscriberLookup, resolve
from nearcast.broker.guard import GuardEvent
from nearcast.broker.messages import Message, Origin, decode_message, encode_message
from nearcast.broker.notifications import Notification, OutgoingNotification
from nearcast.broker.processing import GuardedProcessor, ProcessorReport
from nearcast.broker.processor import Processor
from nearcast.broker.sequence_gate import Ranges, SequenceGate, Verdict
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import TopicSpool
from nearcast.spool.changes import LiveTopic, Position, TopicChange

__all__ = ["Handled", "TopicBroker"]


@dataclass(slots=True)
class Handled:
    """What a batch changed in a topic, and what may happen once that is durable."""

    change: TopicChange | None = None
    notifications: list[OutgoingNotification] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)


class TopicBroker:
    """State machine of one topic; `Broker` drives it."""

    def __init__(
        self,
        settings: TopicSettings,
        processor: Processor,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.processor = GuardedProcessor(settings.topic, processor, settings.guard, clock)
        self.spool = TopicSpool(settings.spool, settings.spool_bytes)
        self.unreadable = 0
        """Records of the log that were no messages."""
        self._gate = SequenceGate()
        self._lookup = lookup
        self._durable: dict[str, Position] = {}

    def restore(self, live: LiveTopic, actions: Actions, *, durable: bool) -> None:
        """Begin with what a log has of the topic (`durable` here already), or another broker."""
        messages = []
        for record in live.records:
            try:
                messages.append(decode_message(self.settings.topic, record))
            except ValueError:
                self.unreadable += 1
        for message in messages:
            self.spool.append(message)
        self._gate.restore(live.positions.values(), messages)
        if durable:
            self.on_durable(self._gate.positions())
        actions.reports += self.processor.restore(live.state)

    def export(self) -> LiveTopic:
        """Return all that another broker needs to go on from here."""
        topic = LiveTopic(state=self.processor.state)
        topic.records.extend(encode_message(message) for message in self.spool.view())
        topic.positions = {one.publisher: one for one in self._gate.positions()}
        return topic

    def handle(self, messages: Iterable[Message], now_s: float, actions: Actions) -> Handled:
        """Take messages that came from their publishers: spool and process them."""
        return self._take(messages, None, now_s, actions)

    def handle_copies(
        self, messages: Iterable[Message], from_server: str, now_s: float, actions: Actions
    ) -> Handled:
        """Take messages that another broker copied here: spool them."""
        return self._take(messages, from_server, now_s, actions)

    def advance(
        self, publisher: str, epoch: int, through: int, now_s: float, actions: Actions
    ) -> Handled:
        """Stop waiting for a publisher's messages up to `through`: they are settled elsewhere."""
        taken = self._gate.advance(publisher, epoch, through)
        return self._settle(taken, {publisher}, [], now_s, actions)

    def recall(self, publisher: str, epoch: int, missing: Ranges) -> tuple[list[Message], int]:
        """Return what is still spooled of missing messages, and the last one that is not, or 0.

        The asking broker gets the messages first, then is told to `advance`.
        """
        spooled = {
            message.sequence: message
            for message in self.spool.view()
            if message.publisher == publisher and message.epoch == epoch
        }
        found = [
            message
            for sequence, message in spooled.items()
            if any(first <= sequence <= last for first, last in missing)
        ]
        known = self._gate.position(publisher) if self._gate.knows(publisher) else None
        gone = 0
        if known is not None and known.epoch == epoch:
            for first, last in missing:
                sequence = min(last, known.sequence)
                while sequence in spooled:
                    sequence -= 1
                if sequence >= first:
                    gone = max(gone, sequence)
        return found, gone

    def on_durable(self, positions: Iterable[Position]) -> None:
        """Note that a change is synced; duplicates up to there may be acknowledged at once."""
        for position in positions:
            known = self._durable.get(position.publisher)
            if known is None or (known.epoch, known.sequence) < (position.epoch, position.sequence):
                self._durable[position.publisher] = position

    def _take(
        self, messages: Iterable[Message], server: str | None, now_s: float, actions: Actions
    ) -> Handled:
        taken: list[Message] = []
        behind: dict[str, int] = {}  # publishers with missing messages, and up to which
        heard: dict[str, None] = {}  # publishers to be acknowledged, in a fixed order
        for message in messages:
            verdict, released = self._gate.admit(message)
            publisher = message.publisher
            if verdict is Verdict.TAKEN:
                taken += released
                heard[publisher] = None
            elif verdict is Verdict.DUPLICATE:
                actions.duplicates += 1
                if message.sequence <= self._gate.position(publisher).sequence:
                    heard[publisher] = None
                    self._acknowledge_again(publisher, server, actions)
                else:  # it still waits, and so does its publisher
                    behind.setdefault(publisher, 0)
            elif verdict is Verdict.HELD:
                actions.held += 1
                behind.setdefault(publisher, 0)
            elif verdict is Verdict.TOO_EARLY:
                behind[publisher] = max(behind.get(publisher, 0), message.sequence)
            else:
                stale = verdict is Verdict.STALE_EPOCH
                epoch = self._gate.position(publisher).epoch if stale else None
                actions.refusals.append(Refusal(message, verdict, epoch))
        for publisher, through in behind.items():
            missing = self._gate.missing(publisher, through)
            if missing:  # they may have come later in this batch
                epoch = self._gate.position(publisher).epoch
                actions.nacks.append(Nack(self.settings.topic, publisher, epoch, missing, server))
        targets = [(publisher, server) for publisher in heard]
        return self._settle(taken, heard, targets, now_s, actions)

    def _settle(
        self,
        taken: Sequence[Message],
        moved: Iterable[str],
        targets: Iterable[tuple[str, str | None]],
        now_s: float,
        actions: Actions,
    ) -> Handled:
        """Spool and process what the gate let through; say what waits for the sync."""
        handled, state = Handled(), None
        whom: dict[str, dict[str | None, None]] = {}  # by publisher, those to acknowledge to
        for publisher, server in targets:
            whom.setdefault(publisher, {})[server] = None
        for origin, run in groupby(taken, attrgetter("origin")):
            messages = list(run)
            for message in messages:
                self.spool.append(message)
            if origin is Origin.DIRECT:
                new_state = self._process(messages, now_s, actions, handled)
                state = state if new_state is None else new_state
                for message in messages:
                    whom.setdefault(message.publisher, {})[None] = None
        positions = {
            publisher: position
            for publisher in dict.fromkeys([*moved, *(message.publisher for message in taken)])
            if (position := self._gate.position(publisher)) != self._durable.get(publisher)
        }
        if positions:
            topic, records = self.settings.topic, tuple(map(encode_message, taken))
            handled.change = TopicChange(
                topic, records, len(self.spool), tuple(positions.values()), state
            )
            handled.acks += [
                Ack(topic, publisher, one.epoch, one.sequence, server)
                for publisher, one in positions.items()
                for server in whom.get(publisher, ())
            ]
        return handled

    def _process(
        self, batch: Sequence[Message], now_s: float, actions: Actions, later: Handled
    ) -> bytes | None:
        result = self.processor.run(batch, self.spool.view(), now_s)
        actions.reports += result.reports
        after_sync = self.settings.notify_after_sync
        notifications = later.notifications if after_sync else actions.notifications
        notifications += self._outgoing(result.notifications, actions, durable=after_sync)
        # only when durable: then a copy means that the message has had its effect here for good
        later.copies += [
            Copy(server, self.settings.topic, tuple(batch))
            for server in self.settings.other_brokers
        ]
        return result.state

    def _outgoing(
        self, notifications: Iterable[Notification], actions: Actions, *, durable: bool
    ) -> Iterator[OutgoingNotification]:
        topic, numbers = self.settings.topic, Counter[tuple[str, int]]()
        for one in notifications:
            cause = one.cause
            if cause is None:  # the guard has put one in
                continue
            try:
                recipients = resolve(self._lookup, topic, one.audience, cause.publisher)
            except Exception as error:  # an audience is users' work too
                actions.reports.append(
                    ProcessorReport(topic, GuardEvent.FAILED, f"audience: {error!r}", cause)
                )
                continue
            number = numbers[cause.publisher, cause.sequence]
            numbers[cause.publisher, cause.sequence] += 1
            if recipients:
                yield OutgoingNotification(
                    topic,
                    cause.publisher,
                    cause.epoch,
                    cause.sequence,
                    number,
                    one.payload,
                    recipients,
                    durable,
                )

    def _acknowledge_again(self, publisher: str, server: str | None, actions: Actions) -> None:
        known = self._durable.get(publisher)
        if known is not None and known.epoch == self._gate.position(publisher).epoch:
            ack = Ack(self.settings.topic, publisher, known.epoch, known.sequence, server)
            if ack not in actions.acks:
                actions.acks.append(ack)
