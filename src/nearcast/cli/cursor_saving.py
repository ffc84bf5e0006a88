"""How far ``nearcast client subscribe --resume`` has heard, written to a file meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nearcast.errors import OutputError
from nearcast.sdk.cursor_file import save_cursors
from nearcast.sdk.sync_client import SyncClient

__all__ = ["saving"]

_SAVE_EVERY_S = 5.0


@contextmanager
def saving(listener: SyncClient, path: Path | None) -> Iterator[None]:
    """Write how far a client has heard, now and then and at the end."""
    if path is None:
        yield
        return
    ended = threading.Event()

    def save_again() -> None:
        while not ended.wait(_SAVE_EVERY_S):
            with suppress(OutputError):  # a full disk, say: the next time, or at the end
                save_cursors(listener.cursors, path)

    thread = threading.Thread(target=save_again, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        save_cursors(listener.cursors, path)
