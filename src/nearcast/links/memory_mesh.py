"""The mesh of servers that live in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from nearcast.links.mesh import LinkState, OnMeshMessage, PeerAddress

__all__ = ["MemoryHub", "MemoryMesh"]

Drop = Callable[[str, str, bytes], bool]
"""Gets sender, receiver and bytes; says whether this message is lost."""


class MemoryHub:
    """Connects the links that it makes; what is sent to a server that is away is lost.

    Parameters
    ----------
    drop
        Decides which messages get lost; none by default.
    """

    def __init__(self, drop: Drop | None = None) -> None:
        self._drop = drop
        self._present: dict[str, OnMeshMessage] = {}

    def link(self, server_id: str) -> MemoryMesh:
        """Return a server's link; a later one of the same id takes its place when it starts."""
        return MemoryMesh(self, server_id)

    def join(self, server_id: str, on_message: OnMeshMessage) -> None:
        """Deliver here what is sent to a server."""
        self._present[server_id] = on_message

    def leave(self, server_id: str, on_message: OnMeshMessage) -> None:
        """Deliver there no longer, unless another has taken the place."""
        if self._present.get(server_id) is on_message:
            del self._present[server_id]

    def carry(self, sender: str, receiver: str, data: bytes) -> None:
        """Deliver in the loop's next pass, in order; to the endpoints that exist at that point."""
        if self._drop is None or not self._drop(sender, receiver, data):
            asyncio.get_running_loop().call_soon(self._arrive, sender, receiver, data)

    def _arrive(self, sender: str, receiver: str, data: bytes) -> None:
        on_message = self._present.get(receiver)
        if on_message is not None:
            on_message(sender, data)


class MemoryMesh:
    """One server's `MeshLink` at a hub."""

    def __init__(self, hub: MemoryHub, server_id: str) -> None:
        self._hub, self._server_id = hub, server_id
        self._on_message: OnMeshMessage | None = None

    async def start(self, on_message: OnMeshMessage) -> None:
        """Be present at the hub."""
        self._on_message = on_message
        self._hub.join(self._server_id, on_message)

    def send(self, to_server: str, data: bytes) -> None:
        """Hand bytes to the hub; nothing is sent before `start` or after `close`."""
        if self._on_message is not None:
            self._hub.carry(self._server_id, to_server, data)

    def learn(self, peers: Iterable[PeerAddress]) -> None:
        """Do nothing: the hub knows all."""

    def states(self) -> list[LinkState]:
        """Return nothing: there is no link that could fail."""
        return []

    @property
    def rejected(self) -> Mapping[str, int]:
        """Nothing: the hub accepts all."""
        return {}

    async def close(self) -> None:
        """Leave the hub."""
        if self._on_message is not None:
            self._hub.leave(self._server_id, self._on_message)
            self._on_message = None
