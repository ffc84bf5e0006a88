"""Clients that came although this is not their home: taken in until somebody says where it is."""

from __future__ import annotations

from collections.abc import Callable

from nearcast.server.mesh_messages import ClientIs, WhereIs
from nearcast.server.peers import Peers
from nearcast.server.site_orders import ClientOrder

__all__ = ["Guests"]

_ASK_AGAIN_S = 10.0


class Guests:
    """Asks the manager about clients that the orders do not name.

    While it does not answer, a guest is served as at its home.

    Parameters
    ----------
    learn
        Takes what the manager says about a guest.
    """

    def __init__(self, peers: Peers, learn: Callable[[ClientOrder, float], None]) -> None:
        self._peers, self._learn = peers, learn
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
        self._peers.send(self._peers.manager, WhereIs(client))

    def left(self, client: str) -> None:
        """Forget a client that is gone."""
        self._ask_at.pop(client, None)

    def on_timer(self, now: float) -> None:
        """Ask again about those of whom nothing was heard; a channel repeats by itself."""
        if self._peers.unacknowledged(self._peers.manager):
            return
        for client in [one for one, due in self._ask_at.items() if due <= now]:
            self.arrived(client, now)

    def _on_answer(self, server: str, message: ClientIs, now: float) -> None:
        if server != self._peers.manager:
            raise ValueError(f"only {self._peers.manager!r} says where clients belong")
        # without an order it stays; later orders may name it
        is_guest = self._ask_at.pop(message.client, None) is not None
        order = message.order
        if is_guest and order is not None and order.client == message.client:
            self._learn(order, now)
