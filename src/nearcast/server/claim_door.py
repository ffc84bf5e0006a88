"""Which claims of other servers are heard: by the orders in force, and the rules of takeover.

Of a topic that orders name, its brokers and the cloud server may claim all. Any other server may
only stand in for one of them that is away: for publishers whose credentials it has shown, and that
are not heard here meanwhile. It gets no processor's state. A topic that no orders name
belongs to whoever uses it.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.errors import WireError
from nearcast.server.broker_messages import Claim
from nearcast.server.effects import Effects
from nearcast.server.home_witness import HomeWitness
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.topic_registry import TopicRegistry
from nearcast.server.vouching import Vouching

__all__ = ["Admission", "ClaimDoor"]


class Admission(NamedTuple):
    """What a server gets of what it claims; it claims the rest again."""

    publishers: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    """Publishers that are heard elsewhere: it has lost."""
    whole: bool = False
    """Whether it may take the topic over."""


class ClaimDoor:
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
        if self._topics.is_ordered(topic) and version > self._topics.version(topic):
            if not self._shown.is_broker(server, topic, version, now):
                self._effects.counts["claims_put_off"] += 1
                return Admission()
            return Admission(claim.publishers, whole=True)
        if self._topics.is_named(server, topic):
            return Admission(claim.publishers, whole=True)
        vouched = [
            one
            for one in claim.publishers
            if self._vouching.allows(server, one, "publish", topic, now)
        ]
        found = tuple(one for one in vouched if self._witness.may_speak(server, one, now))
        self._effects.counts["claims_refused"] += len(claim.publishers) - len(found)
        return Admission(found, tuple(one for one in vouched if one not in found))

    def check_denied(self, server: str, topic: str, version: int) -> None:
        """Raise WireError when a server denies a claim by orders of which it shows nothing."""
        if not self._topics.is_named(server, topic) and version > self._topics.version(topic):
            raise WireError(f"it denies streams of {topic!r} by an assignment that nobody ordered")
