"""Claims between servers: which of a topic's brokers processes a stream."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.broker.actions import Ask, Deny, Taken, Yield
from nearcast.broker.broker import Broker
from nearcast.broker.ownership import NOBODY
from nearcast.errors import WireError
from nearcast.server.broker_messages import Claim, Denied, StateTaken, Yielded
from nearcast.server.claim_door import ClaimDoor
from nearcast.server.peers import Peers
from nearcast.server.topic_registry import TopicRegistry
from nearcast.server.vouching import Vouching

__all__ = ["Claims"]

_REPEAT_S = 0.25
"""How often claims that are not won are looked at."""
_SILENT_FACTOR = 3
"""How often `takeover_s` a claim waits for a server that no orders name, and that does answer on
its link: one that lies does not hold a stream up for ever."""
_NEVER = float("inf")
_LARGEST = 1 << 62


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
    ) -> None:
        self._peers, self._broker, self._takeover_s = peers, broker, takeover_s
        self._topics = topics
        self._door: ClaimDoor
        self._vouching: Vouching
        self._waits_since: dict[tuple[str, str], float] = {}
        """Topics and servers that no orders name, and that have not answered."""
        self._repeat_at = _NEVER
        peers.on(Claim, self._on_claim)
        peers.on(Yielded, self._on_yielded)
        peers.on(Denied, self._on_denied)
        peers.on(StateTaken, self._on_taken)

    def connect(self, door: ClaimDoor, vouching: Vouching) -> None:
        """Take the parts that decide about claims of others, and that show whose streams they are."""
        self._door, self._vouching = door, vouching

    def send(self, claims: Iterable[Ask | Yield | Deny | Taken]) -> None:
        """Say what the broker wants said about streams."""
        for one in claims:
            match one:
                case Ask(server, topic, token, publishers, whole):
                    self._vouching.show(server, publishers)
                    self._peers.send(server, Claim(topic, publishers, token, whole))
                case Yield(server, topic, token, positions, offer):
                    self._peers.send(server, Yielded(topic, token, positions, offer))
                case Taken(server, topic, number, taken):
                    self._peers.send(server, StateTaken(topic, number, taken))
                case Deny(server, topic, token, publishers, against):
                    self._peers.send(server, Denied(topic, publishers, token, against))

    def on_timer(self, now: float) -> None:
        """Repeat claims if it is time; refuse what no second server has."""
        self._broker.refuse_unsecured(now, self._takeover_s)
        if now >= self.next_wakeup():
            self._repeat_at = _NEVER
            self._broker.repeat_claims(
                lambda topic, server: self._is_away(topic, server, now),
                # what is under way to a server need not be said again
                lambda server: not self._peers.unacknowledged(server),
                lambda server: not self._peers.is_closed_circle or server in self._peers.others,
            )

    def note(self, now: float) -> None:
        """End a pass: set the timer if claims are not won."""
        if not self._broker.is_claiming:
            self._waits_since.clear()
        elif self._repeat_at == _NEVER:
            self._repeat_at = now + _REPEAT_S

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return self._repeat_at

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
        if not (0 <= token.version < _LARGEST and 0 <= token.counter < _LARGEST):
            raise WireError("Claim: a number is out of range")
        publishers, denied, may_take_all = self._door.admit(server, claim, now)
        if denied:
            self._peers.send(server, Denied(claim.topic, denied, token, NOBODY))
        if not publishers:
            return
        if not self._topics.is_broker(server, claim.topic):  # the orders here need not name it
            self._topics.on_manages(server, claim.topic, past=False)
        whole = may_take_all and (claim.whole or self._topics.is_past(claim.topic))
        self._broker.on_claim(claim.topic, publishers, token, whole=whole)

    def _on_yielded(self, server: str, yielded: Yielded, _now: float) -> None:
        for _, epoch, sequence in yielded.positions:
            if not (0 <= epoch < _LARGEST and 0 <= sequence < _LARGEST):
                raise WireError("Yielded: a number is out of range")
        topic, offer = yielded.topic, yielded.offer
        if not 0 <= offer.number < _LARGEST:
            raise WireError("Yielded: a number is out of range")
        self._waits_since.pop((topic, server), None)
        self._broker.on_yielded(topic, server, yielded.token, yielded.positions, offer)

    def _on_taken(self, server: str, taken: StateTaken, _now: float) -> None:
        self._broker.on_taken(taken.topic, server, taken.number, taken.taken)

    def _on_denied(self, server: str, denied: Denied, _now: float) -> None:
        against = denied.against
        managed = self._broker.topics.get(denied.topic)
        if managed is None or not managed.claims.ownership.waits_for(server, denied.token):
            raise WireError(f"it was not asked for streams of {denied.topic!r}")
        self._door.check_denied(server, denied.topic, against.version)
        if not (0 <= against.version < _LARGEST and 0 <= against.counter < _LARGEST):
            raise WireError("Denied: a number is out of range")
        self._broker.on_denied(denied.topic, denied.publishers, denied.token, against)
