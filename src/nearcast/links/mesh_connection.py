"""One TCP connection between two servers: a sealed stream on a transport of the event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from typing import Protocol, cast

from nearcast.wire.stream_channel import StreamChannel, StreamError

__all__ = ["ConnectionOwner", "MeshConnection"]


class ConnectionOwner(Protocol):
    """What a connection tells about itself, in the event loop."""

    def on_opened(self, connection: MeshConnection) -> None:
        """Take note that the transport is there; called once."""
        ...

    def on_established(self, connection: MeshConnection) -> None:
        """Take note that the other side has proved its key; called once at most."""
        ...

    def on_messages(self, connection: MeshConnection, messages: list[bytes]) -> None:
        """Take messages, after `on_established`; must not raise."""
        ...

    def on_ended(self, connection: MeshConnection) -> None:
        """Take note that the other side sends nothing more, and that it will be closed."""
        ...

    def on_closed(self, connection: MeshConnection) -> None:
        """Take note of the end, with the reason in `error`; called once after `on_opened`."""
        ...


class MeshConnection(asyncio.Protocol):
    """A connection, dialled or accepted.

    Parameters
    ----------
    channel
        The state machine of the stream.
    owner
        Is told what happens; may be replaced.
    write_limit_bytes
        When more waits to be written, messages are dropped until half of it has gone.
    """

    def __init__(
        self,
        channel: StreamChannel,
        owner: ConnectionOwner,
        write_limit_bytes: int,
    ) -> None:
        self.channel, self.owner = channel, owner
        self._write_limit_bytes = write_limit_bytes
        self._transport: asyncio.Transport | None = None
        self._is_full = False
        self.is_retired = False
        """Whether it only reads what is under way: another connection takes its place."""
        self.has_heard = False
        """Whether anything has come since the keep-alive last looked."""
        self.has_sent = False
        self.silent_ticks = 0
        """How often the keep-alive has looked in vain."""
        self.sent_bytes = self.received_bytes = 0
        self.error: Exception | None = None
        loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[None] = loop.create_future()
        """Done when the handshake is, or when it failed."""
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done when the transport is gone."""

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first handshake message, if this is the dialling side."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=self._write_limit_bytes)
        self.owner.on_opened(self)
        try:
            self.channel.begin()
        except StreamError as error:
            self.abort(error)
        else:
            self._flush()

    def data_received(self, data: bytes) -> None:
        """Open what came; whatever is wrong with it ends this connection and nothing else."""
        channel = self.channel
        self.has_heard = True
        self.received_bytes += len(data)
        was_established = channel.is_established
        try:
            messages = channel.receive(data, time.monotonic())
        except StreamError as error:
            self.abort(error)
            return
        if not was_established and channel.is_established:
            if not self.settled.done():  # nobody waits for it any more
                self.settled.set_result(None)
            self.owner.on_established(self)
        self._flush()
        if messages:
            self.owner.on_messages(self, messages)

    def eof_received(self) -> None:
        """Send nothing more either: what would be written now could be lost."""
        self.is_retired = True
        self.owner.on_ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner."""
        self._transport = None
        self.error = self.error or exc or ConnectionResetError("closed by the other side")
        for waited in (self.settled, self.closed):
            if not waited.done():
                waited.set_result(None)
        self.owner.on_closed(self)

    def pause_writing(self) -> None:
        """Drop messages from now on."""
        self._is_full, self.channel.answers_pings = True, False

    def resume_writing(self) -> None:
        """Take messages again."""
        self._is_full, self.channel.answers_pings = False, True

    # What the owner calls

    def send(self, message: bytes) -> bool:
        """Write a message; False when there is no room for it or the connection is over."""
        if self._is_full or self.is_retired:
            return False
        try:
            self.channel.send(message)
        except StreamError:
            return False
        self._flush()
        return True

    def ping(self) -> None:
        """Send a keep-alive and ask for one."""
        if not self._is_full and self.channel.is_established:
            try:
                self.channel.ping(time.monotonic())
            except StreamError as error:
                self.abort(error)
            else:
                self._flush()

    def retire(self) -> None:
        """Send nothing more; take what the other side has sent until it closes too."""
        if not self.is_retired:
            self.is_retired = True
            if self._transport is not None and not self._transport.is_closing():
                with suppress(RuntimeError):  # as in `_flush`
                    self._transport.write_eof()

    def close(self) -> None:
        """Write what waits, and end."""
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: Exception) -> None:
        """End at once."""
        self.error = self.error or error
        if self._transport is not None:
            self._transport.abort()

    @property
    def remote_host(self) -> str:
        """The address that the other side has."""
        name = self._transport.get_extra_info("peername") if self._transport else None
        return str(name[0]).removeprefix("::ffff:") if name else ""

    @property
    def queued_bytes(self) -> int:
        """What waits to be written."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    def _flush(self) -> None:
        output = self.channel.take_output()
        if output and self._transport is not None and not self.is_retired:
            self.has_sent = True
            self.sent_bytes += len(output)
            with suppress(RuntimeError):  # uvloop: it is lost, and `connection_lost` comes soon
                self._transport.write(output)
