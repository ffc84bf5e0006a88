"""What clients may publish here: topics that were authorised, sizes, messages per second."""

from __future__ import annotations

from nearcast.server.authorise import Authoriser
from nearcast.server.topic_registry import TopicRegistry
from nearcast.trust.rights import Rights
from nearcast.wire.init_gate import TokenBuckets
from nearcast.wire.messages import RefuseReason
from nearcast.wire.publication import Publication
from nearcast.wire.settings import WireSettings

__all__ = ["Allowance", "Allowances"]

_ANY_SIZE = 1 << 16
_TOPICS_LIMIT = 10_000
_MAKERS_LIMIT = 10_000
"""Clients whose topics are counted; the oldest may begin anew."""
_ASKED_PER_S = 1_000.0
"""Servers that are asked about topics because of one client: each name that is new at its home is
asked for at all of them."""
_ASKED_BURST = 10_000.0
_MOST_ASKED = 100
"""More servers count like this many: in a large site a client may still ask for ten names a second."""


class Allowance:
    """What one session has left; the gateway looks at its fields for every publication.

    Messages are counted down from one second's worth; `refill` is asked when none is left.
    """

    __slots__ = (
        "_busy_until",
        "_rate_hz",
        "_since",
        "began_at",
        "credit",
        "payload_bytes",
        "rights",
        "topics",
    )

    def __init__(self, rights: Rights, settings: WireSettings, now: float) -> None:
        self.rights = rights
        self.topics: dict[str, None] = {}
        """Topics to which it may publish, as far as it was asked."""
        self.payload_bytes = rights.payload_bytes or _ANY_SIZE
        self._rate_hz = rights.messages_per_s or settings.messages_per_s
        self.credit = max(1.0, self._rate_hz)
        """Publications that it may send before `refill`."""
        self.began_at = self._since = self._busy_until = now

    def refill(self, now: float) -> bool:
        """Add what the time allows, after `credit` fell below 0; False: the client has to wait."""
        earned = max(0.0, now - self._since) * self._rate_hz
        available = min(max(1.0, self._rate_hz), self.credit + 1.0 + earned)
        self._since, self.credit = now, available
        if available < 1.0:
            return False
        self.credit -= 1.0
        return True

    def wait_s(self, now: float, least_s: float) -> float | None:
        """Return how long the client has to wait; None when it was told just before."""
        if now < self._busy_until:
            return None
        wait_s = max(least_s, 1.0 / self._rate_hz)
        self._busy_until = now + wait_s
        return wait_s


class Allowances:
    """The allowances of all sessions, and the topics that their clients brought into being.

    Parameters
    ----------
    topics
        Know which ones some server manages, and whether this one has room for more.
    """

    def __init__(
        self, authoriser: Authoriser, topics: TopicRegistry, settings: WireSettings
    ) -> None:
        self._authoriser, self._topics, self._settings = authoriser, topics, settings
        self.by_client: dict[str, Allowance] = {}
        self._made: dict[str, dict[str, None]] = {}
        """Topics that a client brought into being, in whichever session."""
        self._asked = TokenBuckets(_ASKED_PER_S, _ASKED_BURST, _MAKERS_LIMIT)

    def begin(self, client: str, rights: Rights, now: float) -> None:
        """Note that a client has a new session."""
        self.by_client[client] = Allowance(rights, self._settings, now)

    def end(self, client: str) -> None:
        """Note that a client has left."""
        self.by_client.pop(client, None)

    def forget_topic(self, topic: str) -> None:
        """Have the next publication to a topic checked again."""
        for allowance in self.by_client.values():
            allowance.topics.pop(topic, None)

    def may_ask(self, client: str, servers: int, now: float) -> bool:
        """Tell whether that number of servers may be asked now for a topic that a client wants to hear."""
        return self._asked.take(client, now, min(servers, _MOST_ASKED))

    def check(self, publication: Publication) -> RefuseReason | None:
        """Return why a publication is refused, if so: asked for the first one of each topic."""
        client, topic = publication.publisher, publication.topic
        allowance = self.by_client.get(client)
        if allowance is None or self._authoriser.authorise(client, "publish", topic) is not None:
            return RefuseReason.NOT_ALLOWED
        if len(publication.payload) > allowance.payload_bytes:
            return RefuseReason.TOO_LARGE
        if not self._topics.brokers_of(topic) and not self._may_make(
            client, topic, allowance.rights
        ):
            return RefuseReason.TOO_MANY_TOPICS
        if len(allowance.topics) >= _TOPICS_LIMIT:
            allowance.topics.clear()  # each is checked again
        allowance.topics[topic] = None
        return None

    def _may_make(self, client: str, topic: str, rights: Rights) -> bool:
        if self._topics.is_full:
            return False
        limit = rights.topics or self._settings.topic_limit
        made = self._made.setdefault(client, {})
        if len(made) >= limit:
            made = self._made[client] = {one: None for one in made if self._topics.brokers_of(one)}
        if len(made) >= limit:
            return False
        made[topic] = None
        if len(self._made) > _MAKERS_LIMIT:
            del self._made[next(iter(self._made))]
        return True
