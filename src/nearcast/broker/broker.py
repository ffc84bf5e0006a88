"""The broker of a server: its topics, and what waits until it is durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from nearcast.broker.actions import Actions, Refusal
from nearcast.broker.audiences import SubscriberLookup
from nearcast.broker.handled import Handled
from nearcast.broker.messages import Message, Origin
from nearcast.broker.processor import Processor
from nearcast.broker.registry import make_processor
from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.broker.sequence_gate import Ranges
from nearcast.broker.topic_broker import TopicBroker
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.usage import BrokerUsage, usage_of
from nearcast.errors import ConfigError
from nearcast.spool.changes import Group, LiveTopic, TopicChange

__all__ = ["Broker"]

MakeProcessor = Callable[[TopicSettings], Processor]


def _by_name(settings: TopicSettings) -> Processor:
    return make_processor(settings.processor, settings.options)


class Broker:
    """All topics that a server manages.

    Every method that changes something returns `Actions`. The caller appends ``to_store`` to the
    log in the order it gets them, gives ``to_process`` to a host of processors, does the rest at
    once, and calls `on_committed` with the tickets that the log gives back after a sync and
    `on_processed` with the results that the host gives back.

    Parameters
    ----------
    lookup
        Knows the subscribers of topics.
    clock
        Measures how long processors take, in seconds.
    make
        Makes the processor of a topic that is `inline`; by its name when left out.
    """

    def __init__(
        self,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
        make: MakeProcessor = _by_name,
    ) -> None:
        self._lookup, self._clock, self._make = lookup, clock, make
        self._ticket = self._request = 0
        self._waiting: dict[int, list[Handled]] = {}
        self.topics: dict[str, TopicBroker] = {}

    def add_topic(
        self, settings: TopicSettings, live: LiveTopic | None = None, *, stored: bool = False
    ) -> Actions:
        """Begin to manage a topic.

        Parameters
        ----------
        live
            What the log recovered of it, or what another broker exported.
        stored
            Whether this server's log has `live` already.
        """
        if settings.topic in self.topics:
            raise ConfigError(f"topic {settings.topic!r} is managed here already")
        processor = self._make(settings) if settings.inline else None
        topic = TopicBroker(settings, processor, self._lookup, self._clock, self._next_request)
        actions = Actions()
        if live is not None:
            topic.restore(live, actions, durable=stored)
        self.topics[settings.topic] = topic
        if live is not None and not stored:
            change = TopicChange(
                settings.topic,
                tuple(live.records),
                topic.spool.durable,
                tuple(live.positions.values()),
                live.state,
            )
            self._store([Handled(change=change)], actions)
        return actions

    def remove_topic(self, topic: str) -> Actions:
        """Stop managing a topic and forget it; `export_topic` first if it moves elsewhere."""
        actions, managed = Actions(), self.topics.pop(topic, None)
        if managed is not None and managed.processing.asked:
            actions.to_process.append(
                ProcessRequest(managed.settings, self._next_request(), (), (), None, ended=True)
            )
        self._store([Handled(change=TopicChange(topic, ended=True))], actions)
        return actions

    def export_topic(self, topic: str) -> LiveTopic:
        """Return all that another broker needs to go on with a topic."""
        return self.topics[topic].export()

    def handle(self, batch: Iterable[Message], now_s: float) -> Actions:
        """Take messages from their publishers."""
        actions, handled = Actions(), []
        for topic, messages in self._by_topic(batch, Origin.DIRECT, actions):
            handled.append(topic.handle(messages, None, now_s, actions))
        self._store(handled, actions)
        return actions

    def handle_copies(self, batch: Iterable[Message], from_server: str, now_s: float) -> Actions:
        """Take messages that another broker of their topics copied here: spool them."""
        actions, handled = Actions(), []
        for topic, messages in self._by_topic(batch, Origin.COPY, actions):
            handled.append(topic.handle(messages, from_server, now_s, actions))
        self._store(handled, actions)
        return actions

    def handle_once(self, batch: Iterable[Message], now_s: float) -> Actions:
        """Take messages whose publishers want no acknowledgement; a restart forgets them."""
        actions, handled = Actions(), []
        for topic, messages in self._by_topic(batch, Origin.ONCE, actions):
            handled.append(topic.handle_once(messages, now_s, actions))
        self._store(handled, actions)
        return actions

    def on_processed(self, result: ProcessResult, now_s: float) -> Actions:
        """Go on with what a host made of a request; one that nobody waits for changes nothing."""
        actions = Actions()
        if result.topic in self.topics:
            self._store([self.topics[result.topic].on_processed(result, now_s, actions)], actions)
        return actions

    def advance(
        self, topic: str, publisher: str, epoch: int, through: int, now_s: float
    ) -> Actions:
        """Stop waiting for messages that their sender says are settled and cannot send again."""
        actions = Actions()
        if topic in self.topics:
            managed = self.topics[topic]
            handled = managed.advance(publisher, epoch, through, now_s, actions)
            self._store([handled], actions)
        return actions

    def recall(
        self, topic: str, publisher: str, epoch: int, missing: Ranges
    ) -> tuple[list[Message], int]:
        """Return spooled messages that another broker misses, and up to where they are gone."""
        managed = self.topics.get(topic)
        return ([], 0) if managed is None else managed.recall(publisher, epoch, missing)

    def on_committed(self, tickets: Iterable[int]) -> Actions:
        """Return what has waited for groups to be durable: acks, copies, notifications."""
        actions = Actions()
        for ticket in tickets:
            for handled in self._waiting.pop(ticket, ()):
                actions.notifications += handled.notifications
                actions.copies += handled.copies
                actions.acks += handled.acks
                change = handled.change
                if change is not None and change.topic in self.topics:
                    self.topics[change.topic].on_durable(change.positions)
        # acks are cumulative: the last one of a publisher says all
        last = {(ack.topic, ack.publisher, ack.to_server): ack for ack in actions.acks}
        actions.acks = list(last.values())
        return actions

    def usage(self) -> BrokerUsage:
        """Return what all topics hold, for status and metrics."""
        return usage_of(self.topics)

    @property
    def waiting(self) -> int:
        """Groups that are not durable yet."""
        return len(self._waiting)

    def _next_request(self) -> int:
        self._request += 1
        return self._request

    def _store(self, handled: Sequence[Handled], actions: Actions) -> None:
        changed = [one for one in handled if one.change is not None]
        if changed:
            self._ticket += 1
            self._waiting[self._ticket] = changed
            changes = tuple(one.change for one in changed if one.change is not None)
            actions.to_store = Group(self._ticket, changes)

    def _by_topic(
        self, batch: Iterable[Message], origin: Origin, actions: Actions
    ) -> Iterable[tuple[TopicBroker, list[Message]]]:
        by_topic: dict[str, list[Message]] = {}
        for message in batch:
            if message.topic not in self.topics:
                actions.refusals.append(Refusal(message, None))
                continue
            if message.origin is not origin:
                message = structs.replace(message, origin=origin, encoded=b"")
            by_topic.setdefault(message.topic, []).append(message)
        return [(self.topics[topic], messages) for topic, messages in by_topic.items()]
