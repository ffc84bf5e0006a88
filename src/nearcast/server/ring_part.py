"""All of a server that stands on the ring of the overlay."""

from __future__ import annotations

from nearcast.server.directory import Directory
from nearcast.server.flow_finder import FlowFinder
from nearcast.server.overlay_part import Chance, OverlayPart
from nearcast.server.peers import Peers
from nearcast.server.site_orders import Orders

__all__ = ["RingPart"]


class RingPart:
    """The overlay peer of a server, with the parts that use it."""

    def __init__(self, peers: Peers, chance: Chance) -> None:
        self._server = peers.server
        self.overlay = OverlayPart(peers, chance)
        self.directory = Directory(peers, self.overlay)
        self.finder = FlowFinder(self.overlay)

    def obey(self, orders: Orders, now: float) -> None:
        """Take new orders; the peers know their servers already."""
        self.overlay.obey(now)
        here = [one.client for one in orders.clients if one.home == self._server]
        brokered = [one.topic for one in orders.topics if self._server in one.brokers]
        self.directory.obey(here, brokered, now)

    def on_timer(self, now: float) -> None:
        """Do what has become due."""
        self.overlay.on_timer(now)
        self.directory.on_timer(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return min(self.overlay.next_wakeup(), self.directory.next_wakeup())

    def losses(self) -> dict[str, int]:
        """Return what was dropped, refused or given up, by reason."""
        found = self.overlay.losses()
        for name, count in (
            ("claims_refused", self.directory.refused),
            ("finds_refused", self.finder.refused),
        ):
            if count:
                found[name] = count
        return found
