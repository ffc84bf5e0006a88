"""The broker of a server: its topics, and what waits until it is durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from nearcast.broker.actions import Actions, Refusal
from nearcast.broker.audiences import SubscriberLookup
from nearcast.broker.messages import Message, Origin
from nearcast.broker.processor import Processor
from nearcast.broker.registry import make_processor
from nearcast.broker.sequence_gate import Ranges
from nearcast.broker.topic_broker import Handled, TopicBroker
from nearcast.broker.topic_settings import TopicSettings
from nearcast.errors import ConfigError
from nearcast.spool.changes import Group, LiveTopic, TopicChange

__all__ = ["Broker"]

MakeProcessor = Callable[[TopicSettings], Processor]


def _by_name(settings: TopicSettings) -> Processor:
    return make_processor(settings.processor, settings.options)


class Broker:
    """All topics that a server manages.

    Every method that changes something returns `Actions`. The caller appends ``to_store`` to the
    log in the order it gets them, does the rest at once, and calls `on_committed` with the tickets
    that the log gives back after a sync.

    Parameters
    ----------
    lookup
        Knows the subscribers of topics.
    clock
        Measures how long processors take, in seconds.
    make
        Makes the processor of a topic; by its name in this process when left out. A runtime gives
        one that puts users' code into a process of its own.
    """

    def __init__(
        self,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
        make: MakeProcessor = _by_name,
    ) -> None:
        self._lookup, self._clock, self._make = lookup, clock, make
        self._ticket = 0
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
        topic = TopicBroker(settings, self._make(settings), self._lookup, self._clock)
        actions = Actions()
        if live is not None:
            topic.restore(live, actions, durable=stored)
        self.topics[settings.topic] = topic
        if live is not None and not stored:
            change = TopicChange(
                settings.topic,
                tuple(live.records),
                len(topic.spool),
                tuple(live.positions.values()),
                live.state,
            )
            self._store([Handled(change)], actions)
        return actions

    def remove_topic(self, topic: str) -> Actions:
        """Stop managing a topic and forget it; `export_topic` first if it moves elsewhere."""
        self.topics.pop(topic, None)
        actions = Actions()
        self._store([Handled(TopicChange(topic, ended=True))], actions)
        return actions

    def export_topic(self, topic: str) -> LiveTopic:
        """Return all that another broker needs to go on with a topic."""
        return self.topics[topic].export()

    def handle(self, batch: Iterable[Message], now_s: float) -> Actions:
        """Take messages from their publishers."""
        actions, handled = Actions(), []
        for topic, messages in self._by_topic(batch, Origin.DIRECT, actions):
            handled.append(topic.handle(messages, now_s, actions))
        self._store(handled, actions)
        return actions

    def handle_copies(self, batch: Iterable[Message], from_server: str, now_s: float) -> Actions:
        """Take messages that another broker of their topics copied here: spool them."""
        actions, handled = Actions(), []
        for topic, messages in self._by_topic(batch, Origin.COPY, actions):
            handled.append(topic.handle_copies(messages, from_server, now_s, actions))
        self._store(handled, actions)
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

    @property
    def waiting(self) -> int:
        """Groups that are not durable yet."""
        return len(self._waiting)

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
                message = replace(message, origin=origin)
            by_topic.setdefault(message.topic, []).append(message)
        return [(self.topics[topic], messages) for topic, messages in by_topic.items()]
