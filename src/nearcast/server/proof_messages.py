"""What servers show each other, so that none has to be believed; `mesh_messages` has the rest."""

from __future__ import annotations

from nearcast.server.broker_messages import MeshStruct

__all__ = ["HomeProved", "OrdersShown", "ProveHome", "ShowOrders", "Vouch", "WhoIs"]


class ShowOrders(MeshStruct, frozen=True):
    """A server to one that claims streams by an assignment that is not known here."""


class OrdersShown(MeshStruct, frozen=True):
    """Answer to ShowOrders: the sender's own orders, as the manager signed them."""

    document: bytes


class Vouch(MeshStruct, frozen=True):
    """A client's home to another server, before it speaks of the client: signed credentials."""

    credentials: tuple[bytes, ...]


class WhoIs(MeshStruct, frozen=True):
    """A server to one that spoke of clients for which nobody vouched."""

    clients: tuple[str, ...]


class ProveHome(MeshStruct, frozen=True):
    """A server to one that speaks for a client: let the client prove that it is there."""

    client: str
    nonce: bytes


class HomeProved(MeshStruct, frozen=True):
    """Answer to ProveHome."""

    client: str
    nonce: bytes
    tag: bytes = b""
    """As the client made it, see `wire.home_proof`; empty: the client is not there."""
