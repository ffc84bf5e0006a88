"""Orders that another server shows: the proof that it acts by newer ones than those here.

A claim may be made by orders that have not come here yet. The manager signs the orders of each
server, so the claimer shows its own, and nobody has to be believed.
"""

from __future__ import annotations

from nearcast.errors import TrustError
from nearcast.server.mesh_messages import OrdersShown, ShowOrders
from nearcast.server.peers import Peers
from nearcast.server.signed_orders import read_orders
from nearcast.trust.site_trust import SiteTrust

__all__ = ["ShownOrders"]

_ASK_AGAIN_S = 2.0


class ShownOrders:
    """What others have shown, and what this server shows."""

    def __init__(self, peers: Peers, trust: SiteTrust) -> None:
        self._peers, self._trust = peers, trust
        self._document = b""
        """The signed orders in force here."""
        self._versions: dict[str, dict[str, int]] = {}
        """By server: versions of the topics' assignments by which it is a broker."""
        self._revisions: dict[str, int] = {}
        self._asked_at: dict[str, float] = {}
        peers.on(ShowOrders, self._on_show)
        peers.on(OrdersShown, self._on_shown)

    def is_broker(self, server: str, topic: str, version: int, now: float) -> bool:
        """Tell whether a server has shown that it is a broker by this version, or a later one.

        It is asked if it has not.
        """
        if self._versions.get(server, {}).get(topic, -1) >= version:
            return True
        if now - self._asked_at.get(server, float("-inf")) >= _ASK_AGAIN_S:
            self._asked_at[server] = now
            self._peers.send(server, ShowOrders())
        return False

    def obey(self, document: bytes) -> None:
        """Take new orders; what others have shown may be older, and a server may have left."""
        self._document = document
        self._versions.clear()
        self._revisions.clear()
        self._asked_at.clear()

    def _on_show(self, server: str, _message: ShowOrders, _now: float) -> None:
        if self._document:
            self._peers.send(server, OrdersShown(self._document))

    def _on_shown(self, server: str, message: OrdersShown, _now: float) -> None:
        if server not in self._asked_at:
            raise TrustError("its orders were not asked for")
        orders = read_orders(message.document, self._trust, server)
        if orders.revision > self._revisions.get(server, 0):
            self._revisions[server] = orders.revision
            self._versions[server] = {
                one.topic: one.version
                for one in orders.topics
                if server in one.brokers or server == orders.cloud
            }
