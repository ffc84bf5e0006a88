"""A server's post: what goes to other servers, into its own log and to the manager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from nearcast.broker.messages import Message, encode_message
from nearcast.server.mesh_messages import Copies, MeshMessage, encode_mesh
from nearcast.server.node_settings import NodeSettings
from nearcast.server.outputs import Incident, Outputs
from nearcast.server.peer_channels import PeerChannels

__all__ = ["MeshDesk"]


class MeshDesk:
    """Gathers what a pass wants done.

    Parameters
    ----------
    channels
        To the other servers.
    clock
        The time now, as the `now` of events: to measure what processing takes.
    """

    def __init__(
        self, settings: NodeSettings, channels: PeerChannels, clock: Callable[[], float]
    ) -> None:
        self.settings, self._channels, self._clock = settings, channels, clock
        self.counts: Counter[str] = Counter()
        """What happened so far, by name; for metrics and the manager."""
        self._others: dict[str, None] = {}
        """All other servers of the site."""
        self._out = Outputs()

    def _send(self, server: str, message: MeshMessage) -> None:
        self._channels.send(server, encode_mesh(message))

    def _send_copies(self, server: str, topic: str, messages: Iterable[Message]) -> None:
        self._send(server, Copies(topic, tuple(map(encode_message, messages))))

    def _broadcast(self, message: MeshMessage) -> None:
        data = encode_mesh(message)
        for server in self._others:
            self._channels.send(server, data)

    def _incident(self, event: str, **fields: object) -> None:
        self._out.incidents.append(Incident(event, fields))
