"""A mesh with the distances of a site: each message waits at its sender."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from nearcast.links.delay_line import DelayLine
from nearcast.links.mesh import LinkState, MeshLink, OnMeshMessage, PeerAddress

__all__ = ["EmulatedMesh"]


class EmulatedMesh:
    """Another link with delays in front of it.

    Parameters
    ----------
    link
        What carries the messages.
    delays_s
        One way, by server; to servers that are not named there is no delay.
    """

    def __init__(self, link: MeshLink, delays_s: Mapping[str, float]) -> None:
        self._link = link
        self._delays_s = dict(delays_s)
        self._line: DelayLine[tuple[str, bytes]] | None = None

    async def start(self, on_message: OnMeshMessage) -> None:
        """Start the link below."""
        await self._link.start(on_message)
        self._line = DelayLine(asyncio.get_running_loop(), self._send_due)

    def send(self, to_server: str, data: bytes) -> None:
        """Send after the delay; nothing is sent before `start` or after `close`."""
        if self._line is not None:
            self._line.push((to_server, data), self._delays_s.get(to_server, 0.0))

    def learn(self, peers: Iterable[PeerAddress]) -> None:
        """Tell the link below."""
        self._link.learn(peers)

    def states(self) -> list[LinkState]:
        """Return what the link below says."""
        return self._link.states()

    @property
    def rejected(self) -> Mapping[str, int]:
        """What the link below says."""
        return self._link.rejected

    async def close(self) -> None:
        """Close the link below; what still waits is lost."""
        if self._line is not None:
            self._line.close()
            self._line = None
        await self._link.close()

    def _send_due(self, due: list[tuple[str, bytes]]) -> None:
        for to_server, data in due:
            self._link.send(to_server, data)
