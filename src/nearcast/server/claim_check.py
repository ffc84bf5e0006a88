"""Which claims of other servers are heard: by the orders in force, and the rules of takeover.

Of a topic that orders name, its brokers and the cloud server may claim all. Any other server may
only stand in for one of them that is away: for publishers that have proved to be there. It gets no
processor's state. The same goes for topics that no orders here name, which belong to the server
that uses them; a server whose own orders make it a broker of one may show these. What a component
of a flow makes is the server's that it is made at: nobody claims it.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from nearcast.errors import WireError
from nearcast.server.broker_messages import Claim
from nearcast.server.effects import Effects
from nearcast.server.home_witness import HomeWitness
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.topic_registry import TopicRegistry
from nearcast.server.vouching import Vouching
from nearcast.trust.flow_publishers import is_flow_publisher

__all__ = ["Admission", "ClaimCheck"]


class Admission(NamedTuple):
    """What a server gets of what it claims; it claims the rest again."""

    publishers: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    """Publishers that are heard elsewhere: it has lost."""
    whole: bool = False
    """Whether it may take the topic over."""


class ClaimCheck:
    """Lets claims in, or parts of them."""

    def __init__(
        self,
        topics: TopicRegistry,
        vouching: Vouching,
        shown: ShownOrders,
        witness: HomeWitness,
        effects: Effects,
    ) -> None:
        self._topics, self._vouching, self._shown = topics, vouching, shown
        self._witness, self._effects = witness, effects

    def admit(self, server: str, claim: Claim, now: float) -> Admission:
        """Return what a server may have of what it claims."""
        topic, version = claim.topic, claim.token.version
        clients = tuple(one for one in claim.publishers if not is_flow_publisher(one))
        if len(clients) < len(claim.publishers):
            self._effects.counts["claims_refused"] += len(claim.publishers) - len(clients)
            claim = structs.replace(claim, publishers=clients)
        topics, shown = self._topics, self._shown
        if topic not in topics.here:
            return Admission(claim.publishers)  # there is nothing to lose
        is_ahead = version > topics.highest_version(topic)
        if is_ahead or not topics.is_ordered(topic):
            if shown.is_broker(server, topic, version):
                return Admission(claim.publishers, whole=True)
            if is_ahead or not shown.has_shown(server):
                shown.ask(server, now)
        if is_ahead:
            self._effects.counts["claims_put_off"] += 1
            return Admission()
        if topics.is_named(server, topic):
            return Admission(claim.publishers, whole=True)
        return self._stand_in(server, claim, now)

    def _stand_in(self, server: str, claim: Claim, now: float) -> Admission:
        """Return what a server gets that the orders do not name as a broker."""
        topic, counts, witness = claim.topic, self._effects.counts, self._witness
        vouched = [
            one
            for one in claim.publishers
            if self._vouching.allows(server, one, "publish", topic, now)
        ]
        # by older orders it may go on with what nobody has claimed since
        is_past = self._topics.is_named(server, topic, past=True)
        is_older = is_past and claim.token.version < self._topics.version(topic)
        found = tuple(one for one in vouched if is_older or witness.may_speak(server, one, now))
        may_deny = self._topics.is_ordered(topic) or self._shown.has_shown(server)
        denied = tuple(
            one
            for one in vouched
            if one not in found and may_deny and witness.is_denied(server, one)
        )
        counts["claims_refused"] += len(claim.publishers) - len(vouched) + len(denied)
        counts["claims_put_off"] += len(vouched) - len(found) - len(denied)
        return Admission(found, denied)

    def check_denied(self, server: str, topic: str, version: int) -> None:
        """Raise WireError when a server denies a claim by orders of which it shows nothing."""
        is_ahead = version > self._topics.highest_version(topic)
        if is_ahead and not self._topics.is_named(server, topic):
            raise WireError(f"it denies streams of {topic!r} by an assignment that nobody ordered")
