"""A folder of pictures and pages that may be drawn again into the same place."""

from __future__ import annotations

import os
from pathlib import Path

from nearcast.errors import OutputError

__all__ = ["prepare_report_folder"]


def prepare_report_folder(folder: Path) -> None:
    """Make the folder, or raise an error before the long work whose pictures it takes.

    Earlier pictures in it are drawn over; other files stay.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise OutputError(f"{folder}: cannot be made: {reason.strerror}") from reason
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{folder}: no permission to write there")
