"""Orders as they travel and are kept: signed, and for one server."""

from __future__ import annotations

import msgspec

from nearcast.errors import TrustError
from nearcast.server.site_orders import Orders
from nearcast.trust.credentials import read_body
from nearcast.trust.signed import Kind, SigningKey
from nearcast.trust.site_trust import SiteTrust

__all__ = ["read_orders", "sign_orders"]


def sign_orders(key: SigningKey, orders: Orders) -> bytes:
    """Return the signed document."""
    return key.sign(Kind.ORDERS, msgspec.msgpack.encode(orders))


def read_orders(document: bytes, trust: SiteTrust, server: str) -> Orders:
    """Return orders that somebody signed who may.

    Raises
    ------
    TrustError
        When they do not count here.
    """
    body = trust.open(Kind.ORDERS, document)
    orders = read_body(body, Orders)
    if orders.server != server:
        raise TrustError(f"orders for server {orders.server!r}")
    return orders
