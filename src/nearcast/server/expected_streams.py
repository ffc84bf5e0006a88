"""Streams of clients that have come: claimed before their first messages, see `broker.ownership`."""

from __future__ import annotations

from collections.abc import Callable

from nearcast.broker.broker import Broker
from nearcast.server.effects import Effects
from nearcast.server.home_witness import HomeWitness
from nearcast.server.peers import Peers
from nearcast.server.publisher_messages import Expects
from nearcast.server.stream_targets import StreamTargets
from nearcast.server.vouching import Vouching

__all__ = ["ExpectedStreams"]

_TOPIC_LIMIT = 64
"""Topics of a client whose streams are claimed when it comes; the others with their first message."""
_HELD_LIMIT = 10_000
"""Streams that are claimed when others have answered; the others with their first message."""


class ExpectedStreams:
    """Says which clients are here, and claims the streams of those that others expect here.

    Parameters
    ----------
    is_introduced
        Tells whether the others were asked who has something of a topic: a claim that is made
        before would be won without those who do not answer.
    """

    def __init__(
        self,
        peers: Peers,
        broker: Broker,
        targets: StreamTargets,
        vouching: Vouching,
        witness: HomeWitness,
        effects: Effects,
        is_introduced: Callable[[str], bool],
    ) -> None:
        self._peers, self._broker, self._targets = peers, broker, targets
        self._vouching, self._witness = vouching, witness
        self._is_introduced = is_introduced
        self._held: dict[tuple[str, str], None] = {}
        """Topics and clients."""
        self._limit = effects.tables.add("expected_streams", _HELD_LIMIT, lambda: len(self._held))
        peers.on(Expects, self._on_expects)

    def arrived(self, client: str, now: float) -> None:
        """Have the streams of a client that has come here claimed before it publishes."""
        for server, topics in self._targets.expected(client).items():
            expects = Expects(client, tuple(topics[:_TOPIC_LIMIT]))
            if server == self._peers.server:
                self._on_expects(server, expects, now)
            else:
                self._vouching.show(server, (client,))
                self._peers.send(server, expects)

    def on_informed(self, now: float) -> None:
        """Claim what was held, as far as the others have answered."""
        held, self._held = self._held, {}
        for topic, client in held:
            self._claim(topic, client, now)

    def _on_expects(self, server: str, message: Expects, now: float) -> None:
        """Claim streams that a client may begin: those that the orders here give to this server.

        If they do not name its home, it proves where it is before its first message.
        """
        for topic in message.topics[:_TOPIC_LIMIT]:
            self._claim(topic, message.publisher, now)
        if server != self._peers.server:
            self._witness.expect(server, message.publisher, now)

    def _claim(self, topic: str, client: str, now: float) -> None:
        if topic not in self._targets.expected(client).get(self._peers.server, ()):
            return
        if self._is_introduced(topic):
            self._broker.claims.expect(topic, client, now)
        elif len(self._held) < self._limit:
            self._held[topic, client] = None
