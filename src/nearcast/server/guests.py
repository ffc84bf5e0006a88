"""Clients that came although this is not their home: taken in until somebody says where it is."""

from __future__ import annotations

from collections.abc import Callable

from nearcast.server.directory import Directory
from nearcast.server.mesh_messages import ClientIs, WhereIs
from nearcast.server.peers import Peers
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.site_orders import ClientOrder, Orders

__all__ = ["Guests"]

_ASK_AGAIN_S = 10.0
_MANAGER_ANSWERS_S = 2.0
"""After it the directory is asked too."""


class Guests:
    """Asks the manager about clients that the orders do not name.

    While it does not answer, a guest is served as at its home, and the directory is asked. Who
    claims there to be the home has to show its orders.

    Parameters
    ----------
    learn
        Takes what is known about a guest.
    shown
        Orders of servers that claim to be homes.
    homes
        The directory.
    """

    def __init__(
        self,
        peers: Peers,
        learn: Callable[[ClientOrder, float], None],
        shown: ShownOrders,
        homes: Directory,
    ) -> None:
        self._peers, self._learn, self._shown, self._homes = peers, learn, shown, homes
        self._revision = 0
        self._look_at: dict[str, float] = {}
        """Guests of whom the manager says nothing, and when to look into the directory."""
        self._claimed: dict[str, dict[str, None]] = {}
        """By server that claims to be the home of guests: those."""
        shown.listeners.append(self._on_shown)
        homes.on_claims = self._on_claims
        self._ask_at: dict[str, float] = {}
        """Guests that nobody has said anything about, and when to ask again."""
        peers.on(ClientIs, self._on_answer)

    def __len__(self) -> int:
        return len(self._ask_at)

    def arrived(self, client: str, now: float) -> None:
        """Ask where a client belongs."""
        if not self._peers.manager:
            return  # a server on its own is everybody's home
        self._ask_at[client] = now + _ASK_AGAIN_S
        self._look_at.setdefault(client, now + _MANAGER_ANSWERS_S)
        self._peers.send(self._peers.manager, WhereIs(client))

    def left(self, client: str) -> None:
        """Forget a client that is gone."""
        self._ask_at.pop(client, None)
        self._look_at.pop(client, None)
        self._homes.forget(client)
        for clients in self._claimed.values():
            clients.pop(client, None)

    def obey(self, orders: Orders) -> None:
        """Note the orders here: what others show has to be as new."""
        self._revision = orders.revision
        self._claimed.clear()

    def on_timer(self, now: float) -> None:
        """Ask again about those of whom nothing was heard; a channel repeats by itself."""
        for client in [one for one, due in self._look_at.items() if due <= now]:
            self._look_at[client] = now + _ASK_AGAIN_S
            self._homes.ask(client, now)
        if self._peers.unacknowledged(self._peers.manager):
            return
        for client in [one for one, due in self._ask_at.items() if due <= now]:
            self.arrived(client, now)

    def _on_answer(self, server: str, message: ClientIs, now: float) -> None:
        if server != self._peers.manager:
            raise ValueError(f"only {self._peers.manager!r} says where clients belong")
        # without an order it stays; later orders may name it
        is_guest = message.client in self._ask_at
        self.left(message.client)
        order = message.order
        if is_guest and order is not None and order.client == message.client:
            self._learn(order, now)

    def _on_claims(self, client: str, servers: tuple[str, ...], now: float) -> None:
        for server in servers:
            if client in self._ask_at and server in self._peers.others:
                self._claimed.setdefault(server, {})[client] = None
                self._shown.ask(server, now)

    def _on_shown(self, server: str, orders: Orders, now: float) -> None:
        claimed = self._claimed.get(server)
        if not claimed or orders.revision < self._revision:
            return  # by older orders it may have been the home
        for order in orders.clients:
            if order.client in claimed and order.home == server:
                self.left(order.client)
                self._learn(order, now)
