"""The last orders of the manager as it signed them, kept for a start without it."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from nearcast.errors import OutputError
from nearcast.links.secret_file import write_secret

__all__ = ["OrdersFile"]

_log = logging.getLogger(__name__)


class OrdersFile:
    """Keeps orders durably: what a server has obeyed it still obeys after a power cut."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unsaved = b""

    def load(self) -> bytes | None:
        """Return the document that was kept, None when there is none that can be read."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("orders_unreadable", extra={"fields": {"reason": str(error)}})
            return None

    def save(self, document: bytes) -> bool:
        """Keep orders; False when that fails, for lack of room, say: `retry` after a while.

        It waits for the disk: orders are rare, and nobody may hear what follows from them before.
        """
        self._unsaved = document
        try:
            self._write()
        except OutputError as error:
            _log.warning("orders_not_saved", extra={"fields": {"reason": str(error)}})
            return False
        return True

    def retry(self) -> None:
        """Keep the orders that could not be kept, if there are any."""
        if self._unsaved:
            with contextlib.suppress(OutputError):
                self._write()

    def _write(self) -> None:
        write_secret(self._path, self._unsaved)
        self._unsaved = b""
