"""Brings questions of other servers for a proof to clients here, and the proofs back."""

from __future__ import annotations

from typing import Protocol

from nearcast.errors import WireError
from nearcast.server.effects import Effects
from nearcast.server.peers import Peers
from nearcast.server.proof_messages import HomeProved, ProveHome
from nearcast.server.site_orders import Orders
from nearcast.wire.home_proof import NONCE_BYTES
from nearcast.wire.messages import Proof, Prove

__all__ = ["HomeProofs"]

_AT_ONCE = 2_000.0
_PER_S = 200.0
"""Questions of one server: one for each guest that publishes to it, and again each half minute."""


class _Sessions(Protocol):
    def __contains__(self, client: str) -> bool: ...

    def is_visitor(self, client: str) -> bool:
        """Tell whether a client is here to publish only."""
        ...

    def tell(self, client: str, message: Prove) -> None:
        """Say something to a client, once."""
        ...


class HomeProofs:
    """The home's side; `home_witness` is the other one."""

    def __init__(self, peers: Peers, sessions: _Sessions, effects: Effects) -> None:
        self._peers, self._sessions, self._effects = peers, sessions, effects
        self._keys: dict[str, bytes] = {}
        self._servers: dict[bytes, str] = {}
        """By public key."""
        self._credits: dict[str, tuple[float, float]] = {}
        """By server: questions left, and when that was so."""
        peers.on(ProveHome, self._on_question)

    def obey(self, orders: Orders) -> None:
        """Take the keys of the servers that new orders name."""
        self._keys = {one.server: one.public_key for one in orders.servers}
        self._servers = {key: server for server, key in self._keys.items()}
        self._credits = {one: left for one, left in self._credits.items() if one in self._keys}

    def on_proof(self, client: str, proof: Proof) -> None:
        """Pass on what a client here says."""
        server = self._servers.get(proof.server_key)
        if server is not None and not self._sessions.is_visitor(client):
            self._peers.send(server, HomeProved(client, proof.nonce, proof.tag))

    def _on_question(self, server: str, question: ProveHome, now: float) -> None:
        client, nonce, key = question.client, question.nonce, self._keys.get(server)
        if key is None or len(nonce) != NONCE_BYTES:
            raise WireError(f"{client!r} cannot prove anything to it")
        if client not in self._sessions or self._sessions.is_visitor(client):
            self._peers.send(server, HomeProved(client, nonce))
        elif self._take_credit(server, now):
            self._sessions.tell(client, Prove(key, nonce))
        else:
            self._effects.counts["home_proofs_refused"] += 1

    def _take_credit(self, server: str, now: float) -> bool:
        left, since = self._credits.get(server, (_AT_ONCE, now))
        left = min(_AT_ONCE, left + max(0.0, now - since) * _PER_S)
        self._credits[server] = (max(0.0, left - 1.0), now)
        return left >= 1.0
