"""The other servers: what is said to them, and which part hears what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from nearcast.errors import NearcastError, WireError
from nearcast.server.broker_messages import Copies
from nearcast.server.effects import Effects
from nearcast.server.mesh_messages import MeshMessage, decode_mesh, encode_mesh
from nearcast.server.peer_channels import PeerChannels
from nearcast.wire.publication import Publication

__all__ = ["Peers"]

T = TypeVar("T")
_COPIES_BYTES = 64 << 10
"""Records in one message of copies: a large spool goes in pieces."""
_FEW_COPIES = 64
"""That a broker misses: they go with all other messages, and hold them up for a moment only."""


class Peers:
    """Channels to all other servers of the site and to its manager.

    Parameters
    ----------
    manager
        The manager's id: heard like a server, though it is not one.
    """

    def __init__(self, server: str, manager: str, channels: PeerChannels, effects: Effects) -> None:
        self.server, self.manager = server, manager
        """The ids of this server and of the manager."""
        self._channels, self._effects, self.tables = channels, effects, effects.tables
        self.poll, self.next_wakeup = channels.poll, channels.next_wakeup
        """Frames to send now, each with the server it goes to; when to poll again at the latest."""
        self.incarnation = channels.incarnation
        """Another number after each start."""
        self._handlers: dict[type, Callable[[str, Any, float], None]] = {}
        self.others: dict[str, None] = {}
        """All other servers, as the orders name them."""
        self.is_closed_circle = False
        """Whether orders have said who the others are: nobody else is heard then."""

    def on(self, kind: type[T], handler: Callable[[str, T, float], None]) -> None:
        """Have a part hear messages of a kind: it gets the sender, the message and the time."""
        self._handlers[kind] = handler

    def receive(self, from_server: str, frame: bytes, now: float) -> tuple[list[str], list[bytes]]:
        """Take a frame; return the peers that have to be told everything, and the messages.

        Those peers have restarted, or missed something.
        """
        is_known = from_server in self.others or from_server == self.manager
        if self.is_closed_circle and not is_known:
            self._effects.counts["mesh_rejected_unknown_server"] += 1
            return [], []
        messages = self._channels.receive(from_server, frame, now)
        return self._channels.take_restarted(), messages

    def take_skipped(self) -> list[str]:
        """Return peers that had to drop messages for this server, before it takes later ones."""
        return self._channels.take_skipped()

    def take_gaps(self) -> list[str]:
        """Return peers that are back after messages to them had to be dropped."""
        return self._channels.take_gaps()

    def dispatch(self, from_server: str, messages: Iterable[bytes], now: float) -> None:
        """Give messages to the parts that hear them; what is wrong with one is counted."""
        for data in messages:
            if not data:
                continue  # withdrawn
            try:
                message = decode_mesh(data)
                handler = self._handlers.get(type(message))
                if handler is None:
                    raise WireError(f"{type(message).__name__} is not expected here")
                handler(from_server, message, now)
            except (NearcastError, ValueError, OverflowError) as error:
                self._effects.counts["mesh_refused"] += 1
                self._effects.incident("mesh_refused", server=from_server, reason=str(error))

    def learn(self, servers: Iterable[str]) -> list[str]:
        """Take the servers that orders name; return those that are new."""
        known, self.others = self.others, dict.fromkeys(servers)
        self.others.pop(self.server, None)
        self.is_closed_circle = True
        for server in self._channels.servers:
            if server not in self.others and server != self.manager:
                self._channels.forget(server)
        return [server for server in self.others if server not in known]

    def send(self, server: str, message: MeshMessage) -> None:
        """Say something to one server."""
        self._channels.send(server, encode_mesh(message))

    def send_urgently(self, server: str, message: MeshMessage) -> None:
        """Say something to one server before all that has not been sent to it."""
        self._channels.send(server, encode_mesh(message), urgent=True)

    def broadcast(self, message: MeshMessage) -> None:
        """Say something to all servers."""
        data = encode_mesh(message)
        for server in self.others:
            self._channels.send(server, data)

    def send_copies(
        self,
        server: str,
        topic: str,
        publications: Iterable[Publication],
        *,
        bulk: bool = False,
        wants_ack: bool = False,
    ) -> None:
        """Copy publications to another broker of their topic, in pieces.

        Bulk ones may wait for a while: they do not hold up other messages.
        """
        records: list[bytes] = []
        size = 0
        for publication in publications:
            record = publication.record()
            if records and size + len(record) > _COPIES_BYTES:
                self._send_records(server, topic, records, bulk, wants_ack)
                records, size = [], 0
            records.append(record)
            size += len(record)
        if records:
            self._send_records(server, topic, records, bulk, wants_ack)

    def send_missing(
        self, server: str, topic: str, found: Sequence[Publication], after: MeshMessage | None
    ) -> None:
        """Copy what another broker misses, and then say something; a long history is bulk."""
        is_long = len(found) > _FEW_COPIES
        self.send_copies(server, topic, found, bulk=is_long)
        if after is not None:
            self._channels.send(server, encode_mesh(after), bulk=is_long)

    def _send_records(
        self, server: str, topic: str, records: list[bytes], bulk: bool, wants_ack: bool
    ) -> None:
        message = encode_mesh(Copies(topic, tuple(records), wants_ack))
        self._channels.send(server, message, bulk=bulk)

    def unacknowledged(self, server: str) -> int:
        """Return how many messages a server has not taken."""
        return self._channels.waiting(server)

    def queued(self, server: str) -> int:
        """Return the number of the last message to a server, for `has_settled`."""
        return self._channels.queued(server)

    def has_settled(self, server: str, number: int) -> bool:
        """Tell whether a server has taken a message and all before it, or never will."""
        return self._channels.has_settled(server, number)

    def withdraw(self, server: str, kind: type[MeshMessage]) -> None:
        """Take back what was said to a server in messages of a kind, as far as it can be."""
        name = kind.__name__.encode()
        # as MessagePack writes it: an array that begins with the name of its kind
        head = bytes((0x91 + len(kind.__struct_fields__), 0xA0 + len(name)))
        self._channels.withdraw(server, head + name)

    def is_away(self, server: str, now: float, after_s: float) -> bool:
        """Tell whether a server has taken nothing for a while that was sent to it."""
        return self._channels.is_away(server, now, after_s)
