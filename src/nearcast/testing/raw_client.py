"""A client without manners: has a session, seals and sends whatever it is told to."""

from __future__ import annotations

from nearcast.testing.simulated_world import SimulatedWorld
from nearcast.wire.actions import Home, SendDatagram
from nearcast.wire.channel import Channel
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.codec import Refused
from nearcast.wire.framing import Kind, read_header
from nearcast.wire.messages import Init
from nearcast.wire.settings import Address

__all__ = ["RawClient"]


class RawClient:
    """Opens a session and keeps all that it gets, unread.

    Parameters
    ----------
    key
        Its X25519 private key.
    """

    def __init__(
        self, world: SimulatedWorld, name: str, key: bytes, home: Home, credential: bytes = b""
    ) -> None:
        self._world, self.name, self.home, self._credential = world, name, home, credential
        self._key = key
        self.handshake = self._new_handshake()
        self.channel: Channel | None = None
        """Of its last session; None before the first."""
        self.epoch = 0
        """Of the last publication that it made up."""
        self.received: list[bytes] = []
        self.sent: list[bytes] = []
        world.on_datagram[name] = self._on_datagram

    @property
    def address(self) -> Address:
        """Where it is."""
        return self.name, 1

    def connect(self) -> None:
        """Send an INIT; the session is there when its answer has come."""
        self.handshake = self._new_handshake()
        self.send(self.init())

    def init(self) -> bytes:
        """Return a new INIT of this client."""
        init = Init(credential=self._credential)
        return self.handshake.write_init(init, self._world.now).data

    def seal(self, payload: bytes) -> bytes:
        """Return a sealed datagram of the session."""
        if self.channel is None:
            raise RuntimeError(f"{self.name} has no session")
        return self.channel.seal(payload)

    def send(self, data: bytes) -> None:
        """Send bytes to the home."""
        self.sent.append(data)
        self._world.send_datagram(self.name, self.address, SendDatagram(self.home.address, data))

    def _new_handshake(self) -> ClientHandshake:
        world = self._world
        random_bytes = world.random.randbytes
        return ClientHandshake(self._key, self.home, random_bytes, world.wire, world.now)

    def _on_datagram(self, data: bytes, _source: Address, _port: int) -> None:
        self.received.append(data)
        header = read_header(data)
        try:
            if header.kind is Kind.ACKNOWLEDGE and header.receiver == self.handshake.index:
                self.channel, _ = self.handshake.read_acknowledge(data)
            elif header.kind is Kind.COOKIE:
                self.handshake.read_cookie(data, self._world.now)
                self.send(self.init())
        except Refused:
            return
