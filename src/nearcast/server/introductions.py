"""Introductions: a server that restarted or missed something is told all that it has to know.

A server that starts processes nothing before the others have told it their subscribers, or took
too long to do so.
"""

from __future__ import annotations

from collections.abc import Callable

from nearcast.server.mesh_messages import Manages, SyncDone
from nearcast.server.peers import Peers
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.topic_registry import TopicRegistry

__all__ = ["Introductions"]


class Introductions:
    """Keeps servers informed about topics and subscribers across restarts.

    Parameters
    ----------
    tell_subscribers
        Tells a server all subscribers at this one.
    inform_s
        How long a server that starts waits for the others.
    """

    def __init__(
        self,
        peers: Peers,
        topics: TopicRegistry,
        directory: SubscriberDirectory,
        tell_subscribers: Callable[[str], None],
        inform_s: float,
    ) -> None:
        self._peers, self._topics, self._directory = peers, topics, directory
        self._tell_subscribers, self._inform_s = tell_subscribers, inform_s
        self._uninformed_by: dict[str, None] | None = None
        """Servers that have not told of their subscribers since this one started; None while it
        has no orders, and so does not know how topics are processed."""
        self._informed_at = float("inf")
        peers.on(SyncDone, self._on_sync_done)

    def begin(self, now: float) -> None:
        """Note that this server has its first orders: it waits to be informed."""
        self._uninformed_by = dict(self._peers.others)
        self._informed_at = now + self._inform_s

    def is_informed(self, now: float) -> bool:
        """Tell whether all subscribers are known, or some server takes too long to tell."""
        return self._uninformed_by is not None and (
            not self._uninformed_by or now >= self._informed_at
        )

    def on_restarted(self, server: str) -> None:
        """Forget what a server told before it restarted, and tell it everything."""
        self._directory.forget_home(server)
        self._topics.on_restarted(server)
        self.introduce(server)

    def introduce(self, server: str) -> None:
        """Tell a server what it misses."""
        if server in self._peers.others:
            for topic in self._topics.shared_with(server):
                self._peers.send(server, Manages(topic, self._topics.is_past(topic)))
            self._tell_subscribers(server)
            self._peers.send(server, SyncDone())

    def _on_sync_done(self, server: str, _message: SyncDone, _now: float) -> None:
        if self._uninformed_by is not None:
            self._uninformed_by.pop(server, None)
