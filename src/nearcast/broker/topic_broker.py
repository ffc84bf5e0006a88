"""The broker of one topic: gate, queue, processor and spool in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nearcast.broker.actions import Ack, Actions, Nack, Refusal
from nearcast.broker.audiences import SubscriberLookup
from nearcast.broker.handled import Handled
from nearcast.broker.messages import Message, Origin, decode_message, encode_message
from nearcast.broker.processor import Processor
from nearcast.broker.recall import recall
from nearcast.broker.requests import ProcessResult
from nearcast.broker.sequence_gate import Arrival, Ranges, SequenceGate, Verdict, is_well_formed
from nearcast.broker.settling_queue import SettlingQueue
from nearcast.broker.topic_processing import TopicProcessing
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import TopicSpool
from nearcast.spool.changes import LiveTopic, Position

__all__ = ["TopicBroker"]


class TopicBroker:
    """State machine of one topic; `Broker` drives it.

    Parameters
    ----------
    processor
        To be run here; None when a host process has it.
    next_request
        Gives names for requests to the host.
    """

    def __init__(
        self,
        settings: TopicSettings,
        processor: Processor | None,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
        next_request: Callable[[], int],
    ) -> None:
        self.processing = TopicProcessing(settings, processor, clock)
        self.spool = TopicSpool(settings.spool, settings.spool_bytes)
        self.unreadable = 0
        """Records of the log that were no messages."""
        self._gate = SequenceGate()
        self._queue = SettlingQueue(settings, self.processing, self.spool, lookup, next_request)
        self._once: dict[str, tuple[int, int]] = {}
        """Epoch and sequence of each publisher's last message without acknowledgement."""

    @property
    def settings(self) -> TopicSettings:
        """How the topic is managed; other brokers may be put in, for the rest begin anew."""
        return self._queue.settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._queue.settings = settings

    @property
    def pending(self) -> int:
        """Messages that wait for the processor or are with it."""
        return len(self._queue)

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
        actions.reports += self.processing.restore(live.state)
        self._queue.begin(self._gate.positions())
        if durable:
            self.on_durable(self._gate.positions())

    def export(self) -> LiveTopic:
        """Return all that another broker needs to go on from here; what waits comes again."""
        topic = LiveTopic(state=self.processing.state, positions=dict(self._queue.settled))
        topic.records.extend(
            encode_message(message)
            for message in self.spool.view()
            if message.origin is not Origin.ONCE
        )
        return topic

    def handle(
        self, messages: Iterable[Message], from_server: str | None, now_s: float, actions: Actions
    ) -> Handled:
        """Take messages from their publishers, or such that another broker copied here."""
        behind: dict[str, int] = {}  # publishers with missing messages, and up to which
        heard: dict[str, None] = {}  # publishers to be acknowledged, in a fixed order
        may_fill = not self.settings.inline
        for message in messages:
            if may_fill and self._queue.is_full(message.origin) and not self._gate.took(message):
                actions.busy.append(message)
                continue
            verdict, released = self._gate.admit(message, now_s)
            publisher = message.publisher
            if verdict is Verdict.TAKEN:
                heard[publisher] = None
                if from_server is not None:  # publishers are told anyhow
                    self._queue.acknowledge_to(publisher, from_server)
                self._queue.push(released)
            elif verdict is Verdict.DUPLICATE:
                actions.duplicates += 1
                if message.sequence <= self._gate.position(publisher).sequence:
                    heard[publisher] = None
                    self._queue.acknowledge_to(publisher, from_server)
                    self._acknowledge_again(publisher, from_server, actions)
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
                nack = Nack(self.settings.topic, publisher, epoch, missing, from_server)
                actions.nacks.append(nack)
        return self._queue.advance(now_s, actions, heard)

    def handle_once(self, messages: Iterable[Message], now_s: float, actions: Actions) -> Handled:
        """Take messages without acknowledgement: newer ones than before, gaps or not."""
        for message in messages:
            number = (message.epoch, message.sequence)
            if not is_well_formed(message):
                actions.refusals.append(Refusal(message, Verdict.MALFORMED))
            elif number <= self._once.get(message.publisher, (-1, 0)):
                actions.duplicates += 1
            elif self._queue.is_full(message.origin):
                actions.busy.append(message)
            else:
                self._once[message.publisher] = number
                self._queue.push([Arrival(message, now_s)])
        return self._queue.advance(now_s, actions)

    def advance(
        self, publisher: str, epoch: int, through: int, now_s: float, actions: Actions
    ) -> Handled:
        """Stop waiting for a publisher's messages up to `through`: they are settled elsewhere."""
        before = self._gate.position(publisher) if self._gate.knows(publisher) else None
        self._queue.push(self._gate.advance(publisher, epoch, through))
        reached = self._gate.position(publisher)
        if reached != before:
            self._queue.push_position(reached)
        return self._queue.advance(now_s, actions)

    def on_processed(self, result: ProcessResult, now_s: float, actions: Actions) -> Handled:
        """Go on with what the host made of the batch that it has."""
        return self._queue.on_processed(result, now_s, actions)

    def on_durable(self, positions: Iterable[Position]) -> None:
        """Note that a change is synced; duplicates up to there may be acknowledged at once."""
        self._queue.on_durable(positions)

    def recall(self, publisher: str, epoch: int, missing: Ranges) -> tuple[list[Message], int]:
        """Return what is still spooled of missing messages, and the last one that is not, or 0.

        The asking broker gets the messages first, then is told to `advance`.
        """
        return recall(self.spool, publisher, epoch, missing, self._queue.settled.get(publisher))

    def _acknowledge_again(self, publisher: str, server: str | None, actions: Actions) -> None:
        known = self._queue.durable.get(publisher)
        if known is not None and known.epoch == self._gate.position(publisher).epoch:
            ack = Ack(self.settings.topic, publisher, known.epoch, known.sequence, server)
            if ack not in actions.acks:
                actions.acks.append(ack)
