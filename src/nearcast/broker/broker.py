"""The broker of a server: its topics, and what waits until it is durable.

A pass of the server gives publications to `admit`, `admit_copy` and `admit_once`, and ends with
`run`, which processes them topic by topic. Every method that returns `Actions` wants them done:
``to_store`` appended to the log in the order it comes, ``to_process`` given to a host of
processors, the rest at once; `on_committed` gets the tickets that the log gives back after a sync,
`on_processed` the results of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import count

from msgspec import structs

from nearcast.broker.actions import Ack, Actions, Copy, Refusal
from nearcast.broker.audiences import OutgoingNotification, SubscriberLookup
from nearcast.broker.broker_claims import BrokerClaims
from nearcast.broker.broker_pass import BrokerPass
from nearcast.broker.deferred_groups import DeferredGroups, Tap, no_tap
from nearcast.broker.processor import Processor, ProcessorWatch
from nearcast.broker.registry import make_processor
from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.broker.sequence_gate import Ranges
from nearcast.broker.settlement import Deferred
from nearcast.broker.topic_broker import TopicBroker
from nearcast.broker.topic_settings import TopicSettings
from nearcast.errors import ConfigError
from nearcast.spool.changes import GENERATION, LiveTopic, Position, TopicChange
from nearcast.trust.topic_pattern import is_pattern, matches
from nearcast.wire.publication import NO_NOTICES, Origin, Publication

__all__ = ["Broker"]

MakeProcessor = Callable[[TopicSettings], Processor]


def _by_name(settings: TopicSettings) -> Processor:
    return make_processor(settings.processor, settings.options)


class Broker:
    """All topics that a server manages.

    Parameters
    ----------
    lookup
        Knows the subscribers of topics.
    clock
        Unix time in seconds: measures how long processors take and stamps what they made.
    make
        Makes the processor of a topic that is `inline`; by its name when left out.
    watch
        Is told when such a processor runs.
    server
        This server's id, which notifications and claims name.
    incarnation
        Another number after each start of the server.
    first_offset
        What the offsets of topics that are new here begin after.
    tap
        Returns what else is stored with publications of a topic that were processed here.
    next_ticket
        Gives the names of groups, where others store groups too.
    """

    def __init__(
        self,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
        make: MakeProcessor = _by_name,
        watch: ProcessorWatch | None = None,
        server: str = "",
        incarnation: int = 0,
        first_offset: int = 0,
        tap: Tap = no_tap,
        next_ticket: Callable[[], int] | None = None,
    ) -> None:
        self._server, self._incarnation, self._first_offset = server, incarnation, first_offset
        self._lookup, self._clock, self._make, self._watch = lookup, clock, make, watch
        self._request = 0
        self._groups = DeferredGroups(tap, next_ticket or count(1).__next__)
        self._pass = BrokerPass()
        self.topics: dict[str, TopicBroker] = {}
        self.claims = BrokerClaims(self.topics, self._pass)

    # Topics

    def concerns(self, wanted: str) -> bool:
        """Tell whether a subscription concerns any topic here."""
        topics = self.topics
        if not is_pattern(wanted):
            return wanted in topics
        return any(matches(wanted, topic) for topic in topics)

    def ends(self, wanted: str) -> dict[str, int]:
        """Return the highest offsets of the topics here that a subscription concerns."""
        topics = self.topics
        if not is_pattern(wanted):
            return {wanted: topics[wanted].end} if wanted in topics else {}
        return {topic: one.end for topic, one in topics.items() if matches(wanted, topic)}

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
        topic = TopicBroker(
            settings,
            processor,
            self._lookup,
            self._clock,
            self._next_request,
            self._watch,
            self._server,
            self._incarnation,
            self._first_offset,
        )
        actions = Actions()
        if live is not None:
            topic.restore(live, actions, durable=stored)
        self.topics[settings.topic] = topic
        self.claims.note(topic)
        if live is not None and not stored:
            change = TopicChange(
                settings.topic,
                tuple(live.records),
                topic.spool.durable,
                tuple(live.positions.values()),
                live.state,
                end=topic.end,
                aside=live.aside or None,
            )
            self._groups.store([Deferred(change)], actions)
        return actions

    def remove_topic(self, topic: str) -> Actions:
        """Stop managing a topic and forget it; `export_topic` first if it moves elsewhere."""
        actions, managed = Actions(), self.topics.pop(topic, None)
        self.claims.forget(topic)
        if managed is not None and managed.processing.asked:
            forget = ProcessRequest(managed.settings, self._next_request(), (), (), ended=True)
            actions.to_process.append(forget)
        self._groups.store([Deferred(TopicChange(topic, ended=True))], actions)
        return actions

    def expire_topic(self, topic: str) -> Actions:
        """Forget a topic that nobody uses; should it come back, its offsets go on rising.

        Thus a home that asks for what came after an offset hears that something is missing, maybe more
        than there was.
        """
        self._first_offset = max(self._first_offset, self.topics[topic].end + GENERATION)
        return self.remove_topic(topic)

    def forgotten_since(self, since: int) -> int:
        """Return how many publications after an offset a topic that is gone may have had."""
        return max(0, self._first_offset % GENERATION - since % GENERATION) if since else 0

    def hold_up(self, topics: Container[str]) -> None:
        """Send publishers of these topics back for a while, and those of no others."""
        for name, topic in self.topics.items():
            topic.hold_up(name in topics)

    def export_topic(self, topic: str) -> LiveTopic:
        """Return all that another broker needs to go on with a topic."""
        return self.topics[topic].export()

    def share(self, topic: str, server: str) -> None:
        """Copy what was processed here to a broker that is new, as soon as all of it is durable."""
        spool = self.topics[topic].spool.view()
        own = tuple(one for one in spool if one.origin is Origin.DIRECT)
        copy = Copy(server, topic, own, is_bulk=True)
        if not self._groups.put_off(copy):
            self._pass.actions.copies.append(copy)
            self._pass.has_answers = True

    # A pass

    def admit(
        self,
        publication: Publication,
        home: str | None,
        now_s: float,
        version: int | None = None,
    ) -> None:
        """Take a publication from its publisher, or from its publisher's home.

        Parameters
        ----------
        version
            Of the topic's assignment by which the home goes.
        """
        topic = self._topic_of(publication)
        if topic is not None:
            topic.admit(publication, home, now_s, self._pass.actions, version)

    def admit_copy(self, publication: Publication, copied_by: str) -> None:
        """Take a publication that another broker of its topic copied here: it is spooled only."""
        topic = self._topic_of(publication)
        if topic is not None:
            if publication.origin is not Origin.COPY:
                publication = structs.replace(
                    publication, origin=Origin.COPY, encoded=b"", offset=0, notices=NO_NOTICES
                )
            topic.admit_copy(publication, copied_by, self._pass.actions)

    def admit_once(self, publication: Publication, home: str | None = None) -> None:
        """Take a publication whose publisher wants no acknowledgement; a restart forgets it."""
        topic = self._topic_of(publication)
        if topic is not None:
            topic.admit_once(publication, home, self._pass.actions)

    def advance(self, topic: str, publisher: str, epoch: int, through: int) -> None:
        """Stop waiting for messages that their sender says are settled and cannot send again."""
        managed = self.topics.get(topic)
        if managed is not None:
            managed.advance(publisher, epoch, through)
            self._pass.mark_due(managed)

    @property
    def has_work(self) -> bool:
        """Whether the pass has brought anything that `run` has to do."""
        return bool(self._pass.due) or self._pass.has_answers

    def begin(self, now_s: float) -> list[OutgoingNotification]:
        """Process what was admitted as far as nothing else comes first; return whom to tell what.

        `run` in the same pass does the rest.
        """
        actions = self._pass.actions
        for topic in () if self._pass.has_urgent else self._pass.due:  # those have their order
            try:
                topic.begin(now_s, actions)
            except Exception as error:  # a bug: the other topics go on
                actions.failures.append((topic.settings.topic, error))
        told, actions.notifications = actions.notifications, []
        return told

    def run(self, now_s: float) -> Actions:
        """End a pass: process what was admitted; return all that follows from it."""
        actions, due = self._pass.take()
        deferred = []
        for topic in due:
            if self.topics.get(topic.settings.topic) is topic:  # else it was removed meanwhile
                try:
                    deferred.append(topic.run(now_s, actions))
                except Exception as error:  # a bug: the other topics go on
                    actions.failures.append((topic.settings.topic, error))
                self.claims.note(topic)
        self._groups.store(deferred, actions)
        return actions

    # Acknowledgements of two servers, see `acknowledgements`

    def owe_copies(self, topic: str, publishers: Iterable[str], server: str) -> None:
        """Note that a broker wants to know when what it has copied here is durable."""
        managed = self.topics.get(topic)
        if managed is not None:
            for publisher in publishers:
                managed.acknowledgements.owe(publisher, server)
            self._pass.mark_due(managed)

    def on_copy_ack(self, topic: str, position: Position) -> None:
        """Hear that a second server has messages, durably."""
        managed = self.topics.get(topic)
        if managed is not None and managed.settings.level > 1:
            managed.acknowledgements.secure(position, self._pass.actions)
            self._pass.has_answers = True

    def refuse_unsecured(self, now_s: float, patience_s: float) -> None:
        """Refuse messages that no second server has taken for a while."""
        for topic in self.topics.values():
            if topic.acknowledgements.are_due:
                topic.acknowledgements.refuse_unsecured(now_s, patience_s, self._pass.actions)
                self._pass.has_answers = True

    # What comes later

    def on_processed(self, result: ProcessResult, now_s: float) -> Actions:
        """Go on with what a host made of a request; one that nobody waits for changes nothing."""
        actions = Actions()
        if result.topic in self.topics:
            self._groups.store(
                [self.topics[result.topic].on_processed(result, now_s, actions)], actions
            )
        return actions

    def on_committed(self, tickets: Iterable[int]) -> Actions:
        """Return what has waited for groups to be durable: acks, copies, notifications."""
        actions = Actions()
        for deferred in self._groups.take(tickets):
            actions.notifications += deferred.notifications
            actions.copies += deferred.copies
            change = deferred.change
            if change is not None and change.topic in self.topics:
                topic = self.topics[change.topic]
                topic.on_durable(change, actions)
                if topic.claims.are_open:  # what is durable may be offered or won now
                    self._pass.mark_due(topic)
        if len(actions.acks) > 1:  # they are cumulative: the last one of a publisher says all
            last: dict[tuple[str, str], Ack] = {(one[0], one[1]): one for one in actions.acks}
            actions.acks = list(last.values())
        return actions

    def recall(
        self, topic: str, publisher: str, epoch: int, missing: Ranges
    ) -> tuple[list[Publication], int]:
        """Return spooled messages that another broker misses, and up to where they are gone."""
        managed = self.topics.get(topic)
        return ([], 0) if managed is None else managed.recall(publisher, epoch, missing)

    @property
    def waiting(self) -> int:
        """Groups that are not durable yet."""
        return len(self._groups)

    def _topic_of(self, publication: Publication) -> TopicBroker | None:
        topic = self.topics.get(publication.topic)
        if topic is None:
            self._pass.actions.refusals.append(Refusal(publication, None))
            self._pass.has_answers = True
        else:
            if not topic.is_due:
                self._pass.mark_due(topic)
            if publication.urgency:
                self._pass.has_urgent = True
                topic.urgency = max(topic.urgency, publication.urgency)
        return topic

    def _next_request(self) -> int:
        self._request += 1
        return self._request
