"""The last orders of the manager as it signed them, kept for a start without it."""

from __future__ import annotations

import logging
from pathlib import Path

from nearcast.errors import OutputError
from nearcast.links.secret_file import write_secret

__all__ = ["load_orders", "save_orders"]

_log = logging.getLogger(__name__)


def load_orders(path: Path) -> bytes | None:
    """Return the document that was kept, None when there is none that can be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("orders_unreadable", extra={"fields": {"reason": str(error)}})
        return None


def save_orders(path: Path, document: bytes) -> None:
    """Keep the orders for a start without the manager; a failure costs no more than that."""
    try:
        write_secret(path, document, sync=False)
    except OutputError as error:
        _log.warning("orders_not_saved", extra={"fields": {"reason": str(error)}})
