"""Claims between servers: which of a topic's brokers processes a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from nearcast.broker.actions import Ask, Deny, Taken, TakenOver, Yield
from nearcast.broker.broker import Broker
from nearcast.broker.ownership import NOBODY, Token
from nearcast.errors import WireError
from nearcast.server.broker_messages import Claim, Denied, Rumours, StateTaken, Yielded
from nearcast.server.claim_check import ClaimCheck
from nearcast.server.peers import Peers
from nearcast.server.topic_registry import TopicRegistry
from nearcast.server.vouching import Vouching
from nearcast.wire.publication import NUMBER_END

__all__ = ["Claims"]

_REPEAT_S = 0.25
"""How often claims that are not won are looked at."""
_SILENT_FACTOR = 3
"""How often `takeover_s` a claim waits for a server that no orders name, and that does answer on
its link: one that lies does not hold a stream up for ever."""
_MESSENGERS = 3
"""Servers that are asked to tell one that was given up who has its streams."""
_PASSED_TOPICS = 1_000
"""Topics in one such message."""
_PASSED_WAITING = 1_000
"""Messages that wait for a server: nothing is passed on to it while there are more."""
_NEVER = float("inf")
_LARGEST = 1 << 62
_MOST_AHEAD = 1 << 30
"""How far a claim's counter may be above all that were heard of the topic: after a restart all
that the others have counted, but no lie that nobody can exceed."""


class Claims:
    """Says and hears claims, and repeats them until they are answered.

    Parameters
    ----------
    topics
        Those that are here, and who else manages them: a server that claims streams does.
    takeover_s
        How long a server takes nothing before a claim goes on without it.
    """

    def __init__(
        self,
        peers: Peers,
        broker: Broker,
        topics: TopicRegistry,
        takeover_s: float,
        counts: Counter[str],
    ) -> None:
        self._peers, self._broker, self._takeover_s = peers, broker, takeover_s
        self._counts = counts
        self._topics = topics
        self._claim_check: ClaimCheck
        self._vouching: Vouching
        self._waits_since: dict[tuple[str, str], float] = {}
        """Topics and servers that no orders name, and that have not answered."""
        self._asked: dict[str, int] = {}
        """The number of the last message with a question, by server."""
        self._repeat_at = self._doubt_at = _NEVER
        peers.on(Claim, self._on_claim)
        peers.on(Yielded, self._on_yielded)
        peers.on(Rumours, self._on_rumours)
        peers.on(Denied, self._on_denied)
        peers.on(StateTaken, self._on_taken)

    def connect(self, check: ClaimCheck, vouching: Vouching) -> None:
        """Take the parts that decide about claims of others, and that show whose streams they are."""
        self._claim_check, self._vouching = check, vouching

    def send(self, claims: Iterable[Ask | Yield | Deny | Taken]) -> None:
        """Say what the broker wants said about streams."""
        for one in claims:
            match one:
                case Ask(server, topic, token, publishers, whole):
                    self._vouching.show(server, publishers)
                    self._peers.send(server, Claim(topic, publishers, token, whole))
                    self._asked[server] = self._peers.queued(server)
                case Yield(server, topic, token, positions, offer):
                    rumours = self._topics.rumours((topic,), server) if token != NOBODY else None
                    if rumours:  # before the answer, with which the claim may be won
                        self._peers.send(server, Rumours(rumours))
                    self._peers.send(server, Yielded(topic, token, positions, offer))
                    if token == NOBODY:  # a question, too
                        self._asked[server] = self._peers.queued(server)
                case Taken(server, topic, number, taken):
                    self._peers.send(server, StateTaken(topic, number, taken))
                case Deny(server, topic, token, publishers, against):
                    self._peers.send(server, Denied(topic, publishers, token, against))

    def on_timer(self, now: float) -> None:
        """Repeat claims if it is time; refuse what no second server has."""
        self._broker.refuse_unsecured(now, self._takeover_s)
        if now >= self._repeat_at:
            self._repeat_at = _NEVER
            self._broker.claims.repeat(
                lambda topic, server: self._is_away(topic, server, now),
                self._may_ask,
                self._is_known,
            )
        if now >= self._doubt_at:
            self._doubt_at = _NEVER
            self._broker.claims.ask_doubtful(self._may_ask, self._is_known)

    def _may_ask(self, server: str) -> bool:
        """Tell whether no question is under way to a server: that need not be said again.

        Other messages may be: to a server that is far away some always are.
        """
        return self._peers.has_settled(server, self._asked.get(server, 0))

    def _is_known(self, server: str) -> bool:
        return not self._peers.is_closed_circle or server in self._peers.others

    def note(self, now: float) -> None:
        """End a pass: set the timer if claims are not won."""
        if not self._broker.claims.are_open:
            self._waits_since.clear()
        elif self._repeat_at == _NEVER:
            self._repeat_at = now + _REPEAT_S
        if self._doubt_at == _NEVER and self._broker.claims.are_doubtful:
            self._doubt_at = now + self._takeover_s

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return min(self._repeat_at, self._doubt_at)

    def _is_away(self, topic: str, server: str, now: float) -> bool:
        if self._peers.is_away(server, now, self._takeover_s):
            return True
        if self._topics.is_named(server, topic):
            return False
        since = self._waits_since.setdefault((topic, server), now)
        return now - since >= _SILENT_FACTOR * self._takeover_s

    def _on_claim(self, server: str, claim: Claim, now: float) -> None:
        token = claim.token
        if token.server != server:
            raise WireError(f"a claim of {token.server!r} came from {server!r}")
        self._check(claim.topic, token)
        publishers, denied, may_take_all = self._claim_check.admit(server, claim, now)
        if denied:
            self._peers.send(server, Denied(claim.topic, denied, token, NOBODY))
        if not publishers:
            return
        topics, topic = self._topics, claim.topic
        if not topics.is_proved(server, topic):  # the orders here need not name it
            if topic in topics.here and (may_take_all or not topics.is_ordered(topic)):
                topics.prove(server, topic)
            else:
                topics.on_manages(server, topic, past=False)
        whole = may_take_all and (claim.whole or self._topics.is_past(claim.topic))
        self._broker.claims.on_claim(claim.topic, publishers, token, whole=whole)

    def _check(self, topic: str, token: Token) -> None:
        managed = self._broker.topics.get(topic)
        most = (managed.claims.ownership.counter if managed is not None else 0) + _MOST_AHEAD
        if not (0 <= token.version < _LARGEST and 0 <= token.counter <= most):
            raise WireError("the token of a claim is out of range")

    def _on_yielded(self, server: str, yielded: Yielded, _now: float) -> None:
        for _, epoch, sequence in yielded.positions:
            if not (0 <= epoch < NUMBER_END and 0 <= sequence < NUMBER_END):
                raise WireError("Yielded: a number is out of range")
        topic, offer = yielded.topic, yielded.offer
        if not 0 <= offer.number < _LARGEST:
            raise WireError("Yielded: a number is out of range")
        # one that has only stood in for a broker keeps its state: it might be made up
        is_named = self._topics.is_named(server, topic, past=True)
        may_give = is_named or not self._topics.is_ordered(topic)
        self._waits_since.pop((topic, server), None)
        self._broker.claims.on_yielded(
            topic, server, yielded.token, yielded.positions, offer, may_give=may_give
        )

    def tell_given_up(self, streams: Iterable[TakenOver]) -> None:
        """Have servers that streams were won without hear so from others, which may reach them."""
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for topic, _, given_up in streams:
            for server in given_up:
                found.setdefault(server, {})[topic] = (self._peers.server,)
        for server, topics in found.items():
            others = [one for one in self._peers.others if one not in found]
            for one in sorted(others, key=self._peers.unacknowledged)[:_MESSENGERS]:
                said = iter(topics.items())
                while some := dict(islice(said, _PASSED_TOPICS)):
                    self._peers.send(one, Rumours(some, to=server))

    def _on_rumours(self, server: str, message: Rumours, _now: float) -> None:
        """Ask whom others name, too. No more than servers say of themselves comes of a lie."""
        if message.to:
            self._pass_on(server, message)
            return
        for topic, servers in message.servers.items():
            if topic in self._topics.here:
                known = [one for one in servers if one in self._peers.others]
                asked = [self._topics.on_rumour(one, topic) for one in known]
                self._counts["rumours_dropped"] += asked.count(False)
                self._broker.claims.on_rumour(topic)

    def _pass_on(self, server: str, message: Rumours) -> None:
        """Tell a third server what another one says of itself; not so much that it hears no more."""
        if len(message.servers) > _PASSED_TOPICS or message.to not in self._peers.others:
            raise WireError("Rumours: too many topics, or for nobody")
        if self._peers.unacknowledged(message.to) >= _PASSED_WAITING:
            self._counts["rumours_dropped"] += len(message.servers)
            return
        said: dict[str, tuple[str, ...]] = dict.fromkeys(message.servers, (server,))
        self._peers.send(message.to, Rumours(said))

    def _on_taken(self, server: str, taken: StateTaken, _now: float) -> None:
        self._broker.claims.on_taken(taken.topic, server, taken.number, taken.taken)

    def _on_denied(self, server: str, denied: Denied, _now: float) -> None:
        against = denied.against
        managed = self._broker.topics.get(denied.topic)
        if managed is None or not managed.claims.may_answer(
            server, denied.token, denied.publishers
        ):
            raise WireError(f"it was not asked for streams of {denied.topic!r}")
        self._claim_check.check_denied(server, denied.topic, against.version)
        self._check(denied.topic, against)
        self._broker.claims.on_denied(
            denied.topic, server, denied.publishers, denied.token, against
        )
