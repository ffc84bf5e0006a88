"""The file by which a program that starts again goes on hearing where it was."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nearcast.errors import ConfigError
from nearcast.links.secret_file import write_secret
from nearcast.wire.cursors import SavedCursors

__all__ = ["load_cursors", "save_cursors"]


def load_cursors(path: str | Path) -> SavedCursors | None:
    """Return what a program saved, None when there is no such file; ConfigError if it is wrong."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=SavedCursors)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: not a file of cursors: {error}") from None


def save_cursors(cursors: SavedCursors, path: str | Path) -> None:
    """Write how far a client has heard; a power cut leaves the old file or the new one."""
    write_secret(Path(path), msgspec.json.encode(cursors))
