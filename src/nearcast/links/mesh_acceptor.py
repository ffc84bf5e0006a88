"""Connections that others open: bounded in number and time until a known key is proved."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection

from nearcast.links.handshake_budget import HandshakeBudget
from nearcast.links.mesh_connection import MeshConnection
from nearcast.links.mesh_peer import MeshIdentity, MeshPeer
from nearcast.links.mesh_settings import TcpMeshSettings
from nearcast.wire.stream_channel import StreamChannel, UnknownKeyError

__all__ = ["MeshAcceptor"]


class MeshAcceptor:
    """Owns accepted connections until they belong to a peer.

    Parameters
    ----------
    find_peer
        Returns the server that a public key belongs to, if any.
    peer_hosts
        Returns the addresses of known servers, whose handshakes have a budget of their own:
        unknown peers elsewhere cannot keep them out.
    """

    def __init__(
        self,
        identity: MeshIdentity,
        settings: TcpMeshSettings,
        find_peer: Callable[[bytes], MeshPeer | None],
        peer_hosts: Callable[[], Collection[str]],
    ) -> None:
        self._identity, self._settings = identity, settings
        self._find_peer, self._peer_hosts = find_peer, peer_hosts
        self._loop = asyncio.get_running_loop()
        limit, per_s = settings.unknown_peer_handshakes, settings.unknown_peer_handshakes_per_s
        self._unknown_peers = HandshakeBudget(limit, per_s, per_s)
        limit = settings.peer_handshakes
        self._peers = HandshakeBudget(limit, 4.0 * limit, 4.0 * limit)
        self._open: dict[MeshConnection, tuple[HandshakeBudget, asyncio.TimerHandle]] = {}
        self.rejected: Counter[str] = Counter()
        """By reason: ``unknown_key``, ``handshake``, ``timeout``, ``too_many``."""

    def accept(self) -> MeshConnection:
        """Return the protocol of a connection that was just accepted."""
        channel = StreamChannel.answer(
            static=self._identity.private_key,
            ephemeral=os.urandom(32),
            accepts=lambda key, _payload: self._find_peer(key) is not None,
            settings=self._settings.stream,
        )
        return MeshConnection(channel, self, self._settings.write_limit_bytes)

    def close(self) -> None:
        """End all connections whose handshakes are under way."""
        for connection in list(self._open):
            connection.abort(ConnectionAbortedError("closed"))

    def on_opened(self, connection: MeshConnection) -> None:
        """Give the other side a moment to prove its key, if there is room."""
        budget = (
            self._peers if connection.remote_host in self._peer_hosts() else self._unknown_peers
        )
        if not budget.begin(self._loop.time()):
            self.rejected["too_many"] += 1
            connection.abort(ConnectionAbortedError("too many handshakes"))
            return
        timer = self._loop.call_later(
            self._settings.handshake_s, connection.abort, TimeoutError("no handshake")
        )
        self._open[connection] = budget, timer

    def on_established(self, connection: MeshConnection) -> None:
        """Hand the connection to the peer that proved its key."""
        self._leave(connection)
        peer = self._find_peer(connection.channel.peer_key)
        if peer is None:  # forgotten since the first handshake message
            self.rejected["unknown_key"] += 1
            connection.abort(UnknownKeyError("unknown key"))
        else:
            connection.owner = peer
            peer.on_established(connection)

    def on_messages(self, connection: MeshConnection, messages: list[bytes]) -> None:
        """Ignore what came with a key that is no longer known."""

    def on_ended(self, connection: MeshConnection) -> None:
        """Wait for the end of the connection."""

    def on_closed(self, connection: MeshConnection) -> None:
        """Count why a handshake failed."""
        if self._leave(connection):
            error = connection.error
            is_known = not isinstance(error, UnknownKeyError)
            late = "timeout" if isinstance(error, TimeoutError) else "handshake"
            self.rejected[late if is_known else "unknown_key"] += 1

    def _leave(self, connection: MeshConnection) -> bool:
        budget, timer = self._open.pop(connection, (None, None))
        if budget is None or timer is None:
            return False
        budget.end()
        timer.cancel()
        return True
