"""A connection whose transport dies before anybody is told."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from nearcast.links.mesh_connection import MeshConnection
from nearcast.wire.noise import public_key
from nearcast.wire.stream_channel import StreamChannel


def test_writing_to_a_transport_that_was_just_lost_raises_nothing() -> None:
    async def main() -> None:
        channel = StreamChannel.dial(
            static=bytes([1] * 32), ephemeral=bytes([2] * 32), peer_key=public_key(bytes([3] * 32))
        )
        connection = MeshConnection(channel, Mock(), 1 << 20)
        lost = RuntimeError("unable to perform operation on <TCPTransport closed=True ...>")
        transport = Mock(**{"is_closing.return_value": False})
        transport.get_extra_info.return_value = None
        transport.write.side_effect = transport.write_eof.side_effect = lost
        connection.connection_made(transport)  # writes the first message of the handshake
        connection.retire()
        assert transport.write.called
        assert transport.write_eof.called

    asyncio.run(main())
