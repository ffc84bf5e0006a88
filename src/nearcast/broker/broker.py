"""The broker of a server: its topics, and what waits until it is durable.

A pass of the server gives publications to `admit`, `admit_copy` and `admit_once`, and ends with
`run`, which processes them topic by topic. Every method that returns `Actions` wants them done:
``to_store`` appended to the log in the order it comes, ``to_process`` given to a host of
processors, the rest at once; `on_committed` gets the tickets that the log gives back after a sync,
`on_processed` the results of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import structs

from nearcast.broker.actions import Ack, Actions, Copy, Refusal, Taken, Yield
from nearcast.broker.audiences import SubscriberLookup
from nearcast.broker.ownership import Token
from nearcast.broker.processor import Processor
from nearcast.broker.registry import make_processor
from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.broker.sequence_gate import Ranges
from nearcast.broker.settlement import Deferred
from nearcast.broker.state_transfer import Offer
from nearcast.broker.topic_broker import TopicBroker
from nearcast.broker.topic_processing import ProcessorWatch
from nearcast.broker.topic_settings import TopicSettings
from nearcast.errors import ConfigError
from nearcast.spool.changes import GENERATION, Group, LiveTopic, Position, TopicChange
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
    life
        Another number after each start of the server.
    first_offset
        What the offsets of topics that are new here begin after.
    """

    def __init__(
        self,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
        make: MakeProcessor = _by_name,
        watch: ProcessorWatch | None = None,
        server: str = "",
        life: int = 0,
        first_offset: int = 0,
    ) -> None:
        self._server, self._life, self._first_offset = server, life, first_offset
        self._lookup, self._clock, self._make, self._watch = lookup, clock, make, watch
        self._ticket = self._request = 0
        self._actions = Actions()
        self._due: list[TopicBroker] = []
        self._claiming: dict[str, TopicBroker] = {}
        """Topics with claims that are not won yet."""
        self._has_answers = False
        self._deferred: dict[int, list[Deferred]] = {}
        self.topics: dict[str, TopicBroker] = {}

    # Topics

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
            self._life,
            self._first_offset,
        )
        actions = Actions()
        if live is not None:
            topic.restore(live, actions, durable=stored)
        self.topics[settings.topic] = topic
        if topic.claims.are_open:
            self._claiming[settings.topic] = topic
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
            self._store([Deferred(change)], actions)
        return actions

    def remove_topic(self, topic: str) -> Actions:
        """Stop managing a topic and forget it; `export_topic` first if it moves elsewhere."""
        actions, managed = Actions(), self.topics.pop(topic, None)
        self._claiming.pop(topic, None)
        if managed is not None and managed.processing.asked:
            forget = ProcessRequest(managed.settings, self._next_request(), (), (), ended=True)
            actions.to_process.append(forget)
        self._store([Deferred(TopicChange(topic, ended=True))], actions)
        return actions

    def expire_topic(self, topic: str) -> Actions:
        """Forget a topic that nobody uses; should it come back, its offsets go on rising.

        Thus whoever asks for what came after an offset hears that something is missing, maybe more
        than there was.
        """
        self._first_offset = max(self._first_offset, self.topics[topic].end + GENERATION)
        return self.remove_topic(topic)

    def forgotten_since(self, since: int) -> int:
        """Return how many publications after an offset a topic that is gone may have had."""
        return max(0, self._first_offset % GENERATION - since % GENERATION) if since else 0

    def export_topic(self, topic: str) -> LiveTopic:
        """Return all that another broker needs to go on with a topic."""
        return self.topics[topic].export()

    def share(self, topic: str, server: str) -> None:
        """Copy what was processed here to a broker that is new, as soon as all of it is durable."""
        spool = self.topics[topic].spool.view()
        own = tuple(one for one in spool if one.origin is Origin.DIRECT)
        copy = Copy(server, topic, own, is_bulk=True)
        last_group = self._deferred.get(self._ticket)
        if last_group is not None:
            last_group.append(Deferred(copies=[copy]))
        else:
            self._actions.copies.append(copy)
            self._has_answers = True

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
            topic.admit(publication, home, now_s, self._actions, version)

    def admit_copy(self, publication: Publication, copied_by: str) -> None:
        """Take a publication that another broker of its topic copied here: it is spooled only."""
        topic = self._topic_of(publication)
        if topic is not None:
            if publication.origin is not Origin.COPY:
                publication = structs.replace(
                    publication, origin=Origin.COPY, encoded=b"", offset=0, notices=NO_NOTICES
                )
            topic.admit_copy(publication, copied_by, self._actions)

    def admit_once(self, publication: Publication, home: str | None = None) -> None:
        """Take a publication whose publisher wants no acknowledgement; a restart forgets it."""
        topic = self._topic_of(publication)
        if topic is not None:
            topic.admit_once(publication, home, self._actions)

    def advance(self, topic: str, publisher: str, epoch: int, through: int) -> None:
        """Stop waiting for messages that their sender says are settled and cannot send again."""
        managed = self.topics.get(topic)
        if managed is not None:
            managed.advance(publisher, epoch, through)
            self._mark_due(managed)

    @property
    def has_work(self) -> bool:
        """Whether the pass has brought anything that `run` has to do."""
        return bool(self._due) or self._has_answers

    def run(self, now_s: float) -> Actions:
        """End a pass: process what was admitted; return all that follows from it."""
        self._has_answers = False
        actions, self._actions = self._actions, Actions()
        due, self._due = self._due, []
        deferred = []
        for topic in due:
            topic.is_due = False
            if self.topics.get(topic.settings.topic) is topic:  # else it was removed meanwhile
                try:
                    deferred.append(topic.run(now_s, actions))
                except Exception as error:  # a bug: the other topics go on
                    actions.failures.append((topic.settings.topic, error))
                if topic.claims.are_open:
                    self._claiming[topic.settings.topic] = topic
                elif self._claiming:
                    self._claiming.pop(topic.settings.topic, None)
        self._store(deferred, actions)
        return actions

    # Claims, see `ownership`

    def on_claim(self, topic: str, publishers: Iterable[str], token: Token, *, whole: bool) -> None:
        """Hear that another server claims streams, or takes the `whole` topic over.

        Of a topic that is unknown here it gets them at once.
        """
        managed = self.topics.get(topic)
        if managed is not None:
            # by older orders than those here the topic goes elsewhere, or stays
            whole = whole and token.version >= managed.settings.version
            managed.claims.on_claim(publishers, token, whole, self._actions)
            self._mark_due(managed)
        else:
            positions = tuple(Position(one, 0, 0) for one in publishers)
            self._actions.claims.append(Yield(token.server, topic, token, positions))
            self._has_answers = True

    def on_yielded(
        self,
        topic: str,
        server: str,
        token: Token,
        positions: Iterable[Position],
        offer: Offer,
    ) -> None:
        """Hear how far streams have come at a server that has given them up, and its state."""
        managed = self.topics.get(topic)
        if managed is not None:
            managed.claims.on_yielded(server, token, positions, offer, self._actions)
            self._mark_due(managed)
        elif offer.number:
            self._actions.claims.append(Taken(server, topic, offer.number, False))
            self._has_answers = True

    def on_taken(self, topic: str, server: str, number: int, taken: bool) -> None:
        """Hear whether a state that was offered is durable elsewhere."""
        managed = self.topics.get(topic)
        if managed is not None:
            managed.claims.on_taken(server, number, taken, self._actions)
            self._mark_due(managed)

    def on_denied(
        self, topic: str, publishers: Iterable[str], token: Token, against: Token
    ) -> None:
        """Hear that claims were lost; what waited for them is sent again."""
        managed = self.topics.get(topic)
        if managed is not None:
            for publisher in publishers:
                managed.claims.ownership.lose(publisher, token, against)

    @property
    def is_claiming(self) -> bool:
        """Whether claims are not won yet."""
        return bool(self._claiming)

    def repeat_claims(
        self,
        is_away: Callable[[str, str], bool],
        may_ask: Callable[[str], bool],
        is_known: Callable[[str], bool],
    ) -> None:
        """Go on without servers that are away from a topic or unknown, and ask the others again."""
        for topic in self._claiming.values():
            past_brokers, name = topic.settings.past_brokers, topic.settings.topic
            topic.claims.repeat(
                partial(is_away, name), may_ask, is_known, past_brokers, self._actions
            )
            self._mark_due(topic)

    # Acknowledgements of two servers, see `acknowledgements`

    def owe_copies(self, topic: str, publishers: Iterable[str], server: str) -> None:
        """Note that a broker wants to know when what it has copied here is durable."""
        managed = self.topics.get(topic)
        if managed is not None:
            for publisher in publishers:
                managed.acknowledgements.owe(publisher, server)
            self._mark_due(managed)

    def on_copy_ack(self, topic: str, position: Position) -> None:
        """Hear that a second server has messages, durably."""
        managed = self.topics.get(topic)
        if managed is not None and managed.settings.level > 1:
            managed.acknowledgements.secure(position, self._actions)
            self._has_answers = True

    def refuse_unsecured(self, now_s: float, patience_s: float) -> None:
        """Refuse messages that no second server has taken for a while."""
        for topic in self.topics.values():
            if topic.acknowledgements.are_due:
                topic.acknowledgements.refuse_unsecured(now_s, patience_s, self._actions)
                self._has_answers = True

    # What comes later

    def on_processed(self, result: ProcessResult, now_s: float) -> Actions:
        """Go on with what a host made of a request; one that nobody waits for changes nothing."""
        actions = Actions()
        if result.topic in self.topics:
            self._store([self.topics[result.topic].on_processed(result, now_s, actions)], actions)
        return actions

    def on_committed(self, tickets: Iterable[int]) -> Actions:
        """Return what has waited for groups to be durable: acks, copies, notifications."""
        actions = Actions()
        for ticket in tickets:
            for deferred in self._deferred.pop(ticket, ()):
                actions.notifications += deferred.notifications
                actions.copies += deferred.copies
                change = deferred.change
                if change is not None and change.topic in self.topics:
                    topic = self.topics[change.topic]
                    topic.on_durable(change, actions)
                    if topic.claims.are_open:  # what is durable may be offered or won now
                        self._mark_due(topic)
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
        return len(self._deferred)

    def _topic_of(self, publication: Publication) -> TopicBroker | None:
        topic = self.topics.get(publication.topic)
        if topic is None:
            self._actions.refusals.append(Refusal(publication, None))
            self._has_answers = True
        elif not topic.is_due:
            self._mark_due(topic)
        return topic

    def _mark_due(self, topic: TopicBroker) -> None:
        if not topic.is_due:
            topic.is_due = True
            self._due.append(topic)

    def _next_request(self) -> int:
        self._request += 1
        return self._request

    def _store(self, deferred: Sequence[Deferred], actions: Actions) -> None:
        changed = [one for one in deferred if one.change is not None]
        if changed:
            self._ticket += 1
            self._deferred[self._ticket] = changed
            changes = tuple(one.change for one in changed if one.change is not None)
            actions.to_store = Group(self._ticket, changes)
