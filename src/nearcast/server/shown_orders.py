"""Orders that another server shows: the proof that it acts by newer ones than those here.

A claim may be made by orders that have not come here yet. The manager signs the orders of each
server, so the claimer shows its own, and nobody has to be believed.
"""

from __future__ import annotations

from collections.abc import Callable

from nearcast.errors import TrustError
from nearcast.server.peers import Peers
from nearcast.server.proof_messages import OrdersShown, ShowOrders
from nearcast.server.signed_orders import read_orders
from nearcast.server.site_orders import Orders
from nearcast.trust.site_trust import SiteTrust

__all__ = ["ShownOrders"]

_ASK_AGAIN_S = 2.0
_TELL_AGAIN_S = 1.0


class ShownOrders:
    """What others have shown, and what this server shows."""

    def __init__(self, peers: Peers, trust: SiteTrust) -> None:
        self._peers, self._trust = peers, trust
        self._document = b""
        """The signed orders in force here."""
        self._revision = 0
        """Theirs."""
        self._versions: dict[str, dict[str, int]] = {}
        """By server: versions of the topics' assignments by which it is a broker."""
        self._revisions: dict[str, int] = {}
        self._asked_at: dict[str, float] = {}
        self._unanswered: dict[str, None] = {}
        self._told_at: dict[str, float] = {}
        """By server: when it was last shown the orders here, which may be long."""
        self.listeners: list[Callable[[str, Orders, float], None]] = []
        """Hear what a server has shown, by which it may say whose home it is."""
        peers.on(ShowOrders, self._on_show)
        peers.on(OrdersShown, self._on_shown)

    def is_broker(self, server: str, topic: str, version: int) -> bool:
        """Tell whether a server has shown that it is a broker by this version, or a later one."""
        return self._versions.get(server, {}).get(topic, -1) >= version

    def ask(self, server: str, now: float) -> None:
        """Ask a server for its orders."""
        if now - self._asked_at.get(server, float("-inf")) >= _ASK_AGAIN_S:
            self._asked_at[server] = now
            self._unanswered[server] = None
            self._peers.send(server, ShowOrders())

    def has_shown(self, server: str) -> bool:
        """Tell whether a server has shown its orders, and they are no older than those here.

        One that has just started may go by older ones until it hears of others.
        """
        return self._revisions.get(server, -1) >= self._revision

    def obey(self, document: bytes, revision: int) -> None:
        """Take new orders; what others have shown may be older, and a server may have left."""
        self._document, self._revision = document, revision
        self._versions.clear()
        self._revisions.clear()
        self._asked_at.clear()
        self._unanswered.clear()
        self._told_at.clear()

    def _on_show(self, server: str, _message: ShowOrders, now: float) -> None:
        is_early = now - self._told_at.get(server, float("-inf")) < _TELL_AGAIN_S
        if self._document and not is_early:
            self._told_at[server] = now
            self._peers.send(server, OrdersShown(self._document))

    def _on_shown(self, server: str, message: OrdersShown, now: float) -> None:
        if server not in self._unanswered:
            raise TrustError("its orders were not asked for")
        del self._unanswered[server]  # one signature to check for each question
        orders = read_orders(message.document, self._trust, server)
        if orders.revision > self._revisions.get(server, 0):
            self._revisions[server] = orders.revision
            self._versions[server] = {
                one.topic: one.version
                for one in orders.topics
                if server in one.brokers or server == orders.cloud
            }
        for listener in self.listeners:
            listener(server, orders, now)
