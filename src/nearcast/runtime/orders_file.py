"""The last orders of the manager, kept for a start without it."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from nearcast.server.site_orders import Orders

__all__ = ["load_orders", "save_orders"]

_log = logging.getLogger(__name__)


def load_orders(path: Path) -> Orders | None:
    """Return the orders that were kept, None when there are no readable ones."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Orders)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("orders_unreadable", extra={"fields": {"reason": str(error)}})
        return None


def save_orders(path: Path, orders: Orders) -> None:
    """Keep the orders for a start without the manager; a failure costs no more than that."""
    part = path.with_suffix(".part")
    try:
        part.write_bytes(msgspec.msgpack.encode(orders))
        part.replace(path)
    except OSError as error:
        _log.warning("orders_not_saved", extra={"fields": {"reason": str(error)}})
