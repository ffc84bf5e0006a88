"""The link to one other server: dials, keeps one connection, and says how it is.

Of two connections between the same two servers the side with the lower public key decides: it
keeps the one that was established last and half-closes the other. The other side sends on
whichever is left and keeps reading both to their ends, so that nothing under way is cut off.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import random

from nearcast.links.mesh import LinkState, OnMeshMessage, PeerAddress, State
from nearcast.links.mesh_connection import MeshConnection
from nearcast.links.mesh_settings import TcpMeshSettings
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.stream_channel import StreamChannel

__all__ = ["MeshIdentity", "MeshPeer"]

_MOST_CONNECTIONS = 3


@dataclass(frozen=True, slots=True)
class MeshIdentity:
    """The static keys of this server."""

    private_key: bytes
    public_key: bytes


class MeshPeer:
    """One known server; the owner of its connections. Needs a running event loop.

    Parameters
    ----------
    on_message
        Gets what the server sends.
    """

    def __init__(
        self,
        address: PeerAddress,
        identity: MeshIdentity,
        settings: TcpMeshSettings,
        on_message: OnMeshMessage,
    ) -> None:
        self.address = address
        """May be replaced by another address with the same key."""
        self._identity, self._settings, self._on_message = identity, settings, on_message
        self._loop = asyncio.get_running_loop()
        self._decides = identity.public_key < address.public_key
        self._connections: list[MeshConnection] = []
        """Established, the last one last; those that are retired too."""
        self._current: MeshConnection | None = None
        self._established_at = 0.0
        self._dialling: tuple[asyncio.Task[None], MeshConnection] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._wait_s = 0.0
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._is_closed = False
        self._ticks = 0
        self._sent_bytes = self._received_bytes = self._dropped = 0
        """Bytes of connections that are gone."""
        self._state: State = "idle"
        self._since = time.monotonic()
        self._last_error = ""

    def send(self, data: bytes) -> None:
        """Send a message, as soon as there is a connection."""
        if self._current is not None and self._current.channel.is_exhausted:
            self._renew(self._current)  # a loop with much to do may tick too late for it
        if self._current is not None:
            if not self._current.send(data):
                self._dropped += 1
        elif self._queue and self._queued_bytes + len(data) > self._settings.queue_bytes:
            self._dropped += 1
        else:
            self._queue.append(data)
            self._queued_bytes += len(data)
            if self._dialling is None and self._retry is None:
                self._dial()

    def tick(self) -> None:
        """Keep connections alive, and end those that are silent or have served long enough."""
        settings = self._settings
        self._ticks += 1
        measures = self._ticks % settings.round_trip_ticks == 0
        for connection in list(self._connections):
            heard, connection.has_heard = connection.has_heard, False
            # a retired one gets the same time to read to its end, however much comes
            is_silent = connection.is_retired or not heard
            connection.silent_ticks = connection.silent_ticks + 1 if is_silent else 0
            if connection.silent_ticks >= settings.silent_ticks:
                silent_s = settings.silent_ticks * settings.tick_s
                connection.abort(TimeoutError(f"silent for {silent_s:g} s"))
            elif measures or not connection.has_sent:
                connection.ping()
            connection.has_sent = False
        current = self._current
        if current is not None and self._dialling is None:
            age_s = time.monotonic() - self._established_at
            is_old = self._decides and age_s > settings.renew_s
            if current.channel.is_exhausted or is_old:
                self._renew(current)

    def state(self) -> LinkState:
        """Return how the link is."""
        current, connections = self._current, self._connections
        round_trip_s = current.channel.round_trip_s if current is not None else None
        return LinkState(
            self.address.server,
            self._state,
            time.monotonic() - self._since,
            None if round_trip_s is None else round_trip_s * 1e3,
            self._sent_bytes + sum(one.sent_bytes for one in connections),
            self._received_bytes + sum(one.received_bytes for one in connections),
            self._queued_bytes + sum(one.queued_bytes for one in connections),
            self._dropped,
            self._last_error,
        )

    def close(self, end: Callable[[MeshConnection], None]) -> list[asyncio.Future[None]]:
        """Give the link up; return what is done when its connections are gone."""
        self._is_closed = True
        waited: list[asyncio.Future[None]] = [one.closed for one in self._connections]
        if self._dialling is not None:
            waited.append(self._dialling[0])
        self._stop_dialling()
        self._current = None
        for connection in list(self._connections):
            end(connection)
        return waited

    # What connections tell

    def on_opened(self, connection: MeshConnection) -> None:
        """Do nothing: the handshake comes first."""

    def on_established(self, connection: MeshConnection) -> None:
        """Use a connection whose other side has proved to be this server."""
        if self._is_closed:
            connection.abort(ConnectionAbortedError("no longer known"))
            return
        if self._dialling is not None and self._dialling[1] is connection:
            self._dialling = None
        self._stop_dialling()
        if self._decides:
            for other in self._connections:
                other.retire()
        elif len(self._connections) >= _MOST_CONNECTIONS:
            self._connections[0].abort(ConnectionAbortedError("too many connections"))
        self._connections.append(connection)
        self._current, self._established_at = connection, time.monotonic()
        self._wait_s = 0.0
        self._become("connected", "")
        connection.ping()  # at the dialling side this is what establishes the other side
        queue, self._queue, self._queued_bytes = self._queue, deque(), 0
        self._dropped += sum(not connection.send(data) for data in queue)

    def on_messages(self, connection: MeshConnection, messages: list[bytes]) -> None:
        """Hand messages on; a bug there must not end the connection."""
        for message in messages:
            if self._is_closed:
                return
            try:
                self._on_message(self.address.server, message)
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": "a message of another server failed", "exception": error}
                )

    def on_ended(self, connection: MeshConnection) -> None:
        """Go on with another connection, or dial again after a while."""
        if connection is self._current:
            usable = [one for one in self._connections if not one.is_retired]
            self._current = usable[-1] if usable else None
            if self._current is None:
                error = connection.error or ConnectionResetError("closed by the other side")
                self._wait("waiting", f"connection lost: {_text(error)}")

    def on_closed(self, connection: MeshConnection) -> None:
        """Forget a connection; the task that dials notices that a handshake failed."""
        if connection in self._connections:
            connection.is_retired = True
            self._connections.remove(connection)
            self._sent_bytes += connection.sent_bytes
            self._received_bytes += connection.received_bytes
            self.on_ended(connection)

    # Dialling

    def _renew(self, current: MeshConnection) -> None:
        """Send nothing more on a connection, and have another one instead."""
        self._current = None
        current.retire()
        if self._dialling is None:
            self._dial()

    def _dial(self) -> None:
        self._retry = None
        channel = StreamChannel.dial(
            static=self._identity.private_key,
            ephemeral=os.urandom(32),
            peer_key=self.address.public_key,
            settings=self._settings.stream,
        )
        connection = MeshConnection(channel, self, self._settings.write_limit_bytes)
        self._dialling = self._loop.create_task(self._connect(connection)), connection
        self._become("connecting", self._last_error)

    async def _connect(self, connection: MeshConnection) -> None:
        address, settings = self.address, self._settings
        state: State = "waiting"
        try:
            async with asyncio.timeout(settings.handshake_s):
                await self._loop.create_connection(lambda: connection, address.host, address.port)
                await connection.settled
            if connection.channel.is_established:
                return
            state, error = "refused", f"refused in the handshake: {_text(connection.error)}"
        except TimeoutError:
            error = f"no answer within {settings.handshake_s:g} s"
        except Exception as problem:  # of many kinds: names, addresses, the network
            error = _text(problem)
        finally:
            if not connection.channel.is_established:
                connection.abort(ConnectionAbortedError("given up"))
        if self._dialling is not None and self._dialling[1] is connection:
            self._dialling = None
            self._wait(state, error)

    def _wait(self, state: State, error: str) -> None:
        if not self._is_closed:
            self._become(state, error)
            settings = self._settings
            self._wait_s = next_wait_s(
                self._wait_s, settings.longest_retry_s, settings.first_retry_s
            )
            # up to half of it less: servers that lost each other do not come back in step
            delay_s = self._wait_s * (1 - random() / 2)
            self._retry = self._loop.call_later(delay_s, self._dial)

    def _stop_dialling(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if self._dialling is not None:
            self._dialling[0].cancel()
        self._retry = self._dialling = None

    def _become(self, state: State, error: str) -> None:
        self._state, self._since, self._last_error = state, time.monotonic(), error


def _text(error: Exception | None) -> str:
    return str(getattr(error, "strerror", None) or error or "closed")
