"""Claims of all topics of a broker, see `ownership`: each is said to the topic concerned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from nearcast.broker.actions import Taken, Yield
from nearcast.broker.broker_pass import BrokerPass
from nearcast.broker.ownership import Token
from nearcast.broker.state_transfer import Offer
from nearcast.broker.topic_broker import TopicBroker
from nearcast.spool.changes import Position

__all__ = ["BrokerClaims"]


class BrokerClaims:
    """What other servers say about streams, and the topics with claims that are not won yet."""

    def __init__(self, topics: Mapping[str, TopicBroker], current: BrokerPass) -> None:
        self._topics, self._pass = topics, current
        self._open: dict[str, TopicBroker] = {}
        self._doubtful: dict[str, TopicBroker] = {}
        """Topics with streams that servers which were away may own too."""

    @property
    def are_open(self) -> bool:
        """Whether claims are not won yet."""
        return bool(self._open)

    @property
    def are_doubtful(self) -> bool:
        """Whether streams were won without servers that may own them too."""
        return bool(self._doubtful)

    def note(self, topic: TopicBroker) -> None:
        """Note whether a topic has open claims, after it was run or added."""
        if topic.claims.are_open:
            self._open[topic.settings.topic] = topic
        elif self._open:
            self._open.pop(topic.settings.topic, None)
        if topic.claims.are_doubtful:
            self._doubtful[topic.settings.topic] = topic
        elif self._doubtful:
            self._doubtful.pop(topic.settings.topic, None)

    def forget(self, topic: str) -> None:
        """Forget a topic that is removed."""
        self._open.pop(topic, None)
        self._doubtful.pop(topic, None)

    def expect(self, topic: str, publisher: str, now_s: float) -> None:
        """Hear that a publisher may send soon: its stream is claimed ahead of its messages."""
        managed = self._topics.get(topic)
        if managed is not None:
            managed.expect(publisher, now_s)
            self._pass.mark_due(managed)

    def on_claim(self, topic: str, publishers: Iterable[str], token: Token, *, whole: bool) -> None:
        """Hear that another server claims streams, or takes the `whole` topic over.

        Of a topic that is unknown here it gets them at once.
        """
        managed = self._topics.get(topic)
        if managed is not None:
            # by older orders than those here the topic goes elsewhere, or stays
            whole = whole and token.version >= managed.settings.version
            managed.claims.on_claim(publishers, token, whole, self._pass.actions)
            self._pass.mark_due(managed)
        else:
            positions = tuple(Position(one, 0, 0) for one in publishers)
            self._pass.actions.claims.append(Yield(token.server, topic, token, positions))
            self._pass.has_answers = True

    def disown(self) -> None:
        """Own no stream any more: others may have claimed them while this server could not hear."""
        for topic in self._topics.values():
            topic.claims.disown()

    def on_rumour(self, topic: str) -> None:
        """Ask the brokers that a topic's settings name by now for its open claims."""
        managed = self._topics.get(topic)
        if managed is not None and managed.claims.ownership.claims:
            managed.claims.also_ask(managed.settings.asked)
            self._pass.mark_due(managed)

    def on_yielded(
        self,
        topic: str,
        server: str,
        token: Token,
        positions: Iterable[Position],
        offer: Offer,
        *,
        may_give: bool = True,
    ) -> None:
        """Hear how far streams have come at a server that has given them up, and its state.

        Without `may_give` the state is not taken, and stays where it is.
        """
        managed = self._topics.get(topic)
        if managed is not None:
            managed.claims.on_yielded(server, token, positions, offer, may_give, self._pass.actions)
            self._pass.mark_due(managed)
        elif offer.number:
            self._pass.actions.claims.append(Taken(server, topic, offer.number, False))
            self._pass.has_answers = True

    def on_taken(self, topic: str, server: str, number: int, taken: bool) -> None:
        """Hear whether a state that was offered is durable elsewhere."""
        managed = self._topics.get(topic)
        if managed is not None:
            managed.claims.on_taken(server, number, taken, self._pass.actions)
            self._pass.mark_due(managed)

    def on_denied(
        self, topic: str, server: str, publishers: Iterable[str], token: Token, against: Token
    ) -> None:
        """Hear that claims were lost; what waited for them is sent again."""
        managed = self._topics.get(topic)
        if managed is not None:
            for publisher in publishers:
                managed.claims.on_denied(server, publisher, token, against)

    def repeat(
        self,
        is_away: Callable[[str, str], bool],
        may_ask: Callable[[str], bool],
        is_known: Callable[[str], bool],
    ) -> None:
        """Go on without servers that are away from a topic or unknown, and ask the others again."""
        for topic in self._open.values():
            past_brokers, name = topic.settings.past_brokers, topic.settings.topic
            topic.claims.repeat(
                partial(is_away, name), may_ask, is_known, past_brokers, self._pass.actions
            )
            self._pass.mark_due(topic)

    def ask_doubtful(self, may_ask: Callable[[str], bool], is_known: Callable[[str], bool]) -> None:
        """Ask servers again that streams were won without."""
        for topic in self._doubtful.values():
            past_brokers, actions = topic.settings.past_brokers, self._pass.actions
            topic.claims.ask_doubtful(may_ask, is_known, past_brokers, actions)
            self._pass.mark_due(topic)
