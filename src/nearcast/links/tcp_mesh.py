"""The mesh in production: one sealed TCP stream to each other server, on the event loop.

Who a server is, its static key proves: the same key that its clients know. A connection is opened
when there is something to send, by either side, and kept from then on.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Iterable, Mapping

from nearcast.errors import ConfigError
from nearcast.links.mesh import LinkState, OnMeshMessage, PeerAddress
from nearcast.links.mesh_acceptor import MeshAcceptor
from nearcast.links.mesh_connection import MeshConnection
from nearcast.links.mesh_peer import MeshIdentity, MeshPeer
from nearcast.links.mesh_settings import TcpMeshSettings
from nearcast.wire.noise import KEY_BYTES, public_key

__all__ = ["TcpMesh"]

_CLOSE_S = 1.0


class TcpMesh:
    """One server's `MeshLink`.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes any free one.
    private_key
        The server's static X25519 key.
    """

    def __init__(
        self, host: str, port: int, private_key: bytes, settings: TcpMeshSettings | None = None
    ) -> None:
        self._host, self._port = host, port
        self._identity = MeshIdentity(private_key, public_key(private_key))
        self._settings = settings or TcpMeshSettings()
        self._known: dict[str, PeerAddress] = {}
        self._hosts: set[str] = set()
        self._peers: dict[str, MeshPeer] = {}
        self._by_key: dict[bytes, MeshPeer] = {}
        self._on_message: OnMeshMessage | None = None
        self._acceptor: MeshAcceptor | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """Where it listens, after `start`."""
        return self._port

    async def start(self, on_message: OnMeshMessage) -> None:
        """Listen; connections are made when there is something to send."""
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._acceptor = MeshAcceptor(
            self._identity, self._settings, self._by_key.get, lambda: self._hosts
        )
        try:
            self._server = await self._loop.create_server(
                self._acceptor.accept, self._host, self._port
            )
        except (OSError, OverflowError) as error:
            in_use = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "another program uses the port; choose another one, or end that program"
            raise ConfigError(
                f"cannot listen at {self._host}:{self._port} for other servers:"
                f" {why if in_use else getattr(error, 'strerror', None) or error}"
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        self._meet()
        self._timer = self._loop.call_later(self._settings.tick_s, self._tick)

    def learn(self, peers: Iterable[PeerAddress]) -> None:
        """Replace what is known about other servers.

        Left out is an entry without a usable key, or with one that another entry or this server
        has: a key names one server.
        """
        keys = {self._identity.public_key}
        self._known = {}
        for one in peers:
            if len(one.public_key) == KEY_BYTES and one.public_key not in keys:
                keys.add(one.public_key)
                self._known[one.server] = one
        self._hosts = {one.host for one in self._known.values()}
        if self._on_message is not None:
            self._meet()

    def send(self, to_server: str, data: bytes) -> None:
        """Send bytes to a known server, or drop them when there is no room."""
        peer = self._peers.get(to_server)
        if peer is not None:  # else whatever numbers the messages sends them again
            peer.send(data)

    def states(self) -> list[LinkState]:
        """Return how the link to each known server is."""
        return [peer.state() for peer in list(self._peers.values())]

    @property
    def rejected(self) -> Mapping[str, int]:
        """Connections that were not accepted, by reason."""
        return Counter() if self._acceptor is None else self._acceptor.rejected

    async def close(self) -> None:
        """End all connections, with what waits written if that does not take long."""
        self._on_message = None
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        if self._acceptor is not None:
            self._acceptor.close()
        peers, self._peers = list(self._peers.values()), {}
        self._by_key.clear()
        waited = [one for peer in peers for one in peer.close(MeshConnection.close)]
        if waited:
            _, late = await asyncio.wait(waited, timeout=_CLOSE_S)
            if late:
                again = [one for peer in peers for one in peer.close(_cut_off)]
                await asyncio.wait(again, timeout=_CLOSE_S) if again else None
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    def _meet(self) -> None:
        """Make the peers those that are known."""
        assert self._on_message is not None
        for server, peer in list(self._peers.items()):
            address = self._known.get(server)
            if address is not None and address.public_key == peer.address.public_key:
                peer.address = address
            else:
                del self._peers[server]
                self._by_key.pop(peer.address.public_key, None)
                peer.close(_cut_off)
        for server, address in self._known.items():
            if server not in self._peers:
                peer = MeshPeer(address, self._identity, self._settings, self._on_message)
                self._peers[server] = self._by_key[address.public_key] = peer

    def _tick(self) -> None:
        for peer in list(self._peers.values()):
            peer.tick()
        self._timer = self._loop.call_later(self._settings.tick_s, self._tick)


def _cut_off(connection: MeshConnection) -> None:
    connection.abort(ConnectionAbortedError("no longer known"))
