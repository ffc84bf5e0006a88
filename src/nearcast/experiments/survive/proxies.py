"""Proxies between clients and servers, and between servers, that can be cut: UDP and TCP."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["TcpProxy", "UdpProxy"]

Address = tuple[str, int]
_HOST = "127.0.0.1"
_PIECE_BYTES = 1 << 16


class UdpProxy:
    """Passes datagrams to a server and its answers back, unless it is cut."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self.cut_in = self.cut_out = False
        """Whether datagrams to the server, or its answers, are dropped."""
        self.port = 0
        self._front: asyncio.DatagramTransport | None = None
        self._backs: dict[Address, asyncio.DatagramTransport] = {}
        """Sockets towards the server, by client: the server sees each at an address of its own."""
        self._opening: dict[Address, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on a port of its own."""
        loop = asyncio.get_running_loop()
        self._front, _ = await loop.create_datagram_endpoint(
            lambda: _Receiver(self._on_client), local_addr=(_HOST, 0)
        )
        self.port = self._front.get_extra_info("sockname")[1]

    def close(self) -> None:
        """Let go of all sockets."""
        for transport in (self._front, *self._backs.values()):
            if transport is not None:
                transport.close()

    def _on_client(self, data: bytes, client: Address) -> None:
        if self.cut_in:
            return
        back = self._backs.get(client)
        if back is not None:
            back.sendto(data)
        elif client in self._opening:
            self._opening[client].append(data)
        else:
            self._opening[client] = [data]
            task = asyncio.create_task(self._open(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open(self, client: Address) -> None:
        def answer(data: bytes, _server: Address) -> None:
            if not self.cut_out and self._front is not None:
                self._front.sendto(data, client)

        loop = asyncio.get_running_loop()
        back, _ = await loop.create_datagram_endpoint(
            lambda: _Receiver(answer), remote_addr=self._server
        )
        self._backs[client] = back
        for data in self._opening.pop(client):
            back.sendto(data)


class _Receiver(asyncio.DatagramProtocol):
    """Hands datagrams on; a server that is away is no error."""

    def __init__(self, take: Any) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._take(data, addr)

    def error_received(self, _error: Exception) -> None:
        return


class TcpProxy:
    """Passes connections on to a server, unless it is cut: then they end, and new ones too."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._is_cut = False
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen on a port of its own."""
        self._listener = await asyncio.start_server(self._serve, _HOST, 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End all connections, and each that is opened from now on."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def heal(self) -> None:
        """Pass connections on again."""
        self._is_cut = False

    async def close(self) -> None:
        """Let go of everything."""
        self.cut()
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._server)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one end is gone, which ends the other."""
    try:
        while data := await reader.read(_PIECE_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.transport.abort()
